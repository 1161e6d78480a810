"""Aria (Li et al. 2024, arXiv 2410.05993): SigLIP's tower sees a picture of any size, as many vectors as its size needs
ask for all of it, and a language model with experts writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ArgumentError, ModelError
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.any_size import AnySizeTower
from pyapp.nn.vision.masks import MaskedAttention
from pyapp.nn.vision_language.picture_text import PictureTextModel

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import PictureTextConfig
from .loading.stored import Stored
from .loading.stored_experts import experts_transposed, stacks_renamed, with_experts_transposed
from .loading.towers_config import SiglipVisionConfig

MODEL_TYPES = ("aria",)
IMAGE_PROCESSOR = "Aria"  # of files that name none
IGNORED = r"(model\.)?vision_tower\.post_layernorm\..*"
KINDS = ("idefics3_vision", "idefics3", "aria_vision_model", "siglip_vision_model")
QUERIES = {1225: 128, 4900: 256}  # the usual vectors that ask, by the patches of the squares into which pictures fit
MOST = 1 << 14  # of these vectors


@dataclass(frozen=True, kw_only=True)
class TowerConfig(SiglipVisionConfig):
    """The fields of vision_config."""

    model_type = "idefics3_vision"
    patch = 32

    hidden_size: int = 1152
    num_attention_heads: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        require(max(self.patch_size) <= 256, f"patch_size is {self.patch_size}, expected at most 256")


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "aria"
    text = "aria_text"
    tower = "idefics3_vision"
    towers = dict.fromkeys(KINDS, TowerConfig)
    token = ("image_token_index", 9)

    def check(self) -> None:
        super().check()
        layer = self.values.get("vision_feature_layer", -1)
        require(type(layer) is int and layer == -1, f"vision_feature_layer is {layer!r:.60}, expected -1")
        assert self.queries

    @property
    def queries(self) -> dict[int, int]:
        """How many vectors ask for a picture, by the patches of the square into which it fits. ModelError for what
        cannot be.
        """
        given = self.values.get("projector_patch_to_query_dict")
        given = QUERIES if given is None else given
        try:
            found = {int(patches): int(count) for patches, count in given.items()}
        except (AttributeError, TypeError, ValueError, OverflowError):
            found = {}
        plausible = found and all(0 < patches <= 1 << 20 and 0 < count <= MOST for patches, count in found.items())
        if not plausible:
            raise ModelError(
                f"projector_patch_to_query_dict is {given!r:.60}, expected numbers of vectors by numbers of patches"
            )
        return found


class CrossAttention(Module):
    """What vectors that ask find in a picture."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (Linear(width, width, bias=False) for _ in range(3))
        self.multihead_attn = MaskedAttention(width, heads)
        self.linear = Linear(width, width)
        self.layer_norm, self.layer_norm_kv = LayerNorm(width), LayerNorm(width)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """x (B, N, W), source (B, S, W) → (B, N, W)."""
        source = self.layer_norm_kv(source)
        q, k, v = self.q_proj(self.layer_norm(x)), self.k_proj(source), self.v_proj(source)
        return self.linear(self.multihead_attn(q, k, v))


class Projector(Module):
    """As many vectors of the text's size as the size of a picture needs."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, made = config.vision_config.hidden_size, config.text_config.hidden_size
        self.query = new_parameter(ops.zeros, max(config.queries.values()), width)
        self.cross_attn = CrossAttention(width, config.vision_config.num_attention_heads)
        self.layer_norm = LayerNorm(width)
        self.feed_forward = Module()
        self.feed_forward.linear_in = Linear(width, made, bias=False)
        self.feed_forward.linear_out = Linear(made, made, bias=False)

    def forward(self, x: Tensor, count: int) -> Tensor:
        """x (B, T, W) → (B, count, D)."""
        asking = self.query.narrow(0, 0, count).unsqueeze(0).expand(x.shape[0], count, x.shape[2])
        inner, last = self.feed_forward.linear_in, self.feed_forward.linear_out
        return last(ops.gelu(inner(self.layer_norm(self.cross_attn(asking, x))), approximate="tanh"))


class AriaForConditionalGeneration(PictureTextModel):
    """Pictures and text to text. A picture has at most as many rows and columns of patches as a square for which there
    is a number of vectors; what is beyond its last row and column is not seen.
    """

    placeholder = part = "<|img|>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = AnySizeTower(config.vision_config, "Aria")
        self.vision_tower.post_layernorm = None  # which some files have, and nothing reads
        self.multi_modal_projector = Projector(config)
        self.counts = {round(patches**0.5): count for patches, count in config.queries.items()}
        self.side = max(self.counts)  # rows of patches of the square into which the processor's pictures fit

    @property
    def pixels(self) -> Any:
        """Any size."""
        return None

    @property
    def picture_tokens(self) -> int:
        return self.counts[self.side]

    def prepared_by(self, processor: Any) -> Any:
        """The processor with the side of patches, and the number of vectors for its pictures."""
        patch = self.config.vision_config.patch_size[0]
        processor = processor.adapted(patch_size=patch)
        side = processor.max_image_size // patch
        known = ", ".join(f"{patch * own}" for own in self.counts)
        require(side in self.counts, f"max_image_size is {processor.max_image_size}, expected one of {known}")
        self.side = side
        return processor

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        patch = self.config.vision_config.patch_size
        side = max(int(n) // own for n, own in zip(pixel_values.shape[2:], patch, strict=True))
        if side not in self.counts:
            raise ArgumentError(f"Aria: a picture has {side} rows or columns of patches, expected {[*self.counts]}")
        x = self.vision_tower.states(pixel_values)
        return self.multi_modal_projector(x, self.counts[side])

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters as Hugging Face's files have them, as those of the language model."""
        return with_experts_transposed(tensors)


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return picture_text.renamed(stacks_renamed(name))


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the stacks of experts."""
    shapes = {renamed(name): info.shape for name, info in tensors.items()}
    text, place = config.text_config, "language_model.model.layers.{}.mlp.experts"
    return experts_transposed(
        shapes, place, range(text.num_hidden_layers), text.hidden_size, text.intermediate_size
    )  # fmt: skip


TASKS: Mapping[str, Any] = {picture_text.TASK: AriaForConditionalGeneration}

"""MobileCLIP (Vasu et al. 2023, arXiv 2311.17049) and MobileCLIP2 (Faghri et al. 2025, arXiv 2508.20691): FastViT sees,
and a transformer reads texts, trained to give a picture and its text the same direction.

Parameters have the names of OpenCLIP's files (loading/open_clip.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Embedding, LayerNorm, Module, ModuleList, MultiheadAttention
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import check_ids
from pyapp.nn.vision.towers import OLDER_END, PictureAndText, at_ends
from pyapp.nn.vision.vision import check_pictures

from .loading.architectures import architecture
from .loading.config import object_of, read_config, require
from .loading.pictures_config import pair
from .loading.stored import Stored
from .loading.towers_config import ClipTextConfig

MODEL_TYPES = ("mobileclip",)
BASE = ""
IGNORED = r".*\.num_batches_tracked|text\.attn_mask"
WIDEST = 1 << 16  # numbers of a vector
NETWORK = "fastvit"


@dataclass(frozen=True, kw_only=True)
class TextConfig(ClipTextConfig):
    """The fields of the part for texts; causal: a token attends to those before it only."""

    hidden_act: str = "gelu"
    causal: bool = False


@dataclass(frozen=True)
class Config:
    """The configurations of both parts, the only size of pictures, and `values`, the whole object."""

    vision_config: Any
    text_config: TextConfig
    pixels: tuple[int, int]
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object that loading.open_clip makes of an open_clip_config.json."""
        vision, text = (dict(object_of(values, name)) for name in ("vision_config", "text_config"))
        width = values.get("embed_dim")
        require(type(width) is int and 1 <= width <= WIDEST, f"embed_dim is {width!r:.60}")
        network = architecture(NETWORK)
        made = network.Config.from_dict({**vision, "num_labels": width, "id2label": None})
        return cls(made, read_config(TextConfig, text), pair(values, "image_size", 256), dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        parts = {"vision_config": self.vision_config.to_dict(), "text_config": self.text_config.to_dict()}
        return {**self.values, "model_type": MODEL_TYPES[0]} | parts

    @property
    def vocab_size(self) -> int:
        """The tokens of texts."""
        return self.text_config.vocab_size


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> Mapping[str, Any]:
    """The settings of a file, which says by its tensors whether the network is reparameterised."""
    network = architecture(NETWORK)
    tower = settings.get("vision_config")
    return {**settings, "vision_config": network.adapted(tower, tensors)} if isinstance(tower, Mapping) else settings


def renamed(name: str) -> str:
    """The name of a file's tensor; old norms, and so the loader of all files, call a weight what factors are here."""
    return re.sub(r"(\.layer_scale\w*)\.weight$", r"\1.gamma", name)


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """Factors of channels have two dimensions more in files."""
    return {
        name: Stored((name,), values=lambda value: value.reshape(-1))
        for name, info in tensors.items() if name.endswith(".gamma") and len(info.shape) == 3
    }  # fmt: skip


class Block(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.ln_1 = LayerNorm(width, config.layer_norm_eps)
        self.attn = MultiheadAttention(width, config.num_attention_heads, batch_first=True)
        self.ln_2 = LayerNorm(width, config.layer_norm_eps)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act, names=("c_fc", "c_proj"))

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        """x (N, T, D); hidden (T, T): True where a token does not see another → (N, T, D)."""
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=hidden)[0]
        return self.mlp(self.ln_2(x), x)


class Text(Module):
    """The transformer of texts."""

    def __init__(self, config: TextConfig, out: int) -> None:
        super().__init__()
        self.config, width = config, config.hidden_size
        self.most = config.max_position_embeddings
        self.token_embedding = Embedding(config.vocab_size, width)
        self.positional_embedding = new_parameter(ops.zeros, self.most, width)
        self.transformer = Module()
        self.transformer.resblocks = ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.ln_final = LayerNorm(width, config.layer_norm_eps)
        self.text_projection = new_parameter(ops.zeros, width, out)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (N, T) → features (N, P), of the end of each text, which has the largest id."""
        check_ids(self, ids, None)
        count = ids.shape[1]
        x = self.token_embedding(ids) + self.positional_embedding.narrow(0, 0, count)
        places = ops.arange(count, device=x.device)
        hidden = places.reshape(1, -1) > places.reshape(-1, 1) if self.config.causal else None  # (T, T)
        for block in self.transformer.resblocks:
            x = block(x, hidden)
        return at_ends(self.ln_final(x), ids, OLDER_END) @ self.text_projection


class MobileClip(PictureAndText):
    """Both networks."""

    fixed_length = True
    padding = 0

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        network = architecture(NETWORK)
        self.visual = Module()
        self.visual.trunk = network.TASKS["image-classification"](config.vision_config)
        self.text = Text(config.text_config, len(config.vision_config.labels))
        self.logit_scale = new_parameter(ops.zeros)

    @property
    def pixels(self) -> tuple[int, int]:
        return self.config.pixels

    @property
    def most(self) -> int:
        return self.text.most

    def image_features(self, pixel_values: Tensor) -> Tensor:
        check_pictures("MobileCLIP", pixel_values, self.config.vision_config.num_channels, self.pixels)
        found: Tensor = self.visual.trunk(pixel_values)
        return found

    def text_features(self, ids: Tensor) -> Tensor:
        return self.text(ids)


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": MobileClip}

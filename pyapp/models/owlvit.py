"""OWL-ViT (Minderer et al. 2022, arXiv 2205.06230) and OWLv2 (Minderer et al. 2023, arXiv 2306.09683): CLIP's towers
find the objects that texts name: each patch has a box, and a score for each text.

Parameters have the names of Hugging Face's files. The heads that find what another picture shows are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import ELU, GELU, LayerNorm, Linear, Module
from pyapp.nn.vision.detection import named_objects
from pyapp.nn.vision.towers import OLDER_END, PictureAndText, PositionedPatches, TextTower, Tower, at_ends
from pyapp.nn.vision.vision import ImageModel, check_pictures

from .loading.config import require
from .loading.towers_config import ClipTextConfig, ClipVisionConfig, ProjectedConfig

MODEL_TYPES = ("owlvit", "owlv2")
IMAGE_PROCESSOR = {"owlvit": "OwlViT", "owlv2": "Owlv2"}  # of files that name none
BASE = ""
IGNORED = r".*\.position_ids|owl(vit|v2)\.(visual_projection\.weight|logit_scale)|objectness_head\..*|box_bias"
EPSILON = 1e-6  # of vectors' lengths
EDGE = 1e-4  # of places, whose logarithms are taken


@dataclass(frozen=True, kw_only=True)
class OwlTextConfig(ClipTextConfig):
    """The fields of text_config."""

    max_position_embeddings: int = 16


@dataclass(frozen=True, kw_only=True)
class OwlVisionConfig(ClipVisionConfig):
    """The fields of vision_config of OWL-ViT."""

    image = 768
    patch = 32


@dataclass(frozen=True, kw_only=True)
class NewerVisionConfig(OwlVisionConfig):
    """The fields of vision_config of OWLv2."""

    patch = 16


class Config(ProjectedConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = OwlTextConfig
    vision_class = OwlVisionConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        kind = NewerConfig if values.get("model_type") == NewerConfig.model_type else cls
        return super(Config, kind).from_dict(values)

    def __post_init__(self) -> None:
        width = self.text_config.hidden_size
        require(self.projection_dim == width, f"projection_dim is {self.projection_dim}, texts have {width} numbers")


class NewerConfig(Config):
    """As Config, of OWLv2."""

    model_type = MODEL_TYPES[1]
    vision_class = NewerVisionConfig


class OwlTower(ImageModel):
    """The Vision Transformer, with the last norm on all patches."""

    def __init__(self, config: OwlVisionConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = PositionedPatches(config, class_token=True)
        self.pre_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.encoder = Tower(config)
        self.post_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + patches, D)."""
        check_pictures("OWL-ViT", pixel_values, self.config.num_channels, self.config.image_size)
        return self.post_layernorm(self.encoder(self.pre_layernorm(self.embeddings(pixel_values))))


class BoxHead(Module):
    """The box of each patch, as the difference to its own place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense0, self.dense1, self.dense2 = Linear(width, width), Linear(width, width), Linear(width, 4)
        self.activation = GELU()

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, 4)."""
        return self.dense2(self.activation(self.dense1(self.activation(self.dense0(x)))))


class ClassHead(Module):
    """The scores of texts for each patch."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.dense0 = Linear(width, out)
        self.logit_shift, self.logit_scale = Linear(width, 1), Linear(width, 1)
        self.activation = ELU()

    def forward(self, x: Tensor, texts: Tensor) -> Tensor:
        """x (B, T, D) and the vectors of texts (N, P) → logits (B, T, N)."""
        scores = _of_length_1(self.dense0(x)) @ _of_length_1(texts).transpose(0, 1)
        return (scores + self.logit_shift(x)) * (self.activation(self.logit_scale(x)) + 1)


def _of_length_1(x: Tensor) -> Tensor:
    return x / ((x * x).sum(-1, keepdim=True).sqrt() + EPSILON)


def _places(rows: int, columns: int) -> Any:
    """What the boxes (rows * columns, 4) of patches are before the sigmoid: their lower right corner and size."""
    across, down = np.meshgrid(np.arange(1, columns + 1) / columns, np.arange(1, rows + 1) / rows)
    sides = np.broadcast_to([1 / columns, 1 / rows], (rows * columns, 2))
    both = np.concatenate([np.stack([across, down], -1).reshape(-1, 2), sides], 1)
    return (np.log(both + EDGE) - np.log1p(EDGE - both)).astype("float32")


class OwlDetector(PictureAndText):
    """Both towers, and the heads."""

    template = "a photo of a {}"
    usual_threshold = 0.1

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, out = config.vision_config.hidden_size, config.projection_dim
        towers = Module()
        towers.text_model = TextTower(config.text_config, causal=True)
        towers.vision_model = OwlTower(config.vision_config)
        towers.text_projection = Linear(config.text_config.hidden_size, out, bias=False)
        self.base_model_prefix = config.model_type
        self.add_module(self.base_model_prefix, towers)
        self.class_head, self.box_head = ClassHead(width, out), BoxHead(width)
        self.layer_norm = LayerNorm(width, config.vision_config.layer_norm_eps)

    @property
    def towers(self) -> Any:
        """Those of pictures and of texts."""
        return self.get_submodule(self.base_model_prefix)

    @property
    def most(self) -> int:
        found: int = self.towers.text_model.most
        return found

    def image_features(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → the vectors of patches (B, T, D)."""
        x = self.towers.vision_model(pixel_values)
        return self.layer_norm(x.narrow(1, 1, x.shape[1] - 1) * x.narrow(1, 0, 1))

    def text_features(self, ids: Tensor) -> Tensor:
        towers = self.towers
        x = towers.text_projection(at_ends(towers.text_model(ids), ids, OLDER_END))
        return x / (x * x).sum(-1, keepdim=True).sqrt()

    def scores(self, pictures: Tensor, texts: Tensor) -> Tensor:
        """Vectors of patches (B, T, D) and of texts (N, P) → logits (B, T, N)."""
        return self.class_head(pictures, texts)

    def found(self, pixel_values: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        """pixel_values (B, C, H, W) and the vectors of texts (N, P) → logits (B, T, N), and boxes (B, T, 4): the
        centre, width and height of each patch's, as parts of the sides.
        """
        x = self.image_features(pixel_values)
        places = ops.tensor(_places(*self.config.vision_config.grid)).to(x.device)
        return self.scores(x, texts), ops.sigmoid(self.box_head(x) + places)

    def forward(self, pixel_values: Tensor, ids: Tensor) -> Any:
        """As `found`, for the texts ids (N, T)."""
        return self.found(pixel_values, self.text_features(ids))

    def objects(
        self, outputs: Sequence[Tensor], threshold: float, names: Sequence[str]
    ) -> list[list[dict[str, Any]]]:  # fmt: skip
        """As Detector.objects, of what `found` gives; the names are those of the texts."""
        logits, boxes = outputs
        return named_objects(ops.sigmoid(logits.to("float32")), boxes, names, threshold)


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-object-detection": OwlDetector}

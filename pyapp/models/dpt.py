"""The Dense Prediction Transformer (Ranftl et al. 2021, arXiv 2103.13413): a Vision Transformer's states of several
depths become maps of several sizes, which are fused and read as the depth, or the labels, of all places.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm2d, Conv2d, Module, ModuleList
from pyapp.nn.vision.fused_maps import ReadoutNeck
from pyapp.nn.vision.vision import ImageModel, PlacedPatches, VisionEncoder, check_pictures

from .loading.config import require
from .loading.pictures_config import WIDEST, PatchConfig, check_factors, check_numbers, from_start

MODEL_TYPES = ("dpt",)
IMAGE_PROCESSOR = "DPT"  # of files that name none
BASE = ""
IGNORED = r"auxiliary_head\..*|dpt\.(pooler|layernorm)\..*"  # for training, and what no head reads
READOUTS = ("ignore", "add", "project")
INNER = 32  # channels before the depth


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    image = 384

    backbone_out_indices: tuple[int, ...] = (2, 5, 8, 11)  # the layers whose states are read
    readout_type: str = "project"
    reassemble_factors: tuple[float, ...] = (4, 2, 1, 0.5)
    neck_hidden_sizes: tuple[int, ...] = (96, 192, 384, 768)
    fusion_hidden_size: int = 256
    head_in_index: int = 0
    use_batch_norm_in_fusion_residual: bool = False
    use_bias_in_fusion_residual: bool | None = None
    add_projection: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.neck_hidden_sizes)
        check_numbers("neck_hidden_sizes", self.neck_hidden_sizes, WIDEST)
        indices = self.backbone_out_indices
        check_numbers("backbone_out_indices", indices, self.num_hidden_layers - 1, least=0, count=count)
        require(list(indices) == sorted({*indices}), f"backbone_out_indices is {indices}, expected rising numbers")
        check_factors(self.reassemble_factors, count)
        check_numbers("fusion_hidden_size", [self.fusion_hidden_size], WIDEST, least=2)
        require(self.readout_type in READOUTS, f"readout_type is {self.readout_type!r:.60}, expected project …")
        require(0 <= self.head_in_index < count, f"head_in_index is {self.head_in_index}, of {count} maps")
        require(
            not self.add_projection or self.fusion_hidden_size == 256,
            f"add_projection with a fusion_hidden_size of {self.fusion_hidden_size} is not supported",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than DPT's own."""
        require(not values.get("is_hybrid"), "DPT with a ResNet before its layers (is_hybrid) is not supported")
        backbone = values.get("backbone_config") or values.get("backbone")
        require(backbone is None or "is_hybrid" in values and not isinstance(backbone, dict),
                "DPT with another backbone (backbone_config) is not supported")  # fmt: skip
        widths = values.get("neck_hidden_sizes", cls.neck_hidden_sizes)
        count = len(widths) if isinstance(widths, list | tuple) else 0
        return super().from_dict({**values, "head_in_index": from_start(values.get("head_in_index", -1), count)})

    @property
    def metric(self) -> bool:
        """Whether depths are metres, and not nearness in a unit of each picture."""
        return False


def _doubled(x: Tensor) -> Tensor:
    """(B, C, H, W) → (B, C, 2 * H, 2 * W)."""
    return ops.interpolate(x, size=tuple(2 * side for side in x.shape[2:]), mode="bilinear", align_corners=True)


class DepthHead(Module):
    """The depth of each pixel, from a map."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.fusion_hidden_size
        self.projection = Conv2d(width, width, 3, padding=1) if config.add_projection else None
        self.head = ModuleList([
            Conv2d(width, width // 2, 3, padding=1), Module(), Conv2d(width // 2, INNER, 3, padding=1), Module(),
            Conv2d(INNER, 1, 1),
        ])  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, 2 * H, 2 * W)."""
        x = x if self.projection is None else ops.relu(self.projection(x))
        x = ops.relu(self.head[2](_doubled(self.head[0](x))))
        return ops.relu(self.head[4](x)).squeeze(1)


class LabelHead(Module):
    """The scores of the labels of each place, from a map."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.fusion_hidden_size
        self.head = ModuleList([
            Conv2d(width, width, 3, padding=1, bias=False), BatchNorm2d(width), Module(), Module(),
            Conv2d(width, len(config.labels), 1),
        ])  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → logits (B, labels, 2 * H, 2 * W)."""
        return _doubled(self.head[4](ops.relu(self.head[1](self.head[0](x)))))


class Dpt(ImageModel):
    """The encoder, the neck and a head."""

    def __init__(self, config: Config, head: Module) -> None:
        super().__init__()
        self.config = config
        self.dpt = VisionEncoder(config, PlacedPatches(config), pooler=False)
        self.dpt.layernorm = None  # type: ignore[assignment]
        self.neck = ReadoutNeck(config, config.hidden_size)
        self.head = head

    @property
    def pixels(self) -> tuple[int, int]:
        return self.dpt.pixels

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → what the head gives: depths (B, H', W'), nearness in a unit of each picture, or
        logits (B, labels, H', W').
        """
        config, states = self.config, []
        check_pictures("DPT", pixel_values, config.num_channels, config.image_size)
        x = self.dpt.embeddings(pixel_values)
        for i, layer in enumerate(self.dpt.encoder.layer):
            x = layer(x)
            if i in config.backbone_out_indices:
                states.append(x)
        return self.head(self.neck.maps(states, config.grid)[config.head_in_index])


def depth_estimation(config: Config) -> Dpt:
    """The depth of the pixels of pictures."""
    return Dpt(config, DepthHead(config))


def semantic_segmentation(config: Config) -> Dpt:
    """The labels of the places of pictures."""
    return Dpt(config, LabelHead(config))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "depth-estimation": depth_estimation,
    "semantic-segmentation": semantic_segmentation,
}

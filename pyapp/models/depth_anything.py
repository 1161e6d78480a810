"""Depth Anything (Yang et al. 2024, arXiv 2401.10891 and 2406.09414): DINOv2's states of four depths become maps of
four sizes, which are fused from the coarsest to the finest (DPT, Ranftl et al. 2021, arXiv 2103.13413), and read as the
depth of each pixel. Prompt Depth Anything (Lin et al. 2024, arXiv 2412.14015) also reads depths that were measured, of
fewer pixels, and gives those of each pixel in the same unit.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ArgumentError
from pyapp.nn import Conv2d, Module
from pyapp.nn.vision.fused_maps import Neck
from pyapp.nn.vision.scaled_vision import ScaledEncoder
from pyapp.nn.vision.vision import ImageModel, as_map

from .loading.config import require
from .loading.pictures_config import (
    WIDEST,
    PictureConfig,
    ScaledConfig,
    backbone_of,
    check_factors,
    check_numbers,
    from_start,
    pair,
)

MODEL_TYPES = ("depth_anything", "prompt_depth_anything")
# Of files that name none.
IMAGE_PROCESSOR = {"depth_anything": "DPT", "prompt_depth_anything": "PromptDepthAnything"}
BASE = ""
IGNORED = r"backbone\.embeddings\.mask_token"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Backbone(ScaledConfig):
    """The encoder that the model sees by."""

    model_type = "dinov2"


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone: Backbone
    out_indices: tuple[int, ...]  # after how many layers of the backbone its states are read
    apply_layernorm: bool = True
    patch_size: tuple[int, int]
    reassemble_hidden_size: int = 384
    reassemble_factors: tuple[float, ...] = (4, 2, 1, 0.5)
    neck_hidden_sizes: tuple[int, ...] = (48, 96, 192, 384)
    fusion_hidden_size: int = 64
    head_in_index: int = 0
    head_hidden_size: int = 32
    depth_estimation_type: str = "relative"
    max_depth: float = 1.0
    kind: str = MODEL_TYPES[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        count, layers = len(self.out_indices), self.backbone.num_hidden_layers
        check_numbers("out_indices", self.out_indices, layers, least=0)
        check_numbers("neck_hidden_sizes", self.neck_hidden_sizes, WIDEST, count=count)
        check_factors(self.reassemble_factors, count)
        for name, backbones in (("reassemble_hidden_size", "hidden_size"), ("patch_size", "patch_size")):
            own, other = getattr(self, name), getattr(self.backbone, backbones)
            require(own == other, f"{name} is {own}, the backbone's {backbones} {other}")
        for name in ("fusion_hidden_size", "head_hidden_size"):
            check_numbers(name, [getattr(self, name)], WIDEST, least=2)
        require(0 <= self.head_in_index < count, f"head_in_index is {self.head_in_index}, of {count} maps")
        kind = self.depth_estimation_type
        require(kind in ("relative", "metric"), f"depth_estimation_type is {kind!r:.60}, expected relative or metric")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than DINOv2."""
        own, _ = backbone_of(values, "dinov2")
        backbone = Backbone.from_dict({"image_size": 518, "hidden_size": 384, "num_attention_heads": 6} | own)
        found = {
            **values,
            "kind": values.get("model_type", MODEL_TYPES[0]),
            "backbone": backbone,
            "out_indices": _read_indices(own, backbone.num_hidden_layers),
        }
        found["patch_size"] = pair(values, "patch_size", 14)
        found["apply_layernorm"] = own.get("apply_layernorm", True)
        found["head_in_index"] = from_start(values.get("head_in_index", -1), len(found["out_indices"]))
        return super().from_dict(found)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        parts = {name: own.pop(name) for name in ("out_indices", "apply_layernorm")}
        del own["backbone"]
        return own | {"model_type": own.pop("kind")} | {"backbone_config": self.backbone.to_dict() | parts}

    @property
    def prompted(self) -> bool:
        """Whether the model reads measured depths."""
        return self.kind == MODEL_TYPES[1]

    @property
    def metric(self) -> bool:
        """Whether depths are metres, and not nearness in a unit of each picture."""
        return self.depth_estimation_type == "metric"


def _read_indices(own: Any, layers: int) -> Any:
    """out_indices of a backbone's configuration, from 0, or those of its out_features: "stem", "stage1" …"""
    given, named = own.get("out_indices"), own.get("out_features")
    if given is None and isinstance(named, list):
        stages = {"stem": 0} | {f"stage{i}": i for i in range(1, layers + 1)}
        known = all(isinstance(name, str) and name in stages for name in named)
        require(known, f"out_features is {named!r:.60}, expected stages up to stage{layers}")
        given = [stages[name] for name in named]
    require(isinstance(given, list | tuple), f"out_indices is {given!r:.60}, expected a list")
    return tuple(i + layers + 1 if type(i) is int and i < 0 else i for i in given)


class Head(Module):
    """The depth of each pixel, from a map."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.fusion_hidden_size
        self.metric, self.max_depth = config.metric, config.max_depth
        self.conv1 = Conv2d(width, width // 2, 3, padding=1)
        self.conv2 = Conv2d(width // 2, config.head_hidden_size, 3, padding=1)
        self.conv3 = Conv2d(config.head_hidden_size, 1, 1)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, C, H, W) → (B, *size)."""
        x = ops.interpolate(self.conv1(x), size=size, mode="bilinear", align_corners=True)
        x = self.conv3(ops.relu(self.conv2(x))).squeeze(1)
        return (ops.sigmoid(x) if self.metric else ops.relu(x)) * self.max_depth


class DepthAnything(ImageModel):
    """The depth of pictures of any size from one patch on; what is beyond whole patches is left out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.backbone = ScaledEncoder(config.backbone)
        self.neck = Neck(config, config.backbone.hidden_size, prompted=config.prompted)
        self.head = Head(config)

    def forward(self, pixel_values: Tensor, prompt_depth: Tensor | None = None) -> Tensor:
        """pixel_values (B, C, H, W) → depths (B, H', W') of whole patches: nearness in a unit of each picture, or
        metres. prompt_depth (B, 1, H'', W''): measured depths, for Prompt Depth Anything, whose unit the result has.
        ArgumentError for other depths, and those of a picture that are all alike.
        """
        least, span = (None, None) if prompt_depth is None else self._range(prompt_depth, int(pixel_values.shape[0]))
        config, states = self.config, self.backbone.states(pixel_values)
        chosen = [states[i] for i in config.out_indices]
        if config.apply_layernorm:
            chosen = [self.backbone.layernorm(x) for x in chosen]
        height, width = config.patch_size
        rows, columns = int(pixel_values.shape[2]) // height, int(pixel_values.shape[3]) // width
        depths = None if prompt_depth is None else (prompt_depth - least) / span
        maps = self.neck([as_map(x[:, 1:], rows, columns) for x in chosen], depths)
        found = self.head(maps[config.head_in_index], (rows * height, columns * width))
        return found if span is None or least is None else found * span.squeeze(1) + least.squeeze(1)

    def _range(self, depths: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The least (B, 1, 1, 1) of measured depths, and how much larger the largest is."""
        if not self.config.prompted:
            raise ArgumentError("Depth Anything: only Prompt Depth Anything reads measured depths (prompt_depth)")
        if depths.ndim != 4 or depths.shape[0] != count or depths.shape[1] != 1:
            raise ArgumentError(f"prompt_depth has the shape {tuple(depths.shape)}, expected ({count}, 1, H, W)")
        flat = depths.reshape(count, -1)
        least = flat.amin(1)
        span = flat.amax(1) - least
        if not bool((span > 0).all()):
            raise ArgumentError("prompt_depth: a picture's measured depths are all alike, which says no unit")
        return least.reshape(count, 1, 1, 1), span.reshape(count, 1, 1, 1)


TASKS: Mapping[str, Callable[[Config], Module]] = {"depth-estimation": DepthAnything}

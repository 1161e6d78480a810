"""UPerNet (Xiao et al. 2018, arXiv 1807.10221): the maps of all stages of a ConvNeXt or a Swin, the last one with pools
of several sizes, are joined from the coarsest to the finest and read as the labels of places.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Module, ModuleList
from pyapp.nn.vision.convnext import EPSILON, Embeddings, Encoder
from pyapp.nn.vision.vision import ImageModel, check_pictures, norms_of_stages, over_channels
from pyapp.nn.vision.windows import WindowMaps

from .loading.config import require
from .loading.pictures_config import WIDEST, ConvNextConfig, PictureConfig, SwinBackbone, backbone_of, check_numbers

MODEL_TYPES = ("upernet",)
IMAGE_PROCESSOR = "Segformer"  # of files that name none
BASE = ""
IGNORED = (  # for training, and what no head reads
    r"auxiliary_head\..*|backbone\.(layernorm\..*|embeddings\.mask_token)|backbone\.swin\.layernorm\..*|"
    r".*relative_position_index"
)


@dataclass(frozen=True, kw_only=True)
class ConvNextBackbone(ConvNextConfig):
    """The fields of backbone_config of a ConvNeXt."""

    model_type = "convnext"
    scales = True


BACKBONES: Mapping[str, Any] = {"convnext": ConvNextBackbone, "swin": SwinBackbone}


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone_config: Any
    hidden_size: int = 512
    pool_scales: tuple[int, ...] = (1, 2, 3, 6)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("hidden_size", [self.hidden_size], WIDEST)
        check_numbers("pool_scales", self.pool_scales, 1 << 8)
        require(len(self.widths) > 1, "the backbone has one stage only")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than ConvNeXt and
        Swin, and for stages that are not read.
        """
        own, kind = backbone_of(values, *BACKBONES, usual="none")
        backbone = BACKBONES[kind].from_dict(own)
        stages = [f"stage{i + 1}" for i in range(len(backbone.depths))]
        given = own.get("out_features", stages)
        require(given == stages, f"out_features is {given!r:.80}, expected all stages: {', '.join(stages)}")
        return super().from_dict({**values, "backbone_config": backbone})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        stages = [f"stage{i + 1}" for i in range(len(self.widths))]
        return super().to_dict() | {"backbone_config": self.backbone_config.to_dict() | {"out_features": stages}}

    @property
    def widths(self) -> list[int]:
        """The channels of the backbone's stages."""
        own = self.backbone_config
        if isinstance(own, ConvNextConfig):
            return list(own.hidden_sizes)
        return [own.embed_dim << i for i in range(len(own.depths))]


class ConvNextMaps(Module):
    """A ConvNeXt that gives the map of each stage."""

    def __init__(self, config: ConvNextBackbone) -> None:
        super().__init__()
        self.embeddings, self.encoder = Embeddings(config), Encoder(config)
        self.hidden_states_norms = norms_of_stages(dict(enumerate(config.hidden_sizes)), EPSILON)

    def forward(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, 3, H, W) → maps (B, C, H', W')."""
        x, found = self.embeddings(pixel_values), []
        for stage, norm in zip(self.encoder.stages, self.hidden_states_norms.values(), strict=True):
            x = stage(x)
            found.append(over_channels(x, norm))
        return found


class Filter(Module):
    """A filter, a norm of batches and an activation."""

    def __init__(self, before: int, width: int, kernel: int = 1) -> None:
        super().__init__()
        self.conv = Conv2d(before, width, kernel, padding=kernel // 2, bias=False)
        self.batch_norm = BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        return ops.relu(self.batch_norm(self.conv(x)))


def _resized(x: Tensor, size: tuple[int, ...]) -> Tensor:
    """x (B, C, H, W) → (B, C, *size)."""
    return ops.interpolate(x, size=size, mode="bilinear", align_corners=False)


class Head(Module):
    """The maps of all stages, joined."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        widths, width, pools = config.widths, config.hidden_size, config.pool_scales
        self.classifier = Conv2d(width, len(config.labels), 1)
        self.psp_modules = ModuleList(
            ModuleList([AdaptiveAvgPool2d(scale), Filter(widths[-1], width)]) for scale in pools
        )
        self.bottleneck = Filter(widths[-1] + len(pools) * width, width, 3)
        self.lateral_convs = ModuleList(Filter(before, width) for before in widths[:-1])
        self.fpn_convs = ModuleList(Filter(width, width, 3) for _ in widths[:-1])
        self.fpn_bottleneck = Filter(len(widths) * width, width, 3)

    def forward(self, maps: list[Tensor]) -> Tensor:
        """maps (B, D, H', W') of the stages → logits (B, labels, H', W') of the first one's places."""
        last, sizes = maps[-1], [tuple(x.shape[2:]) for x in maps]
        pooled = [_resized(filters(pool(last)), sizes[-1]) for pool, filters in self.psp_modules]
        x = self.bottleneck(ops.cat([last, *pooled], 1))
        joined = [x]
        for i in range(len(maps) - 2, -1, -1):
            x = self.lateral_convs[i](maps[i]) + _resized(x, sizes[i])
            joined.insert(0, x)
        found = [filters(x) for filters, x in zip(self.fpn_convs, joined, strict=False)]
        found = [found[0], *(_resized(x, sizes[0]) for x in [*found[1:], joined[-1]])]
        return self.classifier(self.fpn_bottleneck(ops.cat(found, 1)))


class UperNet(ImageModel):
    """The labels of the places of pictures of any size from the backbone's largest step on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, own = config, config.backbone_config
        convnext = isinstance(own, ConvNextBackbone)
        self.backbone: Module = ConvNextMaps(own) if convnext else WindowMaps(own)
        self.decode_head = Head(config)
        patch = own.patch_size if convnext else own.patch_size[0]
        self.least = patch << (len(config.widths) - 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels, H, W)."""
        check_pictures("UPerNet", pixel_values, self.config.num_channels, least=self.least)
        return _resized(self.decode_head(self.backbone(pixel_values)), tuple(pixel_values.shape[2:]))


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return name.replace("backbone.swin.", "backbone.", 1)


TASKS: Mapping[str, Callable[[Config], Module]] = {"semantic-segmentation": UperNet}

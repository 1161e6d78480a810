"""ViTPose (Xu et al. 2022, arXiv 2204.12484 and 2212.04246): a Vision Transformer sees a person, and a head finds for
each point of the body how likely it is at each place.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm2d, Conv2d, ConvTranspose2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, PatchAttention, as_map, as_sequence, check_pictures

from .loading.config import require
from .loading.pictures_config import PatchConfig, PictureConfig, backbone_of, check_numbers

MODEL_TYPES = ("vitpose",)
IMAGE_PROCESSOR = "VitPose"  # of files that name none
BASE = ""
PADDING = 2  # pixels around a picture before its patches are read
INNER = 256  # channels of the classic head
MOST = 1024  # points


@dataclass(frozen=True, kw_only=True)
class Backbone(PatchConfig):
    """The encoder that the model sees by. num_experts: those of the feed-forward parts, of which a part of the outputs
    comes from the one of the points' data set; the first is of COCO's points.
    """

    model_type = "vitpose_backbone"
    image = (256, 192)

    mlp_ratio: float = 4
    num_experts: int = 1
    part_features: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")
        require(self.num_experts <= 64, f"num_experts is {self.num_experts:,}")
        require(
            min(self.patch_size) > 2 * PADDING, f"patch_size is {self.patch_size}, expected more than {2 * PADDING}"
        )
        known = self.num_experts == 1 or 1 <= self.part_features < self.hidden_size
        require(known, f"part_features is {self.part_features}, hidden_size {self.hidden_size}")

    @property
    def inner(self) -> int:
        """The width of the feed-forward part."""
        return int(self.hidden_size * self.mlp_ratio)


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone: Backbone
    scale_factor: int = 4
    use_simple_decoder: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("scale_factor", [self.scale_factor], 16)
        require(len(self.labels) <= MOST, f"there are {len(self.labels):,} points")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than ViTPose's."""
        own, _ = backbone_of(values, Backbone.model_type)
        backbone = Backbone.from_dict(own)
        layers = backbone.num_hidden_layers
        for name, last in (("out_indices", (layers, -1)), ("out_features", (f"stage{layers}",))):
            given = own.get(name)
            known = given is None or (isinstance(given, list) and len(given) == 1 and given[0] in last)
            require(known, f"{name} is {given!r:.60}, expected the last layer, {last[0]}")
        return super().from_dict({**values, "backbone": backbone})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        del own["backbone"]
        return own | {"backbone_config": self.backbone.to_dict()}


class Embeddings(Module):
    """The patches with their positions."""

    def __init__(self, config: Backbone) -> None:
        super().__init__()
        width = config.hidden_size
        self.patch_embeddings = Module()
        self.patch_embeddings.projection = Conv2d(
            config.num_channels, width, config.patch_size, stride=config.patch_size, padding=PADDING
        )
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, patches, D)."""
        places = self.position_embeddings
        return as_sequence(self.patch_embeddings.projection(pixel_values)) + places[:, 1:] + places[:, :1]


class Experts(Module):
    """A feed-forward part, of whose outputs the last come from an expert."""

    def __init__(self, config: Backbone) -> None:
        super().__init__()
        self.activation = activation_named(config.hidden_act)
        self.fc1 = Linear(config.hidden_size, config.inner)
        self.fc2 = Linear(config.inner, config.hidden_size - config.part_features)
        self.experts = ModuleList(Linear(config.inner, config.part_features) for _ in range(config.num_experts))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D), by the first expert."""
        y = self.activation(self.fc1(x))
        return ops.cat([self.fc2(y), self.experts[0](y)], 2)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Backbone) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = PatchAttention(width, config.num_attention_heads, config.qkv_bias)
        self.mlp = Experts(config) if config.num_experts > 1 else FeedForward(width, config.inner, config.hidden_act)
        self.layernorm_before = LayerNorm(width, config.layer_norm_eps)
        self.layernorm_after = LayerNorm(width, config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(self.layernorm_before(x), x)
        return x + self.mlp(self.layernorm_after(x))


class Encoder(Module):
    """The layers over the patches."""

    def __init__(self, config: Backbone) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, patches, D)."""
        x = self.embeddings(pixel_values)
        for layer in self.encoder.layer:
            x = layer(x)
        return self.layernorm(x)


class SimpleHead(Module):
    """The map becomes larger, and a filter reads it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.factor = config.scale_factor
        self.conv = Conv2d(config.backbone.hidden_size, len(config.labels), 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, points, factor * H, factor * W)."""
        size = tuple(self.factor * side for side in x.shape[2:])
        return self.conv(ops.interpolate(ops.relu(x), size=size, mode="bilinear", align_corners=False))


class ClassicHead(Module):
    """Two layers that double the map's sides, and one that reads it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.deconv1 = ConvTranspose2d(config.backbone.hidden_size, INNER, 4, stride=2, padding=1, bias=False)
        self.batchnorm1 = BatchNorm2d(INNER)
        self.deconv2 = ConvTranspose2d(INNER, INNER, 4, stride=2, padding=1, bias=False)
        self.batchnorm2 = BatchNorm2d(INNER)
        self.conv = Conv2d(INNER, len(config.labels), 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, points, 4 * H, 4 * W)."""
        x = ops.relu(self.batchnorm1(self.deconv1(x)))
        return self.conv(ops.relu(self.batchnorm2(self.deconv2(x))))


class VitPose(ImageModel):
    """How likely each point of a person's body is at each place of a picture of it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.backbone = Encoder(config.backbone)
        self.head = SimpleHead(config) if config.use_simple_decoder else ClassicHead(config)

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.backbone.image_size
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, points, H', W')."""
        check_pictures("ViTPose", pixel_values, self.config.backbone.num_channels, self.pixels)
        return self.head(as_map(self.backbone(pixel_values), *self.config.backbone.grid))


TASKS: Mapping[str, Callable[[Config], Module]] = {"pose-estimation": VitPose}

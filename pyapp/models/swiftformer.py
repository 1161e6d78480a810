"""SwiftFormer (Shaker et al. 2023, arXiv 2303.15446): stages of filters, each with a last block in which every place is
multiplied by one vector, the sum of all queries.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm2d, Conv2d, Linear, Module, ModuleList, ReLU, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers

MODEL_TYPES = ("swiftformer",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = "swiftformer"  # the encoder's name in files with a head
SHORTEST = 1e-12  # of vectors that are brought to the length 1


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    depths: tuple[int, ...] = (3, 3, 6, 4)
    embed_dims: tuple[int, ...] = (48, 56, 112, 220)
    mlp_ratio: int = 4
    downsamples: tuple[bool, ...] = (True, True, True, True)
    hidden_act: str = "gelu"
    down_patch_size: int = 3
    down_stride: int = 2
    down_pad: int = 1
    use_layer_scale: bool = True
    batch_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("depths", self.depths, 1 << 10)
        check_numbers("embed_dims", self.embed_dims, WIDEST, least=2, count=len(self.depths))
        halves = self.downsamples
        require(len(halves) >= len(self.depths) - 1 and all(type(half) is bool for half in halves),
                f"downsamples is {halves!r:.60}, expected true or false for each stage")  # fmt: skip
        for name, most in (("mlp_ratio", 64), ("down_patch_size", 64), ("down_stride", 64), ("down_pad", 64)):
            require(getattr(self, name) <= most, f"{name} is {getattr(self, name)}, expected at most {most}")


class Filters(Module):
    """A filter of 3 x 3 places of each channel, a norm, and two layers of each place, added to the input."""

    def __init__(self, config: Config, width: int, inner: int) -> None:
        super().__init__()
        self.depth_wise_conv = Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = BatchNorm2d(width, config.batch_norm_eps)
        self.point_wise_conv1, self.point_wise_conv2 = Conv2d(width, inner, 1), Conv2d(inner, width, 1)
        self.layer_scale = new_parameter(ops.ones, width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, D, H, W)."""
        y = self.point_wise_conv1(self.norm(self.depth_wise_conv(x)))
        return x + self.layer_scale * self.point_wise_conv2(ops.gelu(y))


class AdditiveAttention(Module):
    """Each key times the sum of all queries."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.to_query, self.to_key, self.proj, self.final = (Linear(width, width) for _ in range(4))
        self.w_g = new_parameter(ops.zeros, width, 1)
        self.scale = width**-0.5

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        query, key = (
            y / y.square().sum(2, keepdim=True).sqrt().clamp(min=SHORTEST) for y in (self.to_query(x), self.to_key(x))
        )
        weights = ops.softmax(query @ self.w_g * self.scale, -1)  # (B, T, 1), of one number each
        whole = (weights * query).sum(1, keepdim=True)
        return self.final(self.proj(whole * key) + query)


class FeedForward(Module):
    """A norm and two layers of each place."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        inner = width * config.mlp_ratio
        self.norm1 = BatchNorm2d(width, config.batch_norm_eps)
        self.fc1, self.fc2 = Conv2d(width, inner, 1), Conv2d(inner, width, 1)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, D, H, W)."""
        return self.fc2(self.activation(self.fc1(self.norm1(x))))


class Block(Module):
    """Filters, attention and a feed-forward part."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.local_representation = Filters(config, width, width)
        self.attn = AdditiveAttention(width)
        self.linear = FeedForward(config, width)
        scaled = config.use_layer_scale
        self.layer_scale_1, self.layer_scale_2 = (
            new_parameter(ops.ones, width, 1, 1) if scaled else None for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, D, H, W)."""
        x = self.local_representation(x)
        places = x.permute(0, 2, 3, 1)  # (B, H, W, D)
        y = self.attn(places.flatten(1, 2)).reshape(places.shape).permute(0, 3, 1, 2)
        x = x + (y if self.layer_scale_1 is None else y * self.layer_scale_1)
        y = self.linear(x)
        return x + (y if self.layer_scale_2 is None else y * self.layer_scale_2)


class Down(Module):
    """A filter between stages, and its norm."""

    def __init__(self, config: Config, before: int, width: int) -> None:
        super().__init__()
        self.proj = Conv2d(before, width, config.down_patch_size, config.down_stride, config.down_pad)
        self.norm = BatchNorm2d(width, config.batch_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H', W')."""
        return self.norm(self.proj(x))


class SwiftFormer(ImageModel):
    """The encoder, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        first, epsilon = config.embed_dims[0], config.batch_norm_eps
        self.patch_embed = Module()
        self.patch_embed.patch_embedding = Sequential(
            Conv2d(config.num_channels, first // 2, 3, 2, 1), BatchNorm2d(first // 2, epsilon), ReLU(),
            Conv2d(first // 2, first, 3, 2, 1), BatchNorm2d(first, epsilon), ReLU(),
        )  # fmt: skip
        self.encoder = Module()
        self.encoder.network = ModuleList()
        for i, (width, depth) in enumerate(zip(config.embed_dims, config.depths, strict=True)):
            stage = Module()
            stage.blocks = ModuleList(Filters(config, width, width * config.mlp_ratio) for _ in range(depth - 1))
            stage.blocks.append(Block(config, width))
            self.encoder.network.append(stage)
            following = config.embed_dims[i + 1 : i + 2]
            if following and (config.downsamples[i] or following[0] != width):
                self.encoder.network.append(Down(config, width, following[0]))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, D, H', W')."""
        check_pictures("SwiftFormer", pixel_values, self.config.num_channels)
        x = self.patch_embed.patch_embedding(pixel_values)
        for part in self.encoder.network:
            for block in [part] if isinstance(part, Down) else part.blocks:
                x = block(x)
        return x


class SwiftFormerHeads(ImageModel):
    """Scores of the labels of a picture: the mean of two heads, one of which learnt from another network."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.swiftformer = SwiftFormer(config)
        width, labels = config.embed_dims[-1], len(config.labels)
        self.norm = BatchNorm2d(width, config.batch_norm_eps)
        self.head, self.dist_head = Linear(width, labels), Linear(width, labels)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        x = mean_of_places(self.norm(self.swiftformer(pixel_values)))
        return (self.head(x) + self.dist_head(x)) / 2


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": SwiftFormer,
    "image-classification": SwiftFormerHeads,
}

"""MobileViT v2 (Mehta and Rastegari 2022, arXiv 2206.02680): MobileViT whose attention costs as much as a filter: each
place reads one mean of all that are alike in their patches.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, GroupNorm, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.inverted import FilterStage, InvertedResidual, dilated_stages
from pyapp.nn.vision.vision import ConvolutionNorm, ImageHead, ImageModel, check_pictures, divisible, mean_of_places

from .loading.config import require
from .loading.pictures_config import PictureConfig, check_numbers

MODEL_TYPES = ("mobilevitv2",)
IMAGE_PROCESSOR = "MobileViT"  # of files that name none
BASE = "mobilevitv2"  # the network's name in files with a head
WIDTHS = (64, 128, 256, 384, 512)  # channels of the stages, before they are multiplied
DEEPEST, WIDEST = 1 << 6, 1 << 12  # layers of attention of a stage, and its channels


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    patch_size: int = 2
    expand_ratio: float = 2.0
    hidden_act: str = "swish"
    conv_kernel_size: int = 3
    output_stride: int = 32
    layer_norm_eps: float = 1e-5
    n_attn_blocks: tuple[int, ...] = (2, 4, 3)
    base_attn_unit_dims: tuple[int, ...] = (128, 192, 256)
    width_multiplier: float = 1.0
    ffn_multiplier: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("n_attn_blocks", self.n_attn_blocks, DEEPEST, count=3)
        check_numbers("base_attn_unit_dims", self.base_attn_unit_dims, WIDEST, count=3)
        require(self.patch_size <= 64, f"patch_size is {self.patch_size:,}, expected at most 64")
        kernel = self.conv_kernel_size
        require(kernel % 2 == 1 and kernel <= 63, f"conv_kernel_size is {kernel}, expected 1, 3 … 63")
        require(self.output_stride in (8, 16, 32), f"output_stride is {self.output_stride}, expected 8, 16 or 32")
        for name in ("expand_ratio", "width_multiplier", "ffn_multiplier"):
            value = getattr(self, name)
            require(0 < value <= 16, f"{name} is {value}, expected at most 16")

    @property
    def widths(self) -> tuple[int, ...]:
        """The channels of the stem and of each stage."""
        times = self.width_multiplier
        stem = divisible(min(max(32 * times, 16), 64), 8, 16)
        return (stem, *(divisible(width * times, 8 if i else 16, 8 if i else 16) for i, width in enumerate(WIDTHS)))

    def hidden(self, stage: int) -> int:
        """The features of a stage's attention."""
        return divisible(self.base_attn_unit_dims[stage] * self.width_multiplier, 8, 8)


class Point(Module):
    """A linear layer of the channels of each place."""

    def __init__(self, before: int, width: int, bias: bool = True) -> None:
        super().__init__()
        self.convolution = Conv2d(before, width, 1, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        return self.convolution(x)


class LinearAttention(Module):
    """The mean of the keys, by weights that a softmax makes of one number of each place, times the values."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.qkv_proj = Point(width, 1 + 2 * width)
        self.out_proj = Point(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, P, N), the places of N patches → (B, D, P, N)."""
        x, width = self.qkv_proj(x), self.width
        weights = x.narrow(1, 0, 1).softmax(-1)  # (B, 1, P, N)
        mean = (x.narrow(1, 1, width) * weights).sum(-1, keepdim=True)  # (B, D, P, 1)
        return self.out_proj(ops.relu(x.narrow(1, 1 + width, width)) * mean)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        inner = int(config.ffn_multiplier * width) // 16 * 16
        self.layernorm_before = GroupNorm(1, width, config.layer_norm_eps)
        self.attention = LinearAttention(width)
        self.layernorm_after = GroupNorm(1, width, config.layer_norm_eps)
        self.ffn = Module()
        self.ffn.conv1, self.ffn.conv2 = Point(width, inner), Point(inner, width)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, P, N) → (B, D, P, N)."""
        x = self.attention(self.layernorm_before(x)) + x
        return self.ffn.conv2(self.activation(self.ffn.conv1(self.layernorm_after(x)))) + x


class AttentionStage(Module):
    """A smaller map, and attention among the places that are alike in all patches."""

    def __init__(self, config: Config, stage: int, stride: int, dilation: int) -> None:
        super().__init__()
        before, width = config.widths[stage + 2 : stage + 4]
        hidden, kernel = config.hidden(stage), config.conv_kernel_size
        self.side = config.patch_size
        self.downsampling_layer = InvertedResidual(config, before, width, stride, dilation)
        self.conv_kxk = ConvolutionNorm(width, width, kernel, activation=config.hidden_act, groups=width)
        self.conv_1x1 = Point(width, hidden, bias=False)
        self.transformer = Module()
        self.transformer.layer = ModuleList(Layer(config, hidden) for _ in range(config.n_attn_blocks[stage]))
        self.layernorm = GroupNorm(1, hidden, config.layer_norm_eps)
        self.conv_projection = ConvolutionNorm(hidden, width, 1)

    def _attended(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, D, H, W); what is behind the last whole patch becomes 0."""
        side, (high, wide) = self.side, x.shape[2:]
        batch, width, rows, columns = x.shape[0], x.shape[1], high // side, wide // side
        x = x.narrow(2, 0, rows * side).narrow(3, 0, columns * side)
        x = x.reshape(batch, width, rows, side, columns, side).permute(0, 1, 3, 5, 2, 4)
        x = x.reshape(batch, width, side * side, rows * columns)
        for layer in self.transformer.layer:
            x = layer(x)
        x = self.layernorm(x).reshape(batch, width, side, side, rows, columns).permute(0, 1, 4, 2, 5, 3)
        x = x.reshape(batch, width, rows * side, columns * side)
        missing = wide - columns * side, high - rows * side
        return ops.pad(x, (0, missing[0], 0, missing[1])) if any(missing) else x

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        x = self.downsampling_layer(x)
        return self.conv_projection(self._attended(self.conv_1x1(self.conv_kxk(x))))


class MobileViTV2(ImageModel):
    """The network, for pictures of any size from that of a patch of its last map."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        widths = config.widths
        self.conv_stem = ConvolutionNorm(config.num_channels, widths[0], 3, 2, config.hidden_act)
        stages: list[Module] = [
            FilterStage(config, widths[0], widths[1], 1, 1), FilterStage(config, widths[1], widths[2], 2, 2),
        ]  # fmt: skip
        for stage, (stride, dilation) in enumerate(dilated_stages(config.output_stride)):
            stages.append(AttentionStage(config, stage, stride, dilation))
        self.encoder = Module()
        self.encoder.layer = ModuleList(stages)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, C', H', W')."""
        least = self.config.output_stride * (self.config.patch_size - 1) + 1
        check_pictures("MobileViT v2", pixel_values, self.config.num_channels, least=least)
        x = self.conv_stem(pixel_values)
        for stage in self.encoder.layer:
            x = stage(x)
        return x


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    return ImageHead(BASE, MobileViTV2(config), config.widths[-1], len(config.labels), mean_of_places)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": MobileViTV2,
    "image-classification": image_classification,
}

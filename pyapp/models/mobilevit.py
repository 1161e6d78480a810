"""MobileViT (Mehta and Rastegari 2021, arXiv 2110.02178): a small network of filters, whose later stages attend among
the places that are alike in all patches.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, LayerNorm, Module, ModuleList
from pyapp.nn.vision.inverted import FilterStage, InvertedResidual, dilated_stages
from pyapp.nn.vision.vision import (
    ConvolutionNorm,
    ImageHead,
    ImageModel,
    PatchLayers,
    check_pictures,
    mean_of_places,
)

from .loading.config import require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers

MODEL_TYPES = ("mobilevit",)
IMAGE_PROCESSOR = "MobileViT"  # of files that name none
BASE = "mobilevit"  # the network's name in files with a head
DEPTHS = (2, 4, 3)  # layers of attention of the last three stages


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    patch_size: int = 2
    hidden_sizes: tuple[int, ...] = (144, 192, 240)
    neck_hidden_sizes: tuple[int, ...] = (16, 32, 64, 96, 128, 160, 640)
    num_attention_heads: int = 4
    mlp_ratio: float = 2.0
    expand_ratio: float = 4.0
    hidden_act: str = "silu"
    conv_kernel_size: int = 3
    output_stride: int = 32
    layer_norm_eps: float = 1e-5
    qkv_bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("hidden_sizes", self.hidden_sizes, WIDEST, count=3)
        check_numbers("neck_hidden_sizes", self.neck_hidden_sizes, WIDEST, count=7)
        heads = self.num_attention_heads
        for width in self.hidden_sizes:
            require(width % heads == 0, f"num_attention_heads {heads} does not divide the hidden size {width}")
        require(self.patch_size <= 64, f"patch_size is {self.patch_size:,}, expected at most 64")
        kernel = self.conv_kernel_size
        require(kernel % 2 == 1 and kernel <= 63, f"conv_kernel_size is {kernel}, expected 1, 3 … 63")
        require(self.output_stride in (8, 16, 32), f"output_stride is {self.output_stride}, expected 8, 16 or 32")
        for name in ("mlp_ratio", "expand_ratio"):
            value = getattr(self, name)
            require(0 < value <= 64, f"{name} is {value}, expected at most 64")


class AttentionStage(Module):
    """A smaller map, attention among the places that are alike in all patches, and a filter of both."""

    def __init__(self, config: Config, stage: int, stride: int, dilation: int) -> None:
        super().__init__()
        before, width = config.neck_hidden_sizes[stage + 2 : stage + 4]
        hidden, kernel, act = config.hidden_sizes[stage], config.conv_kernel_size, config.hidden_act
        self.side = config.patch_size
        self.downsampling_layer = InvertedResidual(config, before, width, stride, dilation)
        self.conv_kxk = ConvolutionNorm(width, width, kernel, activation=act)
        self.conv_1x1 = Module()
        self.conv_1x1.convolution = Conv2d(width, hidden, 1, bias=False)
        self.transformer = PatchLayers(
            DEPTHS[stage], hidden, config.num_attention_heads, int(hidden * config.mlp_ratio), act,
            config.layer_norm_eps, config.qkv_bias,
        )  # fmt: skip
        self.layernorm = LayerNorm(hidden, config.layer_norm_eps)
        self.conv_projection = ConvolutionNorm(hidden, width, 1, activation=act)
        self.fusion = ConvolutionNorm(2 * width, width, kernel, activation=act)

    def _attended(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, D, H, W), of maps in whole patches: others are stretched to such, and back."""
        side, (high, wide) = self.side, x.shape[2:]
        batch, width, rows, columns = x.shape[0], x.shape[1], -(-high // side), -(-wide // side)
        whole = (rows * side, columns * side)
        stretched = whole != (high, wide)
        if stretched:
            x = ops.interpolate(x, size=whole, mode="bilinear", align_corners=False)
        x = x.reshape(batch, width, rows, side, columns, side).permute(0, 3, 5, 2, 4, 1)  # (B, side, side, R, C, D)
        x = self.layernorm(self.transformer(x.reshape(batch * side * side, rows * columns, width)))
        x = x.reshape(batch, side, side, rows, columns, width).permute(0, 5, 3, 1, 4, 2)
        x = x.reshape(batch, width, *whole)
        return ops.interpolate(x, size=(high, wide), mode="bilinear", align_corners=False) if stretched else x

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        x = self.downsampling_layer(x)
        y = self._attended(self.conv_1x1.convolution(self.conv_kxk(x)))
        return self.fusion(ops.cat([x, self.conv_projection(y)], 1))


class MobileViT(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        widths, act = config.neck_hidden_sizes, config.hidden_act
        self.conv_stem = ConvolutionNorm(config.num_channels, widths[0], 3, 2, act)
        stages: list[Module] = [
            FilterStage(config, widths[0], widths[1], 1, 1), FilterStage(config, widths[1], widths[2], 2, 3),
        ]  # fmt: skip
        for stage, (stride, dilation) in enumerate(dilated_stages(config.output_stride)):
            stages.append(AttentionStage(config, stage, stride, dilation))
        self.encoder = Module()
        self.encoder.layer = ModuleList(stages)
        self.conv_1x1_exp = ConvolutionNorm(widths[5], widths[6], 1, activation=act)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, C', H', W')."""
        check_pictures("MobileViT", pixel_values, self.config.num_channels)
        x = self.conv_stem(pixel_values)
        for stage in self.encoder.layer:
            x = stage(x)
        return self.conv_1x1_exp(x)


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    return ImageHead(BASE, MobileViT(config), config.neck_hidden_sizes[-1], len(config.labels), mean_of_places)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": MobileViT,
    "image-classification": image_classification,
}

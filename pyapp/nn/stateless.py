"""Functions as layers without parameters: pools, resampling, patches, padding, distances."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor
from ..engine.op import describe
from ..engine.ops import conv, pool, rearrange, resample
from ..errors import ArgumentError
from .function_layers import FunctionLayer, function_layer
from .margin_losses import cosine_similarity, pairwise_distance

_MAX_POOL = "kernel_size stride padding dilation return_indices ceil_mode"  # the function has the last two turned


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:  # fmt: skip
    """See interpolate."""
    return resample.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate in the mode "nearest"."""
    return upsample(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate in the mode "bilinear", with the corners aligned."""
    return upsample(input, size, scale_factor, "bilinear", True)


def _unflatten(input: Tensor, dim: int, unflattened_size: Any) -> Tensor:
    """Makes a dim into several; see unflatten."""
    return rearrange.unflatten(input, dim, unflattened_size)


class _Padding(FunctionLayer):
    """A number for all sides, or one for each, the last dim's first."""

    dims = 0
    padding: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sides = 2 * self.dims
        self.padding = (self.padding,) * sides if isinstance(self.padding, int) else tuple(self.padding)
        if len(self.padding) != sides:
            raise ArgumentError(f"{type(self).__name__}: padding is one number or {sides}, not {self.padding}")

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim < self.dims:
            raise ArgumentError(f"{type(self).__name__}: takes at least {self.dims} dims, got {describe(input)}")
        padded: Tensor = super().forward(input)
        return padded


def _pad_in_mode(mode: str) -> Any:
    def function(input: Tensor, padding: Any) -> Tensor:
        """See pad: a number, or numbers for each side, the last dim's first."""
        return rearrange.pad(input, padding, mode)

    return function


def _pad_constant(input: Tensor, padding: Any, value: float) -> Tensor:
    """See pad: a number, or numbers for each side, the last dim's first."""
    return rearrange.pad(input, padding, value=value)


def _pools(dims: int) -> dict[str, Any]:
    """The pools of so many dims, by their layers' names."""

    def layer(name: str, function: str, settings: str | None = None, tensors: int = 1) -> Any:
        return function_layer(f"{name}{dims}d", getattr(pool, f"{function}{dims}d"), settings, tensors)

    return {
        f"MaxPool{dims}d": layer("MaxPool", "max_pool", _MAX_POOL),
        f"AvgPool{dims}d": layer("AvgPool", "avg_pool"),
        f"LPPool{dims}d": layer("LPPool", "lp_pool"),
        f"AdaptiveAvgPool{dims}d": layer("AdaptiveAvgPool", "adaptive_avg_pool"),
        f"AdaptiveMaxPool{dims}d": layer("AdaptiveMaxPool", "adaptive_max_pool"),
        f"MaxUnpool{dims}d": layer("MaxUnpool", "max_unpool", "kernel_size stride padding", 2),
    }


def _pads(dims: int) -> dict[str, Any]:
    """The paddings of so many dims, by their layers' names."""
    base = type("_Padding", (_Padding,), {"dims": dims})
    functions = {
        "Zero": _pad_in_mode("constant"), "Reflection": _pad_in_mode("reflect"), "Constant": _pad_constant,
        "Replication": _pad_in_mode("replicate"), "Circular": _pad_in_mode("circular"),
    }  # fmt: skip
    return {f"{kind}Pad{dims}d": function_layer(f"{kind}Pad{dims}d", f, base=base) for kind, f in functions.items()}


for _dims in (1, 2, 3):
    globals().update(_pools(_dims) | _pads(_dims))
for _dims in (2, 3):
    _name = f"FractionalMaxPool{_dims}d"
    globals()[_name] = function_layer(_name, getattr(pool, f"fractional_max_pool{_dims}d"))
Upsample = function_layer("Upsample", upsample)
UpsamplingNearest2d = function_layer("UpsamplingNearest2d", upsample_nearest)
UpsamplingBilinear2d = function_layer("UpsamplingBilinear2d", upsample_bilinear)
PixelShuffle = function_layer("PixelShuffle", resample.pixel_shuffle)
PixelUnshuffle = function_layer("PixelUnshuffle", resample.pixel_unshuffle)
ChannelShuffle = function_layer("ChannelShuffle", resample.channel_shuffle)
Fold = function_layer("Fold", conv.col2im)
Unfold = function_layer("Unfold", conv.im2col)
Unflatten = function_layer("Unflatten", _unflatten)
CosineSimilarity = function_layer("CosineSimilarity", cosine_similarity, tensors=2)
PairwiseDistance = function_layer("PairwiseDistance", pairwise_distance, tensors=2)

"""Resampling: interpolation, sampling at given points, and pixel shuffling."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from .from_function import FunctionLayer, function_layer, torch_function

__all__ = [
    "ChannelShuffle", "PixelShuffle", "PixelUnshuffle", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
    "affine_grid", "channel_shuffle", "grid_sample", "interpolate", "native_channel_shuffle", "pixel_shuffle",
    "pixel_unshuffle", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

channel_shuffle, grid_sample, interpolate, pixel_shuffle, pixel_unshuffle = map(
    torch_function,
    (ops.channel_shuffle, ops.grid_sample, ops.interpolate, ops.pixel_shuffle, ops.pixel_unshuffle),
)
affine_grid, native_channel_shuffle = ops.affine_grid, ops.channel_shuffle


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:  # fmt: skip
    """See interpolate."""
    return ops.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate in the mode "nearest"."""
    return upsample(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate in the mode "bilinear", with the corners aligned."""
    return upsample(input, size, scale_factor, "bilinear", True)


class _Resampling(FunctionLayer):
    """Factors are floats, as torch's layers have them."""

    mode = "nearest"
    scale_factor: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        factor = self.scale_factor
        if factor is not None:
            self.scale_factor = tuple(map(float, factor)) if isinstance(factor, (tuple, list)) else float(factor)

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class _Bilinear(_Resampling):
    mode = "bilinear"


Upsample = function_layer("Upsample", upsample, base=_Resampling)
UpsamplingNearest2d = function_layer("UpsamplingNearest2d", upsample_nearest, base=_Resampling)
UpsamplingBilinear2d = function_layer("UpsamplingBilinear2d", upsample_bilinear, base=_Bilinear)
PixelShuffle = function_layer("PixelShuffle", pixel_shuffle)
PixelUnshuffle = function_layer("PixelUnshuffle", pixel_unshuffle)
ChannelShuffle = function_layer("ChannelShuffle", channel_shuffle)

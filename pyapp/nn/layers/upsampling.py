"""Resampling: interpolation, sampling at given points, and pixel shuffling."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from .from_function import function_layer, torch_function

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


Upsample = function_layer("Upsample", upsample)
UpsamplingNearest2d = function_layer("UpsamplingNearest2d", upsample_nearest)
UpsamplingBilinear2d = function_layer("UpsamplingBilinear2d", upsample_bilinear)
PixelShuffle = function_layer("PixelShuffle", pixel_shuffle)
PixelUnshuffle = function_layer("PixelUnshuffle", pixel_unshuffle)
ChannelShuffle = function_layer("ChannelShuffle", channel_shuffle)

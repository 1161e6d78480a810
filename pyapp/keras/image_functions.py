"""keras.ops.image: functions of pictures (B, H, W, C) or (H, W, C). Channels come last."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, ops
from ..engine.ops.dtype_limits import iinfo
from .layers.images import Resizing

__all__ = ["crop_images", "pad_images", "resize", "rgb_to_grayscale"]


def _with_channels_last(name: str, data_format: str | None, pictures: Tensor) -> None:
    if data_format not in (None, "channels_last"):
        raise ValueError(f"{name}: pictures have their channels last")
    if pictures.ndim not in (3, 4):
        raise ValueError(f"{name}: takes pictures (B, H, W, C) or (H, W, C), got {tuple(pictures.shape)}")


def resize(
    images: Tensor, size: Any, interpolation: str = "bilinear", antialias: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False, fill_mode: str = "constant",
    fill_value: float = 0.0, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Pictures of another size (height, width), of their own dtype: whole numbers are rounded, within its limits."""
    _with_channels_last("resize", data_format, images)
    height, width = (int(n) for n in size)
    layer = Resizing(
        height, width, interpolation, crop_to_aspect_ratio, pad_to_aspect_ratio, fill_mode, fill_value, antialias
    )
    if images.dtype.is_floating_point:
        return layer(images)
    limits = iinfo(images.dtype)
    return layer(images.to("float32")).round().clamp(limits.min, limits.max).to(images.dtype)


def rgb_to_grayscale(images: Tensor, data_format: str | None = None) -> Tensor:
    """The brightness of pictures with 3 channels, in 1 channel; the weights are those of ITU-R BT.601."""
    _with_channels_last("rgb_to_grayscale", data_format, images)
    if images.shape[-1] == 1:
        return images
    if images.shape[-1] != 3:
        raise ValueError(f"rgb_to_grayscale: takes 1 or 3 channels, got {images.shape[-1]}")
    weights = ops.tensor([0.2989, 0.5870, 0.1140], dtype="float32", device=images.device)
    found = (images.to("float32") * weights).sum(-1, True)
    return found.to(images.dtype)


def _sides(name: str, size: int, before: int | None, after: int | None, change: int | None) -> tuple[int, int]:
    """How much changes before and after, from two of these and the change of the whole."""
    if (before, after, change).count(None) != 1:
        raise ValueError(f"{name}: takes two of the sizes of a dim: what is before, what is after, and the target")
    if before is None:
        before = (change or 0) - (after or 0)
    elif after is None:
        after = (change or 0) - before
    assert after is not None
    if before < 0 or after < 0:
        raise ValueError(f"{name}: {before} before and {after} after a dim of {size}")
    return before, after


def _all_sides(name: str, images: Tensor, sides: tuple[Any, ...], sign: int) -> tuple[int, int, int, int]:
    """Top, bottom, left, right. `sign`: 1 if the pictures grow, -1 if they shrink."""
    top, left, bottom, right, *targets = sides
    height, width = images.shape[-3:-1]
    rows, columns = (None if n is None else sign * (n - old) for n, old in zip(targets, (height, width), strict=True))
    return *_sides(name, height, top, bottom, rows), *_sides(name, width, left, right, columns)


def pad_images(
    images: Tensor, top_padding: int | None = None, left_padding: int | None = None, bottom_padding: int | None = None,
    right_padding: int | None = None, target_height: int | None = None, target_width: int | None = None,
    data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Pictures with zeros around them. Of top, bottom and target_height two are given, and so for the width."""
    _with_channels_last("pad_images", data_format, images)
    sides = (top_padding, left_padding, bottom_padding, right_padding, target_height, target_width)
    top, bottom, left, right = _all_sides("pad_images", images, sides, 1)
    return ops.pad(images, [0, 0, left, right, top, bottom])


def crop_images(
    images: Tensor, top_cropping: int | None = None, left_cropping: int | None = None,
    bottom_cropping: int | None = None, right_cropping: int | None = None, target_height: int | None = None,
    target_width: int | None = None, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """A part of pictures. Of top, bottom and target_height two are given, and so for the width."""
    _with_channels_last("crop_images", data_format, images)
    sides = (top_cropping, left_cropping, bottom_cropping, right_cropping, target_height, target_width)
    top, bottom, left, right = _all_sides("crop_images", images, sides, -1)
    height, width = images.shape[-3] - top - bottom, images.shape[-2] - left - right
    if height <= 0 or width <= 0:
        raise ValueError(f"crop_images: nothing is left of pictures of {images.shape[-3]} x {images.shape[-2]}")
    return images.narrow(-3, top, height).narrow(-2, left, width)

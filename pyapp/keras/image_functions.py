"""keras.ops.image: functions of pictures (B, H, W, C) or (H, W, C); `data_format` may put the channels first."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, ops
from ..engine.ops.dtype_limits import iinfo
from .arguments import as_floats, as_tensor, channels_last, is_channels_first
from .layers.images import Resizing
from .nn_functions import conv, depthwise_conv

__all__ = [
    "crop_images", "extract_patches", "extract_patches_3d", "gaussian_blur", "hsv_to_rgb", "pad_images", "resize",
    "rgb_to_grayscale", "rgb_to_hsv", "sobel_edges", "ssim",
]  # fmt: skip


def check_pictures(name: str, pictures: Tensor) -> None:
    """ValueError unless they have 3 or 4 dims."""
    if pictures.ndim not in (3, 4):
        raise ValueError(f"{name}: takes pictures (B, H, W, C) or (H, W, C), got {tuple(pictures.shape)}")


@channels_last(-3)
def resize(
    images: Any, size: Any, interpolation: str = "bilinear", antialias: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False, fill_mode: str = "constant",
    fill_value: float = 0.0, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Pictures of another size (height, width), of their own dtype: whole numbers are rounded, within its limits."""
    images = as_tensor(images)
    check_pictures("resize", images)
    height, width = (int(n) for n in size)
    layer = Resizing(
        height,
        width,
        interpolation,
        crop_to_aspect_ratio,
        pad_to_aspect_ratio,
        fill_mode,
        fill_value,
        antialias,
        "channels_last",
    )
    if images.dtype.is_floating_point:
        return layer(images)
    limits = iinfo(images.dtype)
    return layer(images.to("float32")).round().clamp(limits.min, limits.max).to(images.dtype)


@channels_last(-3)
def rgb_to_grayscale(images: Any, data_format: str | None = None) -> Tensor:
    """The brightness of pictures with 3 channels, in 1 channel; the weights are those of ITU-R BT.601."""
    images = as_tensor(images)
    check_pictures("rgb_to_grayscale", images)
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


@channels_last(-3)
def pad_images(
    images: Any, top_padding: int | None = None, left_padding: int | None = None, bottom_padding: int | None = None,
    right_padding: int | None = None, target_height: int | None = None, target_width: int | None = None,
    data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Pictures with zeros around them. Of top, bottom and target_height two are given, and so for the width."""
    images = as_tensor(images)
    check_pictures("pad_images", images)
    sides = (top_padding, left_padding, bottom_padding, right_padding, target_height, target_width)
    top, bottom, left, right = _all_sides("pad_images", images, sides, 1)
    return ops.pad(images, [0, 0, left, right, top, bottom])


@channels_last(-3)
def crop_images(
    images: Any, top_cropping: int | None = None, left_cropping: int | None = None,
    bottom_cropping: int | None = None, right_cropping: int | None = None, target_height: int | None = None,
    target_width: int | None = None, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """A part of pictures. Of top, bottom and target_height two are given, and so for the width."""
    images = as_tensor(images)
    check_pictures("crop_images", images)
    sides = (top_cropping, left_cropping, bottom_cropping, right_cropping, target_height, target_width)
    top, bottom, left, right = _all_sides("crop_images", images, sides, -1)
    height, width = images.shape[-3] - top - bottom, images.shape[-2] - left - right
    if height <= 0 or width <= 0:
        raise ValueError(f"crop_images: nothing is left of pictures of {images.shape[-3]} x {images.shape[-2]}")
    return images.narrow(-3, top, height).narrow(-2, left, width)


def _planes(name: str, images: Any) -> tuple[Tensor, ...]:
    """The three channels of floats (…, 3)."""
    x = as_tensor(images)
    check_pictures(name, x)
    if x.shape[-1] != 3 or not x.dtype.is_floating_point:
        raise ValueError(f"{name}: takes floats with 3 channels, got {x.dtype.name} with {x.shape[-1]}")
    return x.unbind(-1)


@channels_last(-3)
def rgb_to_hsv(images: Any, data_format: str | None = None) -> Tensor:
    """Hue, saturation and value, each from 0 to 1, of red, green and blue from 0 to 1."""
    red, green, blue = _planes("rgb_to_hsv", images)
    value = ops.maximum(ops.maximum(red, green), blue)
    spread = value - ops.minimum(ops.minimum(red, green), blue)
    grey = spread <= 0
    share = 1 / (6 * ops.where(grey, 1.0, spread))
    hue = ops.where(value == green, share * (blue - red) + 2 / 6, share * (red - green) + 4 / 6)
    hue = ops.where(value == red, share * (green - blue), hue)
    hue = ops.where(grey, 0.0, hue)
    saturation = ops.where(value > 0, spread / ops.where(value > 0, value, 1.0), 0.0)
    return ops.stack([hue + (hue < 0).to(hue.dtype), saturation, value], -1).to(value.dtype)


@channels_last(-3)
def hsv_to_rgb(images: Any, data_format: str | None = None) -> Tensor:
    """Red, green and blue of hue, saturation and value."""
    hue, saturation, value = _planes("hsv_to_rgb", images)
    sector = hue * 6
    distances = ((sector - 3).abs() - 1, 2 - (sector - 2).abs(), 2 - (sector - 4).abs())
    colours = [value * (1 + saturation * (one.clamp(0, 1) - 1)) for one in distances]
    return ops.stack(colours, -1)


def _patches(name: str, x: Tensor, size: Any, strides: Any, dilation_rate: Any, padding: str, dims: int) -> Tensor:
    """(B, …, C) → (B, …, window * C): a convolution with the identity."""
    single = x.ndim == dims + 1
    if x.ndim not in (dims + 1, dims + 2):
        raise ValueError(f"{name}: takes {dims + 1} or {dims + 2} dims, got {tuple(x.shape)}")
    window = (size,) * dims if isinstance(size, int) else tuple(size)
    if len(window) != dims:
        raise ValueError(f"{name}: size is a number or {dims} of them, not {size!r:.40}")
    channels, count = x.shape[-1], x.shape[-1]
    for n in window:
        count *= n
    identity = ops.eye(count, dtype=x.dtype, device=x.device).reshape(*window, channels, count)
    found = conv(x.unsqueeze(0) if single else x, identity, strides or window, padding, None, dilation_rate)
    return found[0] if single else found


@channels_last(-3)
def extract_patches(
    images: Any, size: Any, strides: Any = None, dilation_rate: Any = 1, padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """The windows of pictures, each with its pixels as channels: (B, rows, columns, height * width * C). A `size` of
    three numbers is that of windows of volumes."""
    if isinstance(size, (tuple, list)) and len(size) == 3:
        return extract_patches_3d(images, size, strides, dilation_rate, padding)
    return _patches("extract_patches", as_tensor(images), size, strides, dilation_rate, padding, 2)


@channels_last(-4)
def extract_patches_3d(
    volumes: Any, size: Any, strides: Any = None, dilation_rate: Any = 1, padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """The windows of volumes (B, D, H, W, C), each with its elements as channels."""
    return _patches("extract_patches_3d", as_tensor(volumes), size, strides, dilation_rate, padding, 3)


def _bell(size: int, sigma: float, like: Tensor) -> Tensor:
    """A normal distribution at `size` points around the middle, of the sum 1."""
    if size < 1 or size % 2 == 0 or not sigma > 0:
        raise ValueError(f"a filter has an odd size from 1 on and a positive sigma, got {size} and {sigma}")
    places = ops.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2
    found = (-0.5 * (places / sigma).square()).exp()
    return found / found.sum()


def filtered(x: Tensor, kernel: Tensor, padding: str) -> Tensor:
    """Each channel of (B, H, W, C) by one kernel (h, w)."""
    return depthwise_conv(x, kernel.reshape(*kernel.shape, 1, 1).expand(*kernel.shape, x.shape[-1], 1), 1, padding)


@channels_last(-3)
def gaussian_blur(
    images: Any, kernel_size: Any = (3, 3), sigma: Any = (1.0, 1.0), data_format: str | None = None
) -> Tensor:
    """Pictures blurred by a bell, with zeros beyond their edges. The first size and sigma are those along the width."""
    x = as_floats(images)
    check_pictures("gaussian_blur", x)
    (wide, tall), (along, down) = (int(n) for n in kernel_size), (float(n) for n in sigma)
    kernel = _bell(tall, down, x).unsqueeze(-1) * _bell(wide, along, x)
    return filtered(x, kernel, "same") if x.ndim == 4 else filtered(x.unsqueeze(0), kernel, "same")[0]


def sobel_edges(images: Any, data_format: str | None = None) -> Tensor:
    """How much pictures (B, H, W, C) change downwards and to the right, by Sobel's filter: (B, H, W, C, 2). With the
    channels first: (B, C, H, W, 2)."""
    x, first = as_floats(images), is_channels_first("sobel_edges", data_format)
    if x.ndim != 4:
        raise ValueError(f"sobel_edges: takes pictures with 4 dims, got {tuple(x.shape)}")
    x = x.movedim(1, -1) if first else x
    right = ops.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]], dtype=x.dtype, device=x.device)
    found = ops.stack([filtered(x, kernel, "same") for kernel in (right.mT, right)], -1)
    return found.movedim(3, 1) if first else found


def ssim(
    image1: Any, image2: Any, max_val: float = 1.0, filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01,
    k2: float = 0.03, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """The structural similarity (Wang et al. 2004) of each pair of pictures: 1 for equal ones."""
    first = is_channels_first("ssim", data_format)
    a, b = (as_floats(image) for image in (image1, image2))
    if a.ndim not in (3, 4) or a.shape != b.shape:
        raise ValueError(f"ssim: takes two pictures of one shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    single = a.ndim == 3
    a, b = (x.unsqueeze(0) if single else x for x in (a, b))
    a, b = (x.movedim(1, -1) if first else x for x in (a, b))
    if filter_size > min(a.shape[1:3]):
        raise ValueError(f"ssim: the filter of {filter_size} is larger than pictures of {a.shape[1]} x {a.shape[2]}")
    bell = _bell(filter_size, filter_sigma, a)
    kernel = bell.unsqueeze(-1) * bell
    mean_a, mean_b, aa, bb, ab = (filtered(x, kernel, "valid") for x in (a, b, a * a, b * b, a * b))
    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    light = (2 * mean_a * mean_b + c1) / (mean_a.square() + mean_b.square() + c1)
    form = (2 * (ab - mean_a * mean_b) + c2) / (aa - mean_a.square() + bb - mean_b.square() + c2)
    found = (light * form).mean((1, 2, 3))
    return found[0] if single else found

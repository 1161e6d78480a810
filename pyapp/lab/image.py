"""Images of a cell: tensors and arrays as PNG."""

from __future__ import annotations

import base64
from typing import Any

from pyapp.engine.lazy import np
from pyapp.formats.png import encode_png

from .output import show

LARGEST = 4096  # pixels of a side
SMALL = 240  # pixels: smaller images are enlarged to about this width
GAP = 1  # pixels between images of a row


def image(pixels: Any, width: int | None = None, caption: str = "") -> None:
    """Shows an image: (H, W) greys, (H, W, 1), (H, W, 3) or (H, W, 4) colours, or (N, H, W) and (N, H, W, C) for
    images in rows. Whole numbers are 0 to 255; floats are 0 to 1 if they lie there, else the smallest becomes
    black and the largest white. `width` is that on the screen, in CSS pixels.
    """
    data = as_bytes(pixels)  # (H, W, C) uint8
    height, across = data.shape[:2]
    if width is not None and not 1 <= width <= LARGEST:
        raise ValueError(f"image: the width is 1 to {LARGEST} pixels, not {width}")
    shown = width or (across if across >= SMALL else across * max(SMALL // across, 1))
    text = f"[image, {across} × {height} pixels{': ' + caption if caption else ''}]"
    png = base64.b64encode(encode_png(data)).decode("ascii")
    show(
        {"kind": "image", "png": png, "width": shown, "height": round(shown * height / across), "caption": caption},
        text,
    )


def as_bytes(pixels: Any) -> Any:
    """The pixels as one array (H, W, C) of uint8. C is 1, 3 or 4."""
    array = np.asarray(pixels.detach().cpu().numpy() if hasattr(pixels, "detach") else pixels)
    if array.dtype == object or array.dtype.kind not in "biuf":
        raise TypeError(f"image: the pixels are numbers, not {array.dtype}")
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(f"image: the shape is (H, W), (H, W, C), (N, H, W) or (N, H, W, C), not {array.shape}")
    if array.ndim == 3 and array.shape[-1] not in (1, 3, 4):
        array = array[..., None]  # (N, H, W, 1)
    elif array.ndim == 2:
        array = array[..., None]  # (H, W, 1)
    if array.shape[-1] not in (1, 3, 4):
        raise ValueError(f"image: there are 1, 3 or 4 numbers for each pixel, not {array.shape[-1]}")
    if array.ndim == 4:
        array = in_rows(array)
    if max(array.shape[:2]) > LARGEST:
        raise ValueError(
            f"image: {array.shape[1]} × {array.shape[0]} pixels are too many; the limit is {LARGEST} for each side"
        )
    return scaled(array)


def in_rows(images: Any) -> Any:
    """(N, H, W, C) → (rows, columns, C), with a gap of the brightest value around each image."""
    count, height, width, channels = images.shape
    columns = min(count, max(1, int((count * 1.6) ** 0.5 + 0.5)))
    rows = -(-count // columns)
    tall, wide = rows * (height + GAP) - GAP, columns * (width + GAP) - GAP
    if max(tall, wide) > LARGEST:
        raise ValueError(
            f"image: {count} images of {width} × {height} pixels are too many; the limit is {LARGEST} for each side"
        )
    sheet = np.full((tall, wide, channels), images.max(), images.dtype)  # (rows, columns, C)
    for i in range(count):
        top, left = i // columns * (height + GAP), i % columns * (width + GAP)
        sheet[top : top + height, left : left + width] = images[i]
    return sheet


def scaled(array: Any) -> Any:
    """Numbers of any kind → uint8."""
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype == bool:
        return np.where(array, 255, 0).astype(np.uint8)
    values = np.nan_to_num(array.astype(np.float64))
    low, high = float(values.min()), float(values.max())
    if array.dtype.kind in "iu" and 0 <= low and high <= 255:
        return values.astype(np.uint8)
    if low < 0 or high > 1:
        values = (values - low) / ((high - low) or 1.0)
    return np.rint(values * 255).astype(np.uint8)

"""Resample pictures with the numbers of Pillow's `Image.resize`.

A filter runs along the width, then one along the height, both in fixed point and rounded to 8 bits. So do the versions
of Pillow up to 12, with which today's models were trained; 13 begins with the height for some sizes.

Source of the filters: https://pillow.readthedocs.io/en/stable/handbook/concepts.html#filters
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, pi
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.ops.resample import Taps, resampled_bytes
from pyapp.errors import ArgumentError

PRECISION = 22  # bits of a weight after the point, as Pillow has them
SIZE_LIMIT = 1 << 27  # pixels of the result


def _box(x: Any) -> Any:
    return np.where((x > -0.5) & (x <= 0.5), 1.0, 0.0)


def _bilinear(x: Any) -> Any:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _hamming(x: Any) -> Any:
    x = np.abs(x)
    inside = np.where(x == 0, 1e-30, x) * pi
    return np.where(x == 0, 1.0, np.where(x >= 1, 0.0, np.sin(inside) / inside * (0.54 + 0.46 * np.cos(inside))))


def _bicubic(x: Any) -> Any:
    """Keys 1981, with -0.5."""
    a, x = -0.5, np.abs(x)
    near, far = ((a + 2.0) * x - (a + 3.0)) * x * x + 1, (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _lanczos(x: Any) -> Any:
    return np.where((x >= -3) & (x < 3), np.sinc(x) * np.sinc(x / 3), 0.0)


# By the names of Pillow's filters: their reach in pixels of the source, and the weight at a distance.
FILTERS = {
    "box": (0.5, _box), "bilinear": (1.0, _bilinear), "hamming": (1.0, _hamming), "bicubic": (2.0, _bicubic),
    "lanczos": (3.0, _lanczos),
}  # fmt: skip
# Pillow's numbers of the filters, which preprocessor_config.json has as `resample`.
NUMBERED = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


def resize(image: Tensor, height: int, width: int, method: str = "bicubic") -> Tensor:
    """A picture uint8 (H, W, C) → (height, width, C), equal to Pillow's. method: "nearest", "box", "bilinear",
    "hamming", "bicubic" or "lanczos".

    ArgumentError for another dtype, shape, size or method.
    """
    if image.ndim != 3 or image.dtype.name != "uint8" or 0 in image.shape:
        raise ArgumentError(f"resize: a picture is uint8 (H, W, C), not {image.dtype.name} {list(image.shape)}")
    if min(height, width) < 1 or height * width > SIZE_LIMIT:
        raise ArgumentError(f"resize: {height} x {width} is not a size of a picture")
    if method == "nearest":
        rows, columns = (
            _nearest(size, out, image.device) for size, out in zip(image.shape[:2], (height, width), strict=True)
        )
        return image.index_select(0, rows).index_select(1, columns)
    if method not in FILTERS:
        raise ArgumentError(f"resize: {method!r:.40} is none of nearest, {', '.join(FILTERS)}")
    if width != image.shape[1]:
        image = resampled_bytes(image, 1, _taps(image.shape[1], width, method))
    if height != image.shape[0]:
        image = resampled_bytes(image, 0, _taps(image.shape[0], height, method))
    return image.contiguous()


def _nearest(size: int, out: int, device: Any) -> Tensor:
    steps = np.full(out, size / out)
    steps[0] /= 2
    places = np.cumsum(steps).astype("int64")  # added up one by one, as Pillow does
    return ops.tensor(np.minimum(places, size - 1)).to(device)


@lru_cache(64)
def _taps(size: int, out: int, method: str) -> Taps:
    """The pixels of the source that make each pixel of the result, with their whole weights."""
    reach, weight = FILTERS[method]
    scale = size / out
    stretch = max(scale, 1.0)
    support = reach * stretch
    centre = (np.arange(out) + 0.5) * scale
    first = np.maximum((centre - support + 0.5).astype("int64"), 0)
    last = np.minimum((centre + support + 0.5).astype("int64"), size)  # after the last
    places = first[:, None] + np.arange(ceil(support) * 2 + 1)
    found = weight((places - centre[:, None] + 0.5) * (1.0 / stretch))
    kept = places < last[:, None]
    found = np.where(kept, found, 0.0)
    found /= found.sum(1, keepdims=True)
    whole = np.trunc(found * (1 << PRECISION) + np.where(found < 0, -0.5, 0.5))
    return Taps.of_neighbours(size, places, whole, kept, PRECISION)


def smoothly_resized(x: Tensor, height: int, width: int, side: int | None = None) -> Tensor:
    """A picture float32 (C, H, W) → (C, height, width), with the numbers of scikit-image's `resize` (order 1): smoothed
    by Gauss' function where it becomes smaller, then interpolated between neighbours. `side`: the picture lies in the
    upper left of a square of so many pixels, whose others are 0, and which is resized.
    """
    if min(height, width) < 1 or height * width > SIZE_LIMIT:
        raise ArgumentError(f"resize: {height} x {width} is not a size of a picture")
    high, wide = int(x.shape[1]), int(x.shape[2])
    lows, highs = x.amin().item(), x.amax().item()
    if side is not None and (high, wide) != (side, side):
        lows, highs = min(lows, 0.0), max(highs, 0.0)
    down, across = (
        ops.tensor(_smooth_weights(side or size, out)[:, :size].astype("float32")).to(x.device)
        for size, out in ((high, height), (wide, width))
    )
    return ops.matmul(ops.matmul(down, x), across.transpose(0, 1)).clamp(lows, highs)


def _smooth_weights(size: int, out: int) -> Any:
    """(out, size): how much each pixel counts in each of the result. Pixels outside are those inside, reflected at the
    centre of the last one.
    """
    places = (np.arange(out) + 0.5) * size / out - 0.5
    before = np.floor(places).astype("int64")
    part = places - before
    sigma = max(0.0, (size / out - 1) / 2)
    reach = int(4 * sigma + 0.5)
    gauss = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (sigma or 1.0)) ** 2)
    gauss /= gauss.sum()
    found, rows = np.zeros((out, size)), np.arange(out)[:, None]
    for place, share in ((before, 1 - part), (before + 1, part)):
        taps = _reflected(place, size)[:, None] + np.arange(-reach, reach + 1)
        np.add.at(found, (rows, _reflected(taps, size)), share[:, None] * gauss)
    return found


def _reflected(places: Any, size: int) -> Any:
    """Places outside of a row of pixels as those inside."""
    if size == 1:
        return np.zeros_like(places)
    places = np.abs(places) % (2 * size - 2)
    return np.where(places < size, places, 2 * size - 2 - places)

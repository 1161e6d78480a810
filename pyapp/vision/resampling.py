"""Resample pictures with the numbers of Pillow's `Image.resize`.

A filter runs along the width, then one along the height, both in fixed point and rounded to 8 bits. So do the versions
of Pillow up to 12, with which today's models were trained; 13 begins with the height for some sizes.

Source of the filters: https://pillow.readthedocs.io/en/stable/handbook/concepts.html#filters
"""

from __future__ import annotations

from math import ceil, pi
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.ops import cat
from pyapp.errors import ArgumentError

PRECISION = 22  # bits of a weight after the point, as Pillow has them
BLOCK = 16  # pixels of the result that are computed by one product
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
        image = _along_width(image, width, method)
    if height != image.shape[0]:
        image = _along_width(image.transpose(0, 1), height, method).transpose(0, 1)
    return image.contiguous()


def _nearest(size: int, out: int, device: Any) -> Tensor:
    steps = np.full(out, size / out)
    steps[0] /= 2
    places = np.cumsum(steps).astype("int64")  # added up one by one, as Pillow does
    return ops.tensor(np.minimum(places, size - 1)).to(device)


def _weights(size: int, out: int, method: str) -> tuple[Any, Any]:
    """(first (out,), weights (out, taps)): the first pixel of each pixel of the result, and the whole numbers, in
    2^-PRECISION, with which it and those after it count.
    """
    reach, weight = FILTERS[method]
    scale = size / out
    stretch = max(scale, 1.0)
    support = reach * stretch
    centre = (np.arange(out) + 0.5) * scale
    first = np.maximum((centre - support + 0.5).astype("int64"), 0)
    last = np.minimum((centre + support + 0.5).astype("int64"), size)  # after the last
    taps = np.arange(ceil(support) * 2 + 1)
    found = weight((taps + first[:, None] - centre[:, None] + 0.5) * (1.0 / stretch))
    found = np.where(taps < (last - first)[:, None], found, 0.0)
    found /= found.sum(1, keepdims=True)
    return first, np.trunc(found * (1 << PRECISION) + np.where(found < 0, -0.5, 0.5))


def _along_width(image: Tensor, out: int, method: str) -> Tensor:
    """(H, W, C) uint8 → (H, out, C) uint8. Each product of BLOCK pixels reads only the pixels that they need; float64
    holds the sums of whole numbers exactly.
    """
    height, size, channels = image.shape
    first, weights = _weights(size, out, method)
    parts = []
    for start in range(0, out, BLOCK):
        block, numbers = first[start : start + BLOCK], weights[start : start + BLOCK]
        low, high = int(block.min()), min(int(block.max()) + weights.shape[1], size)
        matrix = np.zeros((len(block), high - low + weights.shape[1]))
        for row, (place, values) in enumerate(zip(block - low, numbers, strict=True)):
            matrix[row, place : place + len(values)] = values
        source = image.narrow(1, low, high - low).permute(0, 2, 1).to("float64")  # (H, C, span)
        product = ops.matmul(source, ops.tensor(matrix[:, : high - low].T.copy()).to(image.device))  # (H, C, block)
        rounded = ((product + (1 << (PRECISION - 1))) * 2.0**-PRECISION).floor().clamp(0, 255)
        parts.append(rounded.to("uint8").permute(0, 2, 1))
    return cat(parts, 1)


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

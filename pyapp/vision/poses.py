"""Parts of pictures as models of poses see them, and the places of the points that they find.

The numbers are those of transformers' VitPoseImageProcessor: sides are measured between the centres of pixels (Huang et
al. 2020, arXiv 1911.07524), and a point lies at the peak of a parabola through what is around the likeliest place
(Zhang et al. 2020, arXiv 1910.06278).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np

MARGIN = 1.25  # how much larger than a box the part of the picture is
SIGMA, RADIUS = 0.8, 5  # of the function that smooths the likelihoods, in places
LEAST, MOST = 0.001, 50.0  # likelihoods
SMALL = 1.1920929e-07  # keeps a matrix invertible


def _part(box: Sequence[float], height: int, width: int) -> tuple[float, float, float, float]:
    """The middle (x, y) and the width and height of a part of a picture around a box (left, top, right, bottom), with
    the ratio of an input of `height` x `width` pixels.
    """
    left, top, right, bottom = box
    wide, high, ratio = right - left, bottom - top, width / height
    wide, high = max(wide, high * ratio), max(high, wide / ratio)
    return (left + right) / 2, (top + bottom) / 2, wide * MARGIN, high * MARGIN


def part_of(image: Tensor, box: Sequence[float], height: int, width: int) -> Tensor:
    """The part of a picture uint8 (H, W, 3) around a box (left, top, right, bottom in pixels) → uint8 (height, width,
    3), black where there is no picture.
    """
    x, y, wide, high = _part(box, height, width)
    pixels = image.cpu().numpy().astype("float64")
    for axis, middle, side, count in ((0, y, high, height), (1, x, wide, width)):
        at = middle - side / 2 + np.arange(count) * (side / (count - 1))  # where each pixel is read
        size = pixels.shape[axis]
        inside = (at >= 0) & (at <= size - 1)
        before = np.clip(np.floor(at), 0, max(size - 2, 0)).astype("int64")
        shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
        part = (at - before).reshape(shape)
        found = pixels.take(before, axis) * (1 - part) + pixels.take(np.minimum(before + 1, size - 1), axis) * part
        pixels = found * inside.reshape(shape)
    return Tensor.from_buffer(np.floor(pixels + 0.5).astype("uint8").tobytes(), (height, width, 3), "uint8")


def points_of(heat: Any, box: Sequence[float], height: int, width: int) -> list[list[float]]:
    """Likelihoods float32 (points, H, W) of the part of a picture around a box, whose input has so many pixels → each
    point's [x, y, likelihood], x and y in pixels of the picture.
    """
    x, y, wide, high = _part(box, height, width)
    rows, columns = heat.shape[1:]
    smooth = np.array([exp(-0.5 * (i / SIGMA) ** 2) for i in range(-RADIUS, RADIUS + 1)])
    padded = np.pad(heat.astype("float64"), ((0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS)), "symmetric")
    smooth = smooth / smooth.sum()
    down = sum(weight * padded[:, i : i + rows] for i, weight in enumerate(smooth))
    blurred = sum(weight * down[:, :, i : i + columns] for i, weight in enumerate(smooth))
    logs = np.pad(np.log(np.clip(blurred, LEAST, MOST)), ((0, 0), (1, 1), (1, 1)), "edge")
    found = []
    for own, near in zip(heat, logs, strict=True):
        i, j = divmod(int(own.argmax()), columns)
        (a, b, c), (d, e, f), (g, h, k) = near[i : i + 3, j : j + 3]  # around the likeliest place
        first, second, mixed = f - 2 * e + d + SMALL, h - 2 * e + b + SMALL, (k - f - h + 2 * e - d - b + a) / 2
        along, below, area = (f - d) / 2, (h - b) / 2, (first * second - mixed * mixed) or 1.0
        place = j - (second * along - mixed * below) / area, i - (first * below - mixed * along) / area
        found.append([
            float(place[0] * wide / (columns - 1) + x - wide / 2), float(place[1] * high / (rows - 1) + y - high / 2),
            float(own[i, j]),
        ])  # fmt: skip
    return found

"""The angle of a page: lines and rules make the sharpest profile of rows when the page is straight (Postl 1986)."""

from __future__ import annotations

from math import cos, radians, sin, tan
from typing import TYPE_CHECKING

from pyapp.engine.lazy import np

from .steps import Steps, finished

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEEPEST = 8.0  # degrees
POINTS = 40_000
LEAST_GAIN = 1.06  # of the profile's sharpness
LEAST_SHARPNESS = 1.0  # for each point: a shadow along a side of the page has less
LEAST_ANGLE = 0.12  # degrees: less is left as it is
STEPS = ((STEEPEST, 0.5, 3.0), (0.5, 0.1, 2.0), (0.1, 0.02, 1.0))  # reach, step in degrees, pixels of a row


def skew(mask: NDArray[np.bool_]) -> float:
    """The degrees by which the lines of a mask, bool (H, W), fall to the right; 0.0 where that is not clear."""
    rows, columns = np.nonzero(mask)
    if len(rows) < 50:
        return 0.0
    step = -(-len(rows) // POINTS)
    y, x = rows[::step].astype(np.float32), columns[::step].astype(np.float32)
    x -= x.mean()

    def sharpness(angle: float, pixels: float) -> float:
        places = (y - x * np.float32(tan(radians(angle)))) / np.float32(pixels)
        counts = np.bincount((places - places.min()).astype(np.int64)).astype(np.float64)
        return float((np.diff(counts) ** 2).sum() if len(counts) > 1 else 0.0)

    best = 0.0
    for reach, size, pixels in STEPS:
        angles = [best + size * k for k in range(-round(reach / size), round(reach / size) + 1)]
        best = max(angles, key=lambda angle: (sharpness(angle, pixels), -abs(angle)))
    found = sharpness(best, 2.0)
    if abs(best) < LEAST_ANGLE or found < max(LEAST_GAIN * sharpness(0.0, 2.0), LEAST_SHARPNESS * len(x)):
        return 0.0
    return best


class Turn:
    """A page (H, W) turned by an angle in degrees around its middle, so that lines that fall become straight."""

    def __init__(self, angle: float, height: int, width: int) -> None:
        self.angle, self.height, self.width = angle, height, width
        self.cosine, self.sine = cos(radians(angle)), sin(radians(angle))
        self.out_height = round(height * abs(self.cosine) + width * abs(self.sine))
        self.out_width = round(width * abs(self.cosine) + height * abs(self.sine))

    def pixels(self, grey: NDArray[np.uint8], fill: int) -> NDArray[np.uint8]:
        """The turned picture, uint8 (out_height, out_width), linear between pixels; `fill` is outside."""
        return finished(self.pixel_steps(grey, fill))

    def pixel_steps(self, grey: NDArray[np.uint8], fill: int) -> Steps[NDArray[np.uint8]]:
        """As `pixels`."""
        if not self.angle:
            return grey
        padded = np.pad(grey, 1, constant_values=fill)
        found = np.empty((self.out_height, self.out_width), np.uint8)
        block = max(1, (1 << 19) // self.out_width)  # rows at a time: memory
        columns = np.arange(self.out_width, dtype=np.float32) + np.float32(0.5 - self.out_width / 2)
        for first in range(0, self.out_height, block):
            rows = np.arange(first, min(first + block, self.out_height), dtype=np.float32)[:, None]
            rows += np.float32(0.5 - self.out_height / 2)
            x = columns * np.float32(self.cosine) - rows * np.float32(self.sine) + np.float32(self.width / 2 + 0.5)
            y = columns * np.float32(self.sine) + rows * np.float32(self.cosine) + np.float32(self.height / 2 + 0.5)
            x, y = np.clip(x, 0, self.width + 0.999), np.clip(y, 0, self.height + 0.999)
            left, top = x.astype(np.int32), y.astype(np.int32)
            x, y = x - left, y - top
            upper = padded[top, left] * (1 - x) + padded[top, left + 1] * x
            lower = padded[top + 1, left] * (1 - x) + padded[top + 1, left + 1] * x
            found[first : first + len(rows)] = upper * (1 - y) + lower * y + np.float32(0.5)
            yield first / self.out_height
        return found

    def back(self, x: float, y: float) -> tuple[float, float]:
        """The place in the page of a place in the turned picture."""
        x, y = x - self.out_width / 2, y - self.out_height / 2
        return x * self.cosine - y * self.sine + self.width / 2, x * self.sine + y * self.cosine + self.height / 2

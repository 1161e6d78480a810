"""The pixels of a line of text as a reader takes them: of one height, 0 for paper and 1 for ink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_CONTRAST = 24  # of 255: less is paper
BETWEEN = (1.0, 99.0)  # percentiles that count as the darkest ink and the lightest paper


def scaled_width(height: int, width: int, wanted: int) -> int:
    """The width of a picture (height, width) whose height becomes `wanted`."""
    return max(1, round(width * wanted / height))


def ink(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Grey uint8 (H, W), dark on light → float32 (H, W): about 0 for paper and 1 for ink."""
    values = pixels.astype(np.float32)
    low, high = (float(value) for value in np.percentile(values, BETWEEN))
    found = (high - values) / max(high - low, LEAST_CONTRAST)
    return np.clip(found, -0.25, 1.25).astype(np.float32)

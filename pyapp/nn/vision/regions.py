"""What maps have within boxes (RoI align, He et al. 2017, arXiv 1703.06870), as torchvision computes it without the
shift of half a pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from ...engine import Tensor, ops
from ...engine.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pooled(maps: Tensor, boxes: Sequence[Sequence[Sequence[float]]], side: int) -> Tensor:
    """maps (B, C, H, W), of each map its boxes of left, top, right and bottom in places of the map → the means of side
    x side parts of each box (N, C, side, side), one box after another. A part is the mean of at least one sample, each
    the mixture of the four places around it; a box of less than a place has the size of one.
    """
    rows, columns = int(maps.shape[2]), int(maps.shape[3])
    found = []
    for i, own in enumerate(boxes):
        for left, top, right, bottom in own:
            down, along = _weights(rows, top, bottom, side), _weights(columns, left, right, side)
            both = (ops.from_numpy(part).to(maps.device).to(maps.dtype) for part in (down, along.T.copy()))
            first, last = both  # (side, H), (W, side)
            found.append(first @ maps[i] @ last)  # (C, side, side)
    return ops.stack(found)


def _weights(length: int, first: float, last: float, parts: int) -> NDArray[np.float32]:
    """How much each place (parts, length) counts in the parts of a stretch of an axis."""
    size = max(last - first, 1.0) / parts
    samples = max(1, ceil(max(last - first, 1.0) / parts))
    found = np.zeros((parts, length), np.float32)
    for part in range(parts):
        for sample in range(samples):
            at = first + (part + (sample + 0.5) / samples) * size
            if not -1.0 <= at <= length:
                continue  # outside of the map is nothing
            at = max(at, 0.0)
            below = min(int(at), length - 1)
            share = at - below if below < length - 1 else 0.0
            found[part, below] += (1 - share) / samples
            if share:
                found[part, below + 1] += share / samples
    return found

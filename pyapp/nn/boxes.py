"""Boxes in pictures: which of several that overlap stay."""

from __future__ import annotations

from typing import Any

from ..engine.lazy import np


def non_max_suppression(corners: Any, scores: Any, overlap: float, most: int) -> list[int]:
    """The numbers of at most `most` boxes, the best score first, without those that overlap a better one: whose common
    area with it is more than `overlap` of the area of both together. corners (N, 4): left, top, right, bottom, as
    float64; scores (N,). Of equal scores, the first box is the better.
    """
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while len(order) and len(kept) < most:
        best, order = order[0], order[1:]
        kept.append(int(best))
        low = np.maximum(corners[best, :2], corners[order, :2])
        high = np.minimum(corners[best, 2:], corners[order, 2:])
        common = np.prod(np.clip(high - low, 0, None), -1)
        union = areas[best] + areas[order] - common
        with np.errstate(all="ignore"):
            order = order[~((common > 0) & (common / union > overlap))]
    return kept

"""Boxes in pictures: which of several that overlap stay."""

from __future__ import annotations

from typing import Any

from ...engine.lazy import np

TINY = 1e-7  # against divisions by zero


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


def turned_corners(box: Any) -> Any:
    """The corners (4, 2) of a turned box (5,): x and y of its centre, its sides, and its angle, clockwise from the
    right.
    """
    x, y, wide, high, angle = box
    along = np.array([np.cos(angle), np.sin(angle)]) * wide / 2
    down = np.array([-np.sin(angle), np.cos(angle)]) * high / 2
    return np.array([x, y]) + np.stack([along + down, along - down, -along - down, down - along])


def turned_suppression(boxes: Any, scores: Any, overlap: float, most: int) -> list[int]:
    """As non_max_suppression, of turned boxes (N, 5). As in Ultralytics' library, a box is left out for a better one
    that is left out itself, and the overlap is that of two normal distributions (Llerena et al. 2021, arXiv
    2106.06072).
    """
    order = np.argsort(-scores, kind="stable")
    boxes = boxes[order]
    first, second = (boxes[:, 2] ** 2 / 12, boxes[:, 3] ** 2 / 12)
    cosine, sine = np.cos(boxes[:, 4]), np.sin(boxes[:, 4])
    spread = np.stack(
        [first * cosine**2 + second * sine**2, first * sine**2 + second * cosine**2, (first - second) * cosine * sine]
    )  # (3, N): the variances in x and y, and the covariance
    kept: list[int] = []
    for i in range(len(boxes)):
        apart = boxes[:i, :2] - boxes[i, :2]
        if not (_likeness(apart, spread[:, :i], spread[:, i : i + 1]) > overlap).any():
            kept.append(int(order[i]))
        if len(kept) == most:
            break
    return kept


def _likeness(apart: Any, some: Any, one: Any) -> Any:
    """How alike (N,) normal distributions are, from 0 to 1, less Hellinger's distance: their centres are (N, 2) apart,
    their spreads are some (3, N) and one (3, 1).
    """
    a, b, c = some + one
    whole = a * b - c**2 + TINY
    x, y = apart.T
    far = (a * y**2 + b * x**2) / whole * 0.25 - c * x * y / whole * 0.5
    areas = [np.clip(part[0] * part[1] - part[2] ** 2, 0, None) for part in (some, one)]
    far += np.log((a * b - c**2) / (4 * np.sqrt(areas[0] * areas[1]) + TINY) + TINY) * 0.5
    return 1 - np.sqrt(1 - np.exp(-np.clip(far, TINY, 100)) + TINY)

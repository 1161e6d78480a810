"""Distances of all pairs of rows (native/distances.c)."""

from __future__ import annotations

from math import inf, prod
from typing import Any

from ..dtype import float32
from ..launch import KERNELS
from ..native import IN_BROWSER
from ..op import claims
from ..operands import dense
from ..tensor import Tensor, empty_contiguous

_FORWARD, _BACKWARD = KERNELS["distances_f32"], KERNELS["distances_backward_f32"]
_NORMS = {2: 0, 1: 1, inf: 2}


def _fits(a: Tensor, b: Tensor, p: float) -> bool:
    return not IN_BROWSER and a.dtype is b.dtype is float32 and a._shape[:-2] == b._shape[:-2] and p in _NORMS


def _sizes(a: Tensor, b: Tensor) -> tuple[int, int, int, int]:
    return prod(a._shape[:-2]), a._shape[-2], b._shape[-2], a._shape[-1]


@claims("_distances")
def _distances(a: Tensor, b: Tensor, p: float) -> Any:
    if not _fits(a, b, p):
        return NotImplemented
    a, b = dense(a), dense(b)
    y = empty_contiguous((*a._shape[:-1], b._shape[-2]), float32, a.device)
    _FORWARD.launch(y.numel() * a._shape[-1] >> 10, y, a, b, *_sizes(a, b), _NORMS[p])
    return y


@claims("distances_backward")
def _distances_backward(g: Tensor, a: Tensor, b: Tensor, p: float) -> Any:
    if not _fits(a, b, p) or p == inf or g.dtype is not float32:
        return NotImplemented
    y: Any = _distances(a, b, p)
    found: list[Tensor | None] = [None, None]
    for i, (x, other, distances, slopes) in enumerate(((a, b, y, g), (b, a, y.mT, g.mT))):
        if x.requires_grad:
            x, other = dense(x), dense(other)
            grad = found[i] = empty_contiguous(x._shape, float32, x.device)
            _BACKWARD.launch(
                y.numel() * x._shape[-1] >> 9, grad, x, other, dense(distances), dense(slopes), *_sizes(x, other),
                _NORMS[p],
            )  # fmt: skip
    return tuple(found)

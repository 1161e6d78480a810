"""Views of more dims than the kernel that copies them has."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from .tensor import Tensor, make

MOST = 6  # of a record


def copy_in_pieces(copy: Callable[[Tensor, Tensor], object], target: Tensor, source: Tensor) -> None:
    """Copies a view into another one of its shape and dtype by `copy`, which takes six dims. Dims whose elements follow
    one another in both views are one; of the others the shortest are taken one place at a time.
    """
    dims: list[tuple[int, int, int]] = []  # size and both strides
    for size, to, step in zip(target._shape, target.strides, source.strides, strict=True):
        if size == 1:
            continue
        if dims and dims[-1][1] == size * to and dims[-1][2] == size * step:
            size *= dims.pop()[0]
        dims.append((size, to, step))
    outer = sorted(dims, key=lambda dim: dim[0])[: max(len(dims) - MOST, 0)]
    for dim in outer:
        dims.remove(dim)
    shape, *strides = ((*part,) for part in zip(*dims, strict=True)) if dims else ((), (), ())
    for place in product(*(range(size) for size, _, _ in outer)):
        at = [sum(i * dim[1 + view] for i, dim in zip(place, outer, strict=True)) for view in range(2)]
        views = zip((target, source), strides, at, strict=True)
        copy(*(make(x._storage, shape, own, x.dtype, x.offset + start) for x, own, start in views))

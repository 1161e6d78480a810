"""Products of matrices group by group, where the groups have different numbers of rows: tokens of experts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...engine import Tensor, ops
from ...engine.dtype import int32
from ...engine.user_errors import describe
from ...errors import ArgumentError, ArgumentTypeError

__all__ = ["grouped_mm"]


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """The product of each group. `offs` (G,) int32 ascends: where each group ends along the dim that the groups share.

    (M, K), (G, K, N) → (M, N): rows of `mat_a` by the matrix of their group; (G, M, K), (K, N) → (M, N): columns of
    `mat_b`; (M, K), (K, N) → (G, M, N): parts of K; (G, M, K), (G, K, N) → (G, M, N), without `offs`. What is beyond
    the last end is 0. As in torch, there is no `bias`.
    """
    if bias is not None:
        raise NotImplementedError("grouped_mm: a bias is not supported; add it to the result")
    both = f"{describe(mat_a)} and {describe(mat_b)}"
    if mat_a.ndim not in (2, 3) or mat_b.ndim not in (2, 3) or mat_a.shape[-1] != mat_b.shape[-2]:
        raise ArgumentError(f"grouped_mm: {both} are not (M, K) or (G, M, K), and (K, N) or (G, K, N)")
    if mat_a.dtype is not mat_b.dtype:
        raise ArgumentTypeError(f"grouped_mm: {both} differ in dtype")
    deep = mat_a.ndim + mat_b.ndim == 6
    if (offs is None) != deep:
        raise ArgumentError(f"grouped_mm: takes offs where a matrix has 2 dims, and only there; got {both}")
    if deep:
        if mat_a.shape[0] != mat_b.shape[0]:
            raise ArgumentError(f"grouped_mm: {both} have different numbers of groups")
        found = ops.bmm(mat_a, mat_b)
        return found if out_dtype is None else found.to(out_dtype)
    assert offs is not None
    if offs.dtype is not int32 or offs.ndim != 1:
        raise ArgumentTypeError(f"grouped_mm: offs is a vector of int32, not {describe(offs)}")
    deeper = mat_a if mat_a.ndim == 3 else mat_b
    if deeper.ndim == 3 and deeper.shape[0] != offs.shape[0]:
        raise ArgumentError(f"grouped_mm: {describe(offs)} has not one end for each group of {both}")
    size = mat_a.shape[-1] if mat_a.ndim == mat_b.ndim else mat_a.shape[0] if mat_b.ndim == 3 else mat_b.shape[1]
    ends = [0, *offs.tolist()]
    if any(first > last for first, last in pairwise(ends)) or ends[-1] > size:
        raise ArgumentError(f"grouped_mm: offs {ends[1:]} does not ascend to at most {size}")
    parts = list(enumerate(pairwise(ends)))
    if mat_a.ndim == mat_b.ndim:
        found = ops.stack([mat_a[:, first:last] @ mat_b[first:last] for _, (first, last) in parts])
    elif mat_b.ndim == 3:
        rows = [mat_a[first:last] @ mat_b[at] for at, (first, last) in parts]
        found = ops.cat([*rows, mat_a.new_zeros((size - ends[-1], mat_b.shape[2]))])
    else:
        columns = [mat_a[at] @ mat_b[:, first:last] for at, (first, last) in parts]
        found = ops.cat([*columns, mat_a.new_zeros((mat_a.shape[1], size - ends[-1]))], 1)
    return found if out_dtype is None else found.to(out_dtype)

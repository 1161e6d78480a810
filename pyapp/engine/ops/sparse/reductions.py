"""Sums and softmax of sparse tensors."""

from __future__ import annotations

from math import inf
from typing import Any

from ...dtype import as_dtype, int64
from ...lazy import np
from ...shape import normalize_dim
from ...tensor import Tensor
from ...user_errors import describe
from ..create import full
from ..scattering import scatter_reduce
from ..view import expand, reshape
from .layouts import (
    SparseTensor,
    added,
    array,
    coalesced,
    count_of,
    dense_sizes,
    form,
    in_layout,
    keys,
    like,
    sparse,
    sparse_sizes,
    to_place,
)


def _sparse(x: Any, name: str) -> SparseTensor:
    if not isinstance(x, SparseTensor):
        raise RuntimeError(f"{name}: takes a sparse tensor, got {describe(x)}")
    return x


@form("sum")
def _sum(x: SparseTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """torch's sum of a sparse tensor: of whole numbers int64; CSR keeps its dims."""
    if dtype is None and x.dtype.category < 2:
        dtype = int64
    if dim is None or dim == ():
        return total(x, None, dtype)
    found = total(x, dim, dtype)
    if keepdim:
        for d in sorted(normalize_dim(d, x.ndim, "sum") for d in ([dim] if isinstance(dim, int) else dim)):
            found = found.unsqueeze(d)
    return in_layout(found, x._layout) if keepdim and not found.dense else found  # type: ignore[arg-type]


def total(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all elements of a sparse tensor, dense; or over dims: sparse, unless no sparse dim is left. The
    gradient is 0 where no element is kept."""
    x = _sparse(input, "sum")
    elements = x.elements if dtype is None else x.elements.to(as_dtype(dtype))
    if dim is None:
        return elements.sum()
    sizes = sparse_sizes(x)
    dims = {normalize_dim(d, x.ndim, "sum") for d in ([dim] if isinstance(dim, int) else dim)}
    if len(dims) < (1 if isinstance(dim, int) else len(dim)):
        raise RuntimeError(f"sum: {dim} names a dim twice")
    inner = tuple(d - len(sizes) + 1 for d in dims if d >= len(sizes))
    if inner:
        elements = elements.sum(inner)
    kept = [d for d in range(len(sizes)) if d not in dims]
    if not kept:
        return elements.sum(0)
    shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    if len(kept) == len(sizes):
        return coalesced(sparse(x.places, elements, shape, x.coalesced))
    places = x.places.index_select(0, to_place(kept, x.device))
    return coalesced(sparse(places, elements, shape))


def _groups(x: SparseTensor, dim: int) -> tuple[Any, int]:
    """The number of each element's line along a sparse dim, and how many lines keep elements."""
    others = [d for d in range(len(sparse_sizes(x))) if d != dim]
    found = keys(array(x.places)[others], [x.shape[d] for d in others])
    lines, groups = np.unique(found, return_inverse=True)
    return groups.reshape(-1), len(lines)


def _normalized(input: Tensor, dim: int, dtype: Any, logarithm: bool, name: str) -> SparseTensor:
    x = _sparse(input, name)
    kind, x = x._layout, coalesced(x if dtype is None else x.to(as_dtype(dtype)))
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f"{name}: takes floating-point numbers, got {describe(x)}")
    d, dims = normalize_dim(dim, x.ndim, name), len(sparse_sizes(x))
    if d >= dims:
        found = getattr(x.elements, name)(d - dims + 1)
        return in_layout(like(x, found), kind)
    groups, count = _groups(x, d)
    where, values = to_place(groups, x.device), x.elements
    index = expand(reshape(where, (count_of(x),) + (1,) * (values.ndim - 1)), values._shape)
    least = full((count, *dense_sizes(x)), -inf, x.dtype, x.device)
    most = scatter_reduce(least, 0, index, values.detach(), "amax")
    shifted = values - most.index_select(0, where)
    powers = shifted.exp()
    sums = added(powers, groups, count)
    if logarithm:
        return in_layout(like(x, shifted - sums.log().index_select(0, where)), kind)
    return in_layout(like(x, powers / sums.index_select(0, where)), kind)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Softmax along a dim over the elements that are kept: the others count as -inf, and stay 0."""
    return _normalized(input, dim, dtype, False, "softmax")


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of softmax over the elements that are kept."""
    return _normalized(input, dim, dtype, True, "log_softmax")


@form("softmax")
def _softmax(x: Tensor, dim: int, dtype: Any = None, **_: Any) -> SparseTensor:
    return softmax(x, dim, dtype=dtype)


@form("log_softmax")
def _log_softmax(x: Tensor, dim: int, dtype: Any = None, **_: Any) -> SparseTensor:
    return log_softmax(x, dim, dtype=dtype)

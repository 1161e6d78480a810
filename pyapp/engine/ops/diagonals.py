"""Diagonals and triangles of matrices."""

from __future__ import annotations

from operator import index
from typing import Any

from ..declare import function, method
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import primitive, view_op
from ..shape import contiguous_strides, normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .create import from_numpy, zeros
from .index import setitem
from .padding import pad
from .stacking import cat
from .view import _alias, _no_blocks, _spread, atleast_2d, movedim, place_back, reshape


def _matrices(name: str, x: Tensor) -> None:
    if x.ndim < 2:
        raise ValueError(f"{name}: takes matrices, not {describe(x)}")


@function(method=True, in_place=True)
@primitive(vjp=lambda g, _, x, diagonal=0: (g.tril(diagonal),), saves="none")
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two dims; zeros above."""
    _matrices("tril", x)
    return tensor_of(np.tril(array_of(x), index(diagonal)), x.dtype)


@function(method=True, in_place=True)
@primitive(vjp=lambda g, _, x, diagonal=0: (g.triu(diagonal),), saves="none")
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two dims; zeros below."""
    _matrices("triu", x)
    return tensor_of(np.triu(array_of(x), index(diagonal)), x.dtype)


@function(method=True)
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dims as a new last dim: a view."""
    a, b = normalize_dim(dim1, x.ndim, "diagonal"), normalize_dim(dim2, x.ndim, "diagonal")
    if a == b:
        raise ValueError(f"diagonal: dims {dim1} and {dim2} of {describe(x)} are the same")
    return _diagonal(x, index(offset), a, b)


@view_op(None, name="_diagonal")
def _diagonal(x: Tensor, offset: int, a: int, b: int) -> Tensor:
    _no_blocks(x, "diagonal")
    length = max(0, min(x._shape[a] + min(offset, 0), x._shape[b] - max(offset, 0)))
    start = (max(-offset, 0) * x.strides[a] + max(offset, 0) * x.strides[b]) if length else 0
    kept = [d for d in range(x.ndim) if d not in (a, b)]
    shape, strides = tuple(x._shape[d] for d in kept), tuple(x.strides[d] for d in kept)
    return _alias(x, (*shape, length), (*strides, x.strides[a] + x.strides[b]), x.offset + start)


place_back(_diagonal)


@function(method=True)
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices of zeros, in two dims of the result, with the last dim of x on a diagonal."""
    if not x.ndim:
        raise IndexError("diag_embed: takes at least one dim")
    rows, columns = (normalize_dim(d, x.ndim + 1, "diag_embed") for d in (dim1, dim2))
    if rows == columns:
        raise ValueError(f"diag_embed: dims {dim1} and {dim2} are the same")
    offset = index(offset)  # sizes of other integer types would wrap
    if (rows, columns) != (x.ndim - 1, x.ndim):
        return movedim(diag_embed(x, offset), (-2, -1), (rows, columns))
    width = x._shape[-1] + abs(offset)
    size = (*x._shape[:-1], width, width)
    strides = (*contiguous_strides(size)[:-2], width + 1)
    return _spread(x, size, x._shape, strides, (offset if offset >= 0 else -offset * width) if x.numel() else 0)


_diagonal_of = diagonal


@function(method=True)
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, as a copy, or the matrix with a vector on its diagonal."""
    if x.ndim not in (1, 2):
        raise ValueError(f"diag: takes a vector or a matrix, got {describe(x)}")
    return diag_embed(x, diagonal) if x.ndim == 1 else _diagonal_of(x, diagonal)._row_major()


@function()
def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of one."""
    if not tensors:
        return zeros(1, 0)
    parts = [atleast_2d(t) for t in tensors]
    for part in parts:
        if part.ndim > 2:
            raise ValueError(f"block_diag: takes tensors of at most 2 dims, not {describe(part)}")
    width = sum(p._shape[1] for p in parts)
    rows, at = [], 0
    for part in parts:
        rows.append(pad(part, (at, width - at - part.shape[1])))
        at += part.shape[1]
    return cat(rows, 0)


@function(factory=True)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Tensor:
    """(2, count): rows and columns of a lower triangle, int64 unless a dtype is given."""
    return _places(np.tril_indices, row, col, offset, dtype)


@function(factory=True)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Tensor:
    """(2, count): rows and columns of an upper triangle, int64 unless a dtype is given."""
    return _places(np.triu_indices, row, col, offset, dtype)


def _places(triangle: Any, row: int, col: int, offset: int, dtype: Any) -> Tensor:
    """What NumPy's function gives: (2, count). RuntimeError for sizes below 0."""
    row, col, offset = index(row), index(col), index(offset)
    if min(row, col) < 0:
        raise RuntimeError(f"triangle: the sizes {row} and {col} are not 0 or more")
    offset = min(max(offset, -row - 1), col + 1)  # beyond are none, or all
    found = tensor_of(np.stack(triangle(row, offset, col)).astype("int64"))
    return found if dtype is None else found.to(dtype)


@function(method=True)
def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """The matrix with the flattened x on a diagonal."""
    return diag_embed(reshape(x, -1), offset)


@function(method=True)
def trace(x: Tensor) -> Tensor:
    """Sum of a matrix's diagonal."""
    if x.ndim != 2:
        raise ValueError(f"trace: takes a matrix, got {describe(x)}")
    return diagonal(x).sum()


def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """diagonal of the last two dims."""
    return diagonal(A, offset, dim1, dim2)


@method("fill_diagonal_")
def _fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Writes a number where all indices are equal; with `wrap` the diagonal of a tall matrix restarts below."""
    if x.ndim < 2 or (x.ndim > 2 and len(set(x._shape)) > 1):
        raise ValueError(f"fill_diagonal_: takes a matrix, or more dims of one size, not {describe(x)}")
    if wrap and x.ndim == 2:
        flat = np.arange(0, x.numel(), x._shape[1] + 1, dtype=np.int64)
        at = [flat // max(x._shape[1], 1), flat % max(x._shape[1], 1)]
    else:
        at = [np.arange(min(x._shape), dtype=np.int64)] * x.ndim
    setitem(x, tuple(from_numpy(part) for part in at), fill_value)
    return x

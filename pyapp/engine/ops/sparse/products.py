"""Products of sparse matrices with dense and with sparse ones."""

from __future__ import annotations

from math import prod
from typing import Any

from ...declare import function
from ...lazy import np
from ...memory_format import sparse_coo
from ...op import op
from ...tensor import Tensor
from ...user_errors import describe
from ..create import zeros
from ..scattering import add_rows
from ..stacking import cat
from ..view import reshape
from .layouts import SparseTensor, array, coalesced, form, in_layout, keys, like, sparse, to_place

PIECE = 1 << 22  # elements of rows that are looked up at a time, for which there is memory


def _pieces(count: int, rows: Tensor) -> list[slice]:
    """Parts of `count` elements, for each of which a row is looked up."""
    most = PIECE if rows.device.backend.host_visible else PIECE << 3  # where each launch costs more
    most = max(1, most // max(rows._shape[1], 1))
    return [slice(first, min(first + most, count)) for first in range(0, count, most)]


@op(saves="inputs", name="_sparse_product")
def _product(values: Tensor, rows: Tensor, columns: Tensor, b: Tensor, count: int) -> Tensor:
    """The rows of b (K, N) at `columns`, times values (n,), added up by `rows` → (count, N)."""
    y = zeros(count, b._shape[1], dtype=b.dtype, device=b.device)
    for part in _pieces(values._shape[0], b):
        y = add_rows(y, rows[part], b.index_select(0, columns[part]) * values[part].unsqueeze(1))
    return y


@_product.gradient
def _d_product(g: Tensor, _: Any, values: Tensor, rows: Tensor, columns: Tensor, b: Tensor, count: int) -> Any:
    g = g.contiguous()
    of_values = _products_of_rows(g, rows, b, columns) if values.requires_grad else None
    return of_values, None, None, _product(values, columns, rows, g, b._shape[0]) if b.requires_grad else None


@op(saves="inputs", name="_products_of_rows")
def _products_of_rows(a: Tensor, rows: Tensor, b: Tensor, columns: Tensor) -> Tensor:
    """The products of row rows[i] of a (M, K) and row columns[i] of b (N, K), added up → (n,)."""
    parts = [
        (a.index_select(0, rows[part]) * b.index_select(0, columns[part])).sum(1, dtype=a.dtype)
        for part in _pieces(rows._shape[0], a)
    ]
    return cat(parts) if parts else zeros(0, dtype=a.dtype, device=a.device)


@_products_of_rows.gradient
def _d_products_of_rows(g: Tensor, _: Any, a: Tensor, rows: Tensor, b: Tensor, columns: Tensor) -> Any:
    of_a = _product(g, rows, columns, b, a._shape[0]) if a.requires_grad else None
    return of_a, None, _product(g, columns, rows, a, b._shape[0]) if b.requires_grad else None, None


def _check(a: Tensor, b: Tensor) -> None:
    if a._shape[-1] != b._shape[0 if b.ndim == 1 else -2]:
        raise ValueError(f"inner sizes differ: {describe(a)} @ {describe(b)}")
    if a.dtype is not b.dtype:
        raise TypeError(f"{describe(a)} and {describe(b)} differ in dtype; convert one with .to(dtype)")
    if a.device is not b.device:
        raise RuntimeError(f"{describe(a)} and {describe(b)} are on two devices; move one with .to(device)")


def _matrix(x: Tensor) -> SparseTensor:
    """x, if it is a sparse matrix of numbers."""
    if not isinstance(x, SparseTensor) or x.ndim != 2 or x.places._shape[0] != 2:
        raise RuntimeError(f"a product takes sparse matrices with 2 sparse dims, got {describe(x)}")
    return x


@function(synonyms="dsmm", arguments="input mat2")
def spmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """A sparse matrix by another one: torch.sparse.mm."""
    return matmul(mat1, mat2)


@form("matmul", "mm", "mv", "bmm")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, one of them or both sparse matrices: dense, or of two sparse ones sparse."""
    if not a.ndim or not b.ndim:
        raise ValueError(f"takes tensors with dims, got {describe(a)} and {describe(b)}")
    _check(a, b)
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return _sparse_by_sparse(_matrix(a), _matrix(b))
    if a.ndim == 3 and b.ndim == 3:
        return _batches(a, b)
    if isinstance(a, SparseTensor):
        a = _matrix(a)
        if b.ndim > 2:
            raise RuntimeError(f"a sparse matrix takes vectors and matrices, got {describe(b)}")
        rows = b.unsqueeze(1) if b.ndim == 1 else b
        y: Tensor = _product(a.elements, a.places[0], a.places[1], rows, a.shape[0])
        return y.squeeze(1) if b.ndim == 1 else y
    b = _matrix(b)
    rows = reshape(a, (prod(a._shape[:-1]), a._shape[-1])).t()
    y = _product(b.elements, b.places[1], b.places[0], rows, b.shape[1]).t()  # (rows of a, N)
    return reshape(y, (*a._shape[:-1], b.shape[1]))


def _batches(a: Tensor, b: Tensor) -> Tensor:
    """Sparse matrices (B, M, K) by dense ones (B, K, N), as one product of a matrix with blocks."""
    if not isinstance(a, SparseTensor) or a.places._shape[0] != 3 or a.shape[0] != b._shape[0]:
        raise RuntimeError(f"takes sparse (B, M, K) and dense (B, K, N), got {describe(a)} and {describe(b)}")
    batch, rows, columns = a.places[0], a.places[1], a.places[2]
    flat = reshape(b, (b._shape[0] * b._shape[1], b._shape[2]))
    y = _product(a.elements, batch * a.shape[1] + rows, batch * a.shape[2] + columns, flat, a.shape[0] * a.shape[1])
    return reshape(y, (a.shape[0], a.shape[1], b._shape[2]))


def _sparse_by_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Every element of a meets the row of b that its column names (Gustavson 1978)."""
    kind = sparse_coo if sparse_coo in (a._layout, b._layout) else a._layout
    b = coalesced(b)
    rows, inner = array(a.places)
    at, others = runs(np.searchsorted(array(b.places)[0], np.arange(b.shape[0] + 1)), inner)
    shape = (a.shape[0], b.shape[1])
    left, right = to_place(at, a.device), to_place(others, a.device)
    found = sparse(
        to_place(np.stack([rows[at], array(b.places)[1][others]]), a.device),
        a.elements.index_select(0, left) * b.elements.index_select(0, right),
        shape,
    )
    return in_layout(coalesced(found), kind)


def runs(starts: Any, lines: Any) -> tuple[Any, Any]:
    """For each of `lines` all positions of that line, from its start to the next: (the number in `lines`, the
    position)."""
    lengths = np.diff(starts)[lines].astype(np.intp)
    total = int(lengths.sum())
    at = np.repeat(np.arange(len(lines)), lengths)
    before = np.cumsum(lengths) - lengths
    return at, np.arange(total) - before[at] + starts[:-1][lines][at]


@form("addmm", "addmv")
def addmm(x: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (a @ b)."""
    product = matmul(a, b)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return (x if beta == 1 else x * beta) + product


@form("_linear")
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    flat = x if x.ndim < 3 or not x.dense else reshape(x, (prod(x._shape[:-1]), x._shape[-1]))
    y = matmul(flat, weight.t())
    y = y if x.ndim < 3 else reshape(y, (*x._shape[:-1], weight._shape[0]))
    for each in (bias, residual):
        y = y if each is None else y + each
    return y


def sampled_addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> SparseTensor:
    """beta * x + alpha * (mat1 @ mat2), at the indices of the sparse matrix x (M, N) alone; mat1 (M, K), mat2 (K, N)
    dense."""
    x = _matrix(x)
    if mat1.ndim != 2 or mat2.ndim != 2 or (mat1._shape[0], mat2._shape[1]) != x.shape:
        raise ValueError(f"{describe(mat1)} @ {describe(mat2)} has not the shape of {describe(x)}")
    _check(mat1, mat2)
    found = _products_of_rows(mat1, x.places[0], mat2.t().contiguous(), x.places[1])
    return like(x, found * alpha + x.elements * beta)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> SparseTensor:
    """A sparse matrix of diagonals (D, n): element j of a diagonal with offset k is at (j - k, j), where the matrix has
    that place. Offsets (D,) differ."""
    rows = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    steps = array(offsets).reshape(-1)
    if rows.ndim != 2 or rows._shape[0] != len(steps) or len(np.unique(steps)) != len(steps):
        raise ValueError(f"takes diagonals (D, n) and D different offsets, got {describe(rows)}, {describe(offsets)}")
    if len(shape) != 2:
        raise ValueError(f"the shape has 2 dims, not {tuple(shape)}")
    across = np.arange(rows._shape[1])[None].repeat(len(steps), 0)
    down = across - steps[:, None]
    kept = np.flatnonzero(((0 <= down) & (down < shape[0]) & (across < shape[1])).reshape(-1))
    places = np.stack([down.reshape(-1)[kept], across.reshape(-1)[kept]])
    order = np.argsort(keys(places, shape), kind="stable")
    chosen = reshape(rows, rows.numel()).index_select(0, to_place(kept[order], rows.device))
    return in_layout(sparse(to_place(places[:, order], rows.device), chosen, shape, True), layout or sparse_coo)

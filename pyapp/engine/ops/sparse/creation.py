"""Sparse tensors of indices and values, by torch's names, and conversions from and to dense ones."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

from ...declare import attribute, function, method
from ...dtype import DType, as_dtype, int64
from ...launch import capturing
from ...lazy import np
from ...memory_format import layout, sparse_coo, sparse_csc, sparse_csr, strided
from ...shape import as_shape
from ...tensor import Tensor
from ...user_errors import describe
from ..create import tensor, zeros
from ..view import reshape
from .layouts import (
    SparseTensor,
    array,
    coalesced,
    count_of,
    dense_of,
    dense_sizes,
    form,
    in_layout,
    indices_of,
    keys,
    like,
    sparse,
    sparse_sizes,
    to_place,
)

_NAMES = {sparse_coo: "COO", sparse_csr: "CSR", sparse_csc: "CSC", strided: "dense"}


def _integers(given: Any, device: Any, name: str) -> Tensor:
    """Indices as int64 on the device."""
    found: Tensor = given if isinstance(given, Tensor) else tensor(given)
    if not found.numel():
        found = found.to(int64)
    if found.dtype.is_complex or not found.dense:
        raise TypeError(f"{name}: indices are integers, got {describe(found)}")
    return found.detach().to(device=device, dtype=int64)


def _values(given: Any, dtype: Any, device: Any) -> Tensor:
    found: Tensor = given if isinstance(given, Tensor) else tensor(given)
    if not found.dense:
        raise TypeError(f"values are a dense tensor, got a sparse one, {describe(found)}")
    kind = found.dtype if dtype is None else as_dtype(dtype)
    return found.to(device=found.device if device is None else device, dtype=kind)


def _leaf(made: SparseTensor, requires_grad: bool) -> SparseTensor:
    if requires_grad:
        made = made.detach()
        made.requires_grad_()
    return made


def _may_check(places: Tensor, check: bool | None) -> bool:
    """Whether indices are compared with the sizes: always, unless the caller forbids it, or their values are not at
    hand."""
    return check or (check is None and places.device.backend.host_visible and not capturing())


@function(factory=True)
def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None, is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse tensor of indices (sparse dims, n) and values (n, ...): size has the sparse dims and those of a value.
    Equal indices add up. Without a size, the largest indices give it. `sparse_coo_tensor(size)` is all 0.

    `check_invariants`: False leaves out the comparison of indices with the size. `is_coalesced`: that the indices
    differ and ascend. RuntimeError for shapes that do not fit, and indices outside of the size.
    """
    if values is None:
        shape = as_shape((indices if size is None else size,))
        empty = zeros(len(shape), 0, dtype=int64, device=device)
        return _leaf(sparse(empty, zeros(0, dtype=dtype, device=device), _sizes(shape), True), requires_grad)
    elements = _values(values, dtype, device)
    places = _integers(indices, elements.device, "sparse_coo_tensor")
    if not elements._shape:
        elements = reshape(elements, 1)
    if places.ndim != 2:
        raise ValueError(f"indices are (dims, n), got {describe(places)}")
    if places._shape[1] != elements._shape[0]:
        raise ValueError(f"{places.shape[1]} indices and {elements.shape[0]} values differ in number")
    dims = places._shape[0]
    if size is None:
        least = array(places).min(1).tolist() if places._shape[1] else [0] * dims
        if min(least, default=0) < 0:
            raise ValueError(f"indices are not negative, got {min(least)}")
        largest = array(places).max(1).tolist() if places._shape[1] else [-1] * dims
        shape = (*(most + 1 for most in largest), *elements._shape[1:])
    else:
        shape = _sizes(as_shape((size,)))
        if len(shape) != dims + elements.ndim - 1 or shape[dims:] != elements._shape[1:]:
            raise ValueError(f"the size {shape} is not {dims} sparse dims and those of the values {describe(elements)}")
        if _may_check(places, check_invariants):
            _check_range(places, shape[:dims])
    made = sparse(places, elements, shape, places._shape[1] < 2 if is_coalesced is None else is_coalesced)
    if is_coalesced and check_invariants is not False and _may_check(places, check_invariants):
        if (np.diff(keys(array(places), shape[:dims])) <= 0).any():
            raise ValueError("is_coalesced: the indices are equal in part, or do not ascend")
    return _leaf(made, requires_grad)


def _sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    if any(n < 0 for n in shape):
        raise ValueError(f"a tensor cannot have the size {shape}: sizes are not negative")
    return shape


def _check_range(places: Tensor, sizes: tuple[int, ...]) -> None:
    for dim, (row, size) in enumerate(zip(array(places), sizes, strict=True)):
        if row.size and (row.min() < 0 or row.max() >= size):
            raise IndexError(f"indices {row.min()} .. {row.max()} of dim {dim} are outside 0 .. {size - 1}")


def _compressed(
    kind: layout, starts: Any, plain: Any, values: Any, size: Any, dtype: Any, device: Any, requires_grad: bool,
    check: bool | None,
) -> SparseTensor:  # fmt: skip
    """A matrix of where its rows (CSR) or columns (CSC) begin, the other index of each element, and its values."""
    elements = _values(values, dtype, device)
    major = 1 if kind is sparse_csc else 0
    pointers, other = _integers(starts, elements.device, str(kind)), _integers(plain, elements.device, str(kind))
    if pointers.ndim > 1 or other.ndim > 1 or elements.ndim > 1:
        raise NotImplementedError(f"{kind} of batches, or of values that are not numbers, does not exist here: use COO")
    count = other._shape[0]
    if pointers.ndim != 1 or not pointers._shape[0] or elements._shape != other._shape:
        raise ValueError(
            f"{kind}: takes the starts (lines + 1,), and as many indices as values, got {describe(pointers)}, "
            f"{describe(other)} and {describe(elements)}"
        )
    lines, begins = pointers._shape[0] - 1, array(pointers)
    if begins[0] != 0 or begins[-1] != count or (np.diff(begins) < 0).any():
        raise ValueError(f"{kind}: the starts of lines ascend from 0 to the number of values, {count}")
    if size is None:
        across = int(array(other).max()) + 1 if count else 0
        shape: tuple[int, ...] = (across, lines) if major else (lines, across)
    else:
        shape = _sizes(as_shape((size,)))
        if len(shape) != 2 or shape[major] != lines:
            raise ValueError(f"{kind}: {lines + 1} starts of lines do not fit the size {shape}")
    of_line = np.repeat(np.arange(lines), np.diff(begins).astype(np.intp))
    pair = (array(other), of_line) if major else (of_line, array(other))
    places = to_place(np.stack(pair), elements.device)  # (2, n)
    ascending = (np.diff(keys(array(places)[[major, 1 - major]], (lines, max(shape[1 - major], 1)))) > 0).all()
    if check is not False:
        _check_range(places, shape)
        if not ascending:
            raise ValueError(f"{kind}: the indices of a line differ and ascend")
    return _leaf(sparse(places, elements, shape, bool(ascending) and not major, kind, pointers), requires_grad)


@function(factory=True)
def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse matrix (M, N) by rows: crow_indices (M + 1,), where each row begins; col_indices (n,); values (n,).
    RuntimeError for what does not fit together."""
    return _compressed(
        sparse_csr, crow_indices, col_indices, values, size, dtype, device, requires_grad, check_invariants
    )


@function(factory=True)
def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse matrix (M, N) by columns: ccol_indices (N + 1,), where each column begins; row_indices (n,); values
    (n,). RuntimeError for what does not fit together."""
    return _compressed(
        sparse_csc, ccol_indices, row_indices, values, size, dtype, device, requires_grad, check_invariants
    )


def _kept(x: Tensor, dims: int) -> SparseTensor:
    """The elements of a dense tensor that are not 0; those of the last dims are kept together."""
    sizes = x._shape[:dims]
    flat = reshape(x, (prod(sizes), *x._shape[dims:]))
    found = flat.detach().numpy() != 0
    found = np.flatnonzero(found.any(tuple(range(1, found.ndim))) if found.ndim > 1 else found)
    there = to_place(found, x.device)
    return sparse(to_place(indices_of(found, sizes), x.device), flat.index_select(0, there), x._shape, True)


@method()
def to_sparse(x: Tensor, sparse_dim: Any = None, *, layout: Any = None, dense_dim: int | None = None) -> SparseTensor:
    """The elements that are not 0, with their indices: in COO, or another `layout`. `sparse_dim`: of so many dims (all
    by default) the indices are kept."""
    if sparse_dim in _NAMES:
        layout, sparse_dim = sparse_dim, None
    if isinstance(x, SparseTensor):
        if sparse_dim not in (None, x.places._shape[0]):
            raise ValueError(f"sparse_dim: a sparse tensor of {x.places.shape[0]} sparse dims keeps them")
        return in_layout(x, layout or sparse_coo)
    dims = x.ndim - (dense_dim or 0) if sparse_dim is None else index(sparse_dim)
    if not (0 < dims <= x.ndim or dims == x.ndim):
        raise IndexError(f"sparse_dim: from 1 to {x.ndim} dims, not {dims}")
    return in_layout(_kept(x, dims), layout or sparse_coo)


@method()
def to_sparse_coo(x: Tensor) -> SparseTensor:
    """As to_sparse()."""
    return to_sparse(x)


@method()
def to_sparse_csr(x: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """A matrix by rows: CSR."""
    return to_sparse(x, layout=sparse_csr, dense_dim=dense_dim)


@method()
def to_sparse_csc(x: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """A matrix by columns: CSC."""
    return to_sparse(x, layout=sparse_csc, dense_dim=dense_dim)


@method()
def to_dense(x: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """A sparse tensor with all its elements; a dense one unchanged."""
    found = dense_of(x) if isinstance(x, SparseTensor) else x
    return found if dtype is None else found.to(dtype)


def _as(x: Tensor, name: str, *kinds: layout) -> SparseTensor:
    """x, if it has one of these layouts. RuntimeError otherwise."""
    if not isinstance(x, SparseTensor) or (kinds and x._layout not in kinds):
        wanted = " or ".join(_NAMES[kind] for kind in kinds) or "sparse"
        raise RuntimeError(f"{name}: takes a {wanted} tensor, got a {_NAMES[x.layout]} one, {describe(x)}")
    return x


@method()
def coalesce(x: Tensor) -> SparseTensor:
    """With indices that differ and ascend; the values of equal ones are added up."""
    return coalesced(_as(x, "coalesce", sparse_coo))


@method()
def is_coalesced(x: Tensor) -> bool:
    """Whether the indices are known to differ and ascend."""
    return _as(x, "is_coalesced", sparse_coo).coalesced


@method()
def indices(x: Tensor) -> Tensor:
    """The indices of a coalesced tensor: (sparse dims, n), int64."""
    return _ordered(x, "indices").places


@method()
def values(x: Tensor) -> Tensor:
    """The values of a coalesced tensor, or of CSR and CSC: (n, ...)."""
    found = _as(x, "values")
    return (_ordered(x, "values") if found._layout is sparse_coo else found).elements.view(found.elements._shape)


def _ordered(x: Tensor, name: str) -> SparseTensor:
    found = _as(x, name, sparse_coo)
    if not found.coalesced:
        raise RuntimeError(f"{name}: the tensor is not coalesced: call coalesce() first")
    return found


@method("_indices")
def _indices(x: Tensor) -> Tensor:
    """The indices as they are, coalesced or not."""
    return _as(x, "_indices", sparse_coo).places


@method("_values")
def _values_of(x: Tensor) -> Tensor:
    """The values as they are, coalesced or not, without their gradient."""
    return _as(x, "_values", sparse_coo).elements.detach()


@method("_nnz")
def _nnz(x: Tensor) -> int:
    """The number of kept elements."""
    return count_of(_as(x, "_nnz"))


@method("_coalesced_")
def _set_coalesced(x: Tensor, coalesced: bool) -> SparseTensor:
    """Says whether the indices differ and ascend."""
    found = _as(x, "_coalesced_", sparse_coo)
    found.coalesced = coalesced
    return found


@method()
def sparse_dim(x: Tensor) -> int:
    """The number of dims whose indices are kept; 0 of a dense tensor."""
    return x.places._shape[0] if isinstance(x, SparseTensor) else 0


@method()
def dense_dim(x: Tensor) -> int:
    """The number of dims of each value."""
    return len(dense_sizes(x)) if isinstance(x, SparseTensor) else x.ndim


def _part(name: str, kind: layout, starts: bool) -> None:
    def read(x: Tensor) -> Tensor:
        found = _as(x, name, kind)
        if starts and found.pointers is not None:
            return found.pointers
        return found.places[1 if kind is sparse_csr else 0]

    read.__doc__ = f"Of {_NAMES[kind]}: " + ("where each line begins." if starts else "the other index of each value.")
    method(name)(read)


for _kind, _lines, _others in ((sparse_csr, "crow", "col"), (sparse_csc, "ccol", "row")):
    _part(f"{_lines}_indices", _kind, True)
    _part(f"{_others}_indices", _kind, False)


@attribute("is_sparse")
def _is_sparse(x: Tensor) -> bool:
    """Whether it is a sparse tensor in COO."""
    return not x.dense and x.layout is sparse_coo


@attribute("is_sparse_csr")
def _is_sparse_csr(x: Tensor) -> bool:
    """Whether it is a sparse tensor in CSR."""
    return not x.dense and x.layout is sparse_csr


@method()
def sparse_mask(x: Tensor, mask: Tensor) -> SparseTensor:
    """The elements of x, dense or sparse, at the indices of a sparse tensor of the same shape."""
    mask = _as(mask, "sparse_mask")
    if x._shape != mask.shape:
        raise ValueError(f"sparse_mask: {describe(x)} and the mask {describe(mask)} differ in shape")
    return like(mask, at_indices(x, mask))


@form("sparse_mask")
def _sparse_mask(x: Tensor, mask: Tensor) -> SparseTensor:
    return sparse_mask(x, mask)


def at_indices(x: Tensor, mask: SparseTensor) -> Tensor:
    """The elements of x at the indices of a sparse tensor: (n, ...)."""
    sizes = sparse_sizes(mask)
    wanted = keys(array(mask.places), sizes)
    if not isinstance(x, SparseTensor):
        flat = reshape(x, (prod(sizes), *dense_sizes(mask)))
        return flat.index_select(0, to_place(wanted, x.device))
    if x.places._shape[0] != mask.places._shape[0]:
        raise ValueError(f"the tensors have {x.places.shape[0]} and {mask.places.shape[0]} sparse dims")
    x = coalesced(x)
    at, there = positions(keys(array(x.places), sizes), wanted)
    if not count_of(x):
        return zeros((len(wanted), *dense_sizes(mask)), dtype=x.dtype, device=x.device)
    found = x.elements.index_select(0, to_place(at, x.device))
    if there.all():
        return found
    kept = to_place(there, x.device).to(x.dtype)
    return found * reshape(kept, (len(wanted),) + (1,) * (found.ndim - 1))


def positions(known: Any, wanted: Any) -> tuple[Any, Any]:
    """Where numbers are among ascending ones, and whether they are there."""
    at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    return at, known[at] == wanted if len(known) else np.zeros(len(wanted), bool)


@form("clone")
def _clone(x: SparseTensor, memory_format: Any = None) -> SparseTensor:
    return like(x, x.elements.clone())


@form("cast")
def _cast(x: SparseTensor, dtype: DType, *_: Any) -> SparseTensor:
    return like(x, x.elements.to(dtype))


@form("_move")
def _move(x: SparseTensor, device: Any) -> SparseTensor:
    pointers = None if x.pointers is None else x.pointers.to(device)
    return sparse(x.places.to(device), x.elements.to(device), x.shape, x.coalesced, x._layout, pointers)


@form("copy_")
def _copy_(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    if not isinstance(x, SparseTensor) or not isinstance(source, SparseTensor) or x.shape != source.shape:
        raise RuntimeError(f"copy_: {describe(source)} does not go into {describe(x)}: one is sparse, or shapes differ")
    own, source = x.own, source.to(dtype=x.dtype, device=x.device)
    x.become(in_layout(source, x._layout).clone())
    if own:
        x.requires_grad_()
    return x


@form("zero_")
def _zero_(x: SparseTensor) -> SparseTensor:
    empty = sparse_coo_tensor(x.shape[: x.places._shape[0]], dtype=x.dtype, device=x.device)
    none = zeros(0, *dense_sizes(x), dtype=x.dtype, device=x.device)
    x.become(in_layout(sparse(empty.places, none, x.shape, True), x._layout))
    return x

"""Arithmetic of sparse tensors, element by element."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ...dtype import result_dtype
from ...in_place import tracked
from ...lazy import np
from ...memory_format import sparse_coo
from ...operands import same_device, with_priority
from ...shape import broadcast_shapes
from ...tensor import Tensor
from ...user_errors import describe
from .. import elementwise
from ..stacking import cat
from ..view import expand, reshape
from .creation import at_indices, positions
from .layouts import (
    SparseTensor,
    array,
    coalesced,
    count_of,
    dense_of,
    dense_sizes,
    form,
    in_layout,
    keys,
    keys_of,
    like,
    sparse,
    sparse_sizes,
    to_place,
)

# Functions that give 0 for 0, so that the other elements need not be kept. Sums of equal indices come first.
_OF_VALUES = """
    abs absolute angle arcsin arcsinh arctan arctanh asin asinh atan atanh ceil conj deg2rad erf erfinv expm1 fix floor
    frac imag isinf isnan isneginf isposinf log1p nan_to_num positive rad2deg real relu round sgn sign signbit sin sinh
    sqrt square tan tanh trunc resolve_conj
"""


def _register(name: str) -> None:
    def compute(x: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        found = coalesced(x) if x._layout is sparse_coo else x
        return like(found, getattr(found.elements, name)(*args, **kwargs))

    form(name)(compute)


for _name in _OF_VALUES.split():
    _register(_name)


@form("neg", "negative")
def neg(x: SparseTensor) -> SparseTensor:
    return like(x, -x.elements)


@form("pow")
def _pow(x: Any, exponent: Any) -> SparseTensor:
    """Of exponents above 0, which keep 0."""
    if not isinstance(x, SparseTensor) or isinstance(exponent, Tensor) or not exponent > 0:
        raise NotImplementedError("pow: of a sparse tensor takes a number above 0 as exponent: others do not keep 0")
    found = coalesced(x) if x._layout is sparse_coo else x
    return like(found, found.elements**exponent)


def _is_number(x: Any) -> bool:
    return not isinstance(x, Tensor) or (x.dense and not x._shape)


def _number(x: Any, other: Any, operation: Callable[[Any, Any], Tensor], name: str) -> SparseTensor:
    if not isinstance(x, SparseTensor) or not _is_number(other):
        raise NotImplementedError(
            f"{name}: takes a sparse tensor and a number, got {describe(x)} and {describe(other)}"
        )
    found = coalesced(x) if x._layout is sparse_coo and name != "div" else x
    return like(found, operation(found.elements, other))


@form("div", "true_divide", "divide")
def _div(x: Any, other: Any, rounding_mode: str | None = None) -> SparseTensor:
    name = "div" if rounding_mode is None else f"div of mode {rounding_mode}"
    return _number(x, other, lambda a, b: elementwise.arithmetic.div(a, b, rounding_mode=rounding_mode), name)


@form("floor_divide")
def _floor_divide(x: Any, other: Any) -> SparseTensor:
    return _number(x, other, lambda a, b: a // b, "floor_divide")


@form("mul", "multiply")
def mul(x: Any, other: Any) -> SparseTensor:
    """By a number; by a dense tensor, which broadcasts; or by a sparse one."""
    if not isinstance(x, SparseTensor):
        return mul(other, x)
    if _is_number(other):
        return like(x, x.elements * other)
    same_device("mul", x, other)
    if isinstance(other, SparseTensor):
        return _of_both(x, other)
    if broadcast_shapes(x.shape, other.shape, op="mul") != x.shape:
        raise ValueError(f"mul: the dense {describe(other)} does not broadcast to the sparse {describe(x)}")
    return like(x, x.elements * _at(other, x))


def _at(other: Tensor, x: SparseTensor) -> Tensor:
    """The elements of a dense tensor, broadcast to x, at the indices of x: a vector for rows, or columns, is not
    expanded."""
    shape = (1,) * (x.ndim - other.ndim) + other._shape
    dims = x.places._shape[0]
    sizes, places = [], []
    for index, size in zip(array(x.places), shape, strict=False):
        if size > 1:
            sizes.append(size)
            places.append(index)
    if 1 not in shape[:dims]:
        return at_indices(expand(other, x.shape), x)
    flat = reshape(other, (prod(sizes), *shape[dims:]))
    found = keys(np.array(places).reshape(len(sizes), count_of(x)), sizes)
    return flat.index_select(0, to_place(found, x.device))


def _of_both(x: SparseTensor, other: SparseTensor) -> SparseTensor:
    """The product at the indices that both keep."""
    kind = x._layout if x._layout is other._layout else sparse_coo
    _check_pair("mul", x, other)
    x, other = coalesced(x), coalesced(other)
    at, there = positions(keys_of(other), keys_of(x))
    left, right = to_place(np.flatnonzero(there), x.device), to_place(at[there], x.device)
    elements = x.elements.index_select(0, left) * other.elements.index_select(0, right)
    return in_layout(sparse(x.places.index_select(1, left), elements, x.shape, True), kind)


def _check_pair(name: str, x: SparseTensor, other: SparseTensor) -> None:
    if x.shape != other.shape or x.places._shape[0] != other.places._shape[0]:
        raise ValueError(
            f"{name}: the sparse tensors {describe(x)} and {describe(other)} differ in shape or sparse dims"
        )


@form("add")
def add(x: Any, other: Any, alpha: Any = 1) -> Tensor:
    """Two sparse tensors of one shape; or with a dense tensor, to which the sparse one broadcasts: dense."""
    if not isinstance(other, Tensor) or not isinstance(x, Tensor):
        raise NotImplementedError("add: a number would fill all elements that are 0: use to_dense() first")
    same_device("add", x, other)
    if not x.dense and not other.dense:
        return _sum(x, other if alpha == 1 else other * alpha)  # type: ignore[arg-type]
    if isinstance(other, SparseTensor):
        return x + dense_of(other if alpha == 1 else other * alpha)
    return dense_of(x) + (other if alpha == 1 else other * alpha)  # type: ignore[arg-type]


def _sum(x: SparseTensor, other: SparseTensor) -> SparseTensor:
    """Both one after the other; coalesced if they are."""
    _check_pair("add", x, other)
    kind = x._layout if x._layout is other._layout else sparse_coo
    dtype = result_dtype([with_priority(x), with_priority(other)])
    elements = cat([x.elements.to(dtype), other.elements.to(dtype)])
    found = sparse(cat([x.places, other.places], 1), elements, x.shape)
    both = x.coalesced and other.coalesced
    return in_layout(coalesced(found), kind) if both or kind is not sparse_coo else found


@form("sub", "subtract")
def _sub(x: Any, other: Any, alpha: Any = 1) -> Tensor:
    return add(x, other, -alpha)


@form("_accumulate")
def _accumulate(x: Tensor, other: SparseTensor) -> Tensor:
    """Adds to a dense tensor in place."""
    return add_into(x, other)


def add_into(x: Tensor, other: SparseTensor, alpha: Any = 1) -> Tensor:
    """A dense tensor plus alpha times a sparse one, in place: only the elements that are kept are read and written."""
    if x._shape != other.shape:
        raise ValueError(f"add_: {describe(other)} does not have the shape of {describe(x)}")
    other = coalesced(other)
    sizes = sparse_sizes(other)
    there = to_place(keys_of(other), x.device)
    if tracked(x, other) or not x.is_contiguous():
        return x.copy_(add(x, other, alpha))
    rows = x.view(prod(sizes), *dense_sizes(other))
    rows[there] = rows.index_select(0, there) + (other.elements * alpha).to(x.dtype)
    return x


@form("add_")
def _add_(x: Tensor, other: Any, alpha: Any = 1) -> Any:
    if isinstance(x, SparseTensor) or not isinstance(other, SparseTensor):
        return NotImplemented
    return add_into(x, other, alpha)


@form("sub_")
def _sub_(x: Tensor, other: Any, alpha: Any = 1) -> Any:
    return _add_(x, other, -alpha)


@form("norm")
def _norm(x: SparseTensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    if dim is not None or keepdim:
        raise NotImplementedError("norm: of a sparse tensor takes all elements; use to_dense() for dims")
    elements = coalesced(x).elements
    return reshape(elements, (elements.numel(),)).norm(2 if p == "fro" else p, dtype=dtype)


@form("any")
def _any(x: SparseTensor, *args: Any) -> Tensor:
    if args:
        return NotImplemented
    return (coalesced(x).elements != 0).any()

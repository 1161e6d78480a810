"""Products along a dim and their running form: prod, cumprod."""

from __future__ import annotations

from math import isfinite
from typing import Any

from .. import dtype as _dtype
from ..autocast import full_precision
from ..autograd import STATE
from ..declare import function
from ..dtype import as_dtype
from ..launch import capturing
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import primitive
from ..shape import normalize_dim
from ..tensor import Tensor
from .elementwise.select import where
from .reduce import _accumulator, _spread, sum
from .reordering import flip
from .scans import cumsum
from .stacking import cat
from .view import narrow, reshape


def _ones_before(x: Tensor, dim: int) -> Tensor:
    """Along dim: 1, x0, x0 x1, … without the last element."""
    size = x._shape[dim]
    first = x.new_ones(*(1 if i == dim else n for i, n in enumerate(x._shape)))
    return cumprod(cat([first, narrow(x, dim, 0, size - 1)], dim), dim)


def _d_prod(g: Tensor, y: Tensor, x: Tensor, dim: int, keepdim: bool) -> Any:
    """The product divided by the element, as in torch, where the host can see that no element is zero. Else the product
    of all others, so that zeros are exact too; where it is NaN or infinite and no element is zero, the quotient.
    """
    if not x.numel():
        return (x * 0,)
    if not STATE.enabled and x.device.backend.host_visible and not capturing():
        # No product is zero or infinite; or it is so by underflow or overflow alone.
        if isfinite(abs((1.0 / y + y * 0.0).sum().item())) or bool(x.all()):
            return (_spread(g * y, x, dim, keepdim) / x,)
    others = _ones_before(x, dim) * flip(_ones_before(flip(x, dim), dim), dim)
    whole = _spread(y, x, dim, keepdim)
    divided = (whole - whole != 0) & (sum(x == 0) == 0)
    others = where(divided, whole / where(divided, x, 1.0), others)
    return (_spread(g, x, dim, keepdim) * others,)


@primitive(vjp=_d_prod, saves="both", name="_prod", autocast=full_precision)
def _prod(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    kind = _accumulator(x)
    array = array_of(x, _dtype.float32 if x.dtype is _dtype.float16 else kind)
    return tensor_of(np.prod(array, axis=dim, keepdims=keepdim, dtype=array.dtype), kind)


@function(method=True)
def prod(x: Tensor, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Product along a dim, or of all elements; of integers in int64."""
    if dtype is not None:
        return prod(x.to(as_dtype(dtype)), dim, keepdim).to(as_dtype(dtype))
    if dim is None:
        whole = _prod(reshape(x, -1), 0, False)
        return reshape(whole, (1,) * x.ndim) if keepdim else whole
    d = normalize_dim(dim, x.ndim, "prod")
    return _prod(x, d, keepdim) if x.ndim else _prod(reshape(x, 1), 0, False)


def _d_cumprod(g: Tensor, y: Tensor, x: Tensor, dim: int) -> Any:
    """Σ over later products, each without x_k: by division, or element by element if there are zeros."""
    if not bool((x == 0).any()):
        return (flip(cumsum(flip(g * y, dim), dim), dim) / x,)
    d, pieces = normalize_dim(dim, x.ndim, "cumprod"), []
    size = x._shape[d]
    before = _ones_before(x, d)
    for k in range(size):
        after = _without_first(narrow(x, d, k, size - k), d)
        pieces.append(sum(narrow(g, d, k, size - k) * after, d, True) * narrow(before, d, k, 1))
    return (cat(pieces, d),)


def _without_first(x: Tensor, dim: int) -> Tensor:
    """Running products of x with its first element replaced by one."""
    rest = narrow(x, dim, 1, x._shape[dim] - 1)
    return cumprod(cat([x.new_ones(*narrow(x, dim, 0, 1)._shape), rest], dim), dim)


@function(method=True, in_place=True)
@primitive(vjp=_d_cumprod, saves="both")
def cumprod(x: Tensor, dim: int) -> Tensor:
    """Running product along a dim."""
    kind = _accumulator(x)
    array = array_of(x, kind)
    if not x.ndim:
        return tensor_of(array.copy(), kind)
    return tensor_of(np.cumprod(array, axis=normalize_dim(dim, x.ndim, "cumprod"), dtype=array.dtype), kind)


def _cumprod_by_name(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    return cumprod(x, dim) if dtype is None else cumprod(x.to(dtype), dim).to(dtype)


cumprod.by_name = _cumprod_by_name

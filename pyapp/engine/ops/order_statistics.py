"""Order statistics: kthvalue, median, quantile, mode."""

from __future__ import annotations

from typing import Any

from ..autograd import no_grad
from ..declare import function
from ..launch import capturing
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import op
from ..return_types import Found, found
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .create import arange
from .elementwise.select import where
from .reduce import sum as _sum
from .sorting import _first_indices as first_indices
from .sorting import argsort
from .stacking import cat, stack
from .view import narrow, reshape, squeeze, transpose

_Kth, _Median, _NanMedian, _Mode = map(found, ("kthvalue", "median", "nanmedian", "mode"))


def _at_rank(kind: type[Found], x: Tensor, rank: int, dim: int, keepdim: bool, nan_wins: bool = False) -> Found:
    """(values, indices) of the elements at `rank` along a dim in sorted order; of NaN if that wins and there is one."""
    order = argsort(x, dim) if nan_wins else first_indices(x, rank + 1, normalize_dim(dim, x.ndim, "argsort"), False)
    indices = narrow(order, dim, rank, 1)
    if nan_wins:  # NaN is sorted to the end
        last = narrow(order, dim, x._shape[dim] - 1, 1)
        indices = where(x.detach().gather(dim, last).isnan(), last, indices)
    values = x.gather(dim, indices)
    return kind(values, indices) if keepdim else kind(squeeze(values, dim), squeeze(indices, dim))


def _filled(x: Tensor, name: str, dim: int | None = None) -> int:
    """The size of a dim (or of all), which must not be zero."""
    size = x.numel() if dim is None else (*x._shape, 1)[normalize_dim(dim, x.ndim, name)]
    if not size:
        raise (ValueError if dim is None else IndexError)(f"{name}: {describe(x)} has no elements along dim {dim}")
    return size


@function(method=True)
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Found:
    """(values, indices) of the k-th smallest along a dim; k counts from 1."""
    size = _filled(x, "kthvalue", dim)
    if not 1 <= k <= size:
        raise ValueError(f"kthvalue: k = {k} is not between 1 and {size}, dim {dim} of {describe(x)}")
    values, indices = _at_rank(_Kth, reshape(x, 1) if not x.ndim else x, k - 1, dim, keepdim)
    return _Kth(values, indices) if x.ndim else _Kth(reshape(values, ()), reshape(indices, ()))


def _d_median_of_all(g: Tensor, y: Tensor, x: Tensor, _: Any) -> tuple[Tensor, None]:
    """Equal elements share the gradient, as in torch."""
    hit = ((x == y) | (x.isnan() & y.isnan())).to(g.dtype)
    return g * hit / hit.sum(), None


@op(vjp=_d_median_of_all, saves="both", name="_median_of_all")
def median_of_all(x: Tensor, along: Any) -> Tensor:
    """median or nanmedian of all elements."""
    with no_grad():
        found: Tensor = along(reshape(x, -1), 0)[0]
    return found


@median_of_all.kernel("cpu")
def _median_by_parting(x: Tensor, along: Any) -> Any:
    """By NumPy, which does not sort what lies below and above."""
    if capturing() or x.dtype.is_bits or x.dtype.is_complex:
        return NotImplemented
    values = x.array().reshape(-1)
    if x.dtype.is_floating_point and np.isnan(values.max()):
        values = values[~np.isnan(values)] if along is nanmedian else values[:0]
    if not values.size:
        return x.new_full((), float("nan"))
    middle = (values.size - 1) // 2
    return tensor_of(np.partition(values, middle)[middle], x.dtype)


@function(method=True)
def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements; along a dim, (values, indices). NaN if an element is NaN."""
    if dim is None:
        if not x.numel() and x.dtype.is_floating_point:
            return x.new_full((), float("nan"))
        _filled(x, "median")
        return median_of_all(x, median)
    size = _filled(x, "median", dim)
    if not x.ndim:
        return kthvalue(x, 1)
    return _at_rank(_Median, x, (size - 1) // 2, dim, keepdim, x.dtype.is_floating_point)


_BETWEEN = ("linear", "lower", "higher", "midpoint", "nearest")


def _portions(name: str, x: Tensor, q: Any, interpolation: str) -> Any:
    """q, checked: a float64 array of no dims or one."""
    if interpolation not in _BETWEEN:
        raise ValueError(f"{name}: interpolation is one of {', '.join(_BETWEEN)}, not {interpolation!r}")
    if not x.dtype.is_floating_point:
        raise TypeError(f"{name}: takes floating-point tensors, not {describe(x)}")
    if isinstance(q, Tensor) and q.dtype is not x.dtype:
        raise TypeError(f"{name}: {describe(x)} and q, {describe(q)}, differ in dtype")
    parts = array_of(q).astype(np.float64)
    if parts.ndim > 1 or not ((parts >= 0) & (parts <= 1)).all():
        raise ValueError(f"{name}: q is a number or vector of numbers in 0 .. 1, not {describe(q)}")
    return parts


def _learned(q: Any, parts: Any, interpolation: str) -> tuple[Tensor | None, ...]:
    """The elements of a q that has a gradient, else None for each: only between neighbours a result depends on it."""
    if interpolation == "linear" and isinstance(q, Tensor) and q.requires_grad:
        return tuple(reshape(q, -1).unbind())
    return (None,) * parts.size


@function(method=True)
def quantile(x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear") -> Tensor:
    """The q-quantiles (a number, or a vector, which adds a first dim) along a dim or of all elements. NaN wins."""
    parts = _portions("quantile", x, q, interpolation)
    _filled(x, "quantile", dim)
    rank = x.ndim
    d = normalize_dim(dim, rank, "quantile") if dim is not None else 0
    flat = transpose(x, d, -1) if dim is not None and rank else reshape(x, -1)
    ordered = flat.gather(-1, argsort(flat, -1))
    found = []
    for part, learned in zip(parts.reshape(-1), _learned(q, parts, interpolation), strict=True):
        position = float(part) * (ordered.shape[-1] - 1)
        value = _between(ordered, position, interpolation)
        if learned is not None and position > int(position):
            share = learned * (ordered.shape[-1] - 1) - int(position)
            first, second = (narrow(ordered, -1, int(position) + i, 1) for i in (0, 1))
            value = first + (second - first) * share
        value = where(flat.detach().isnan().any(-1, True), float("nan"), value)
        value = transpose(value, d, -1).contiguous() if dim is not None and rank else reshape(value, (1,) * rank)
        found.append(value if keepdim else reshape(value, ()) if dim is None or not rank else squeeze(value, d))
    if not found:  # q has no elements
        return quantile(x, 0.0, dim, keepdim).unsqueeze(0)[:0]
    return stack(found, 0) if parts.ndim else found[0]


def _between(ordered: Tensor, position: float, interpolation: str) -> Tensor:
    low = int(position)
    high = min(low + 1, ordered._shape[-1] - 1)
    above = position > low
    share = {"linear": position - low, "lower": 0.0, "higher": float(above), "midpoint": 0.5 * above}
    weight = share.get(interpolation, float(round(position) > low))
    first = narrow(ordered, -1, low, 1)
    return first if weight == 0 else first + (narrow(ordered, -1, high, 1) - first) * weight


@function(method=True)
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Found:
    """(values, indices) of the most frequent element along a dim; the smallest of equally frequent ones, and its last
    index.
    """
    if not x.ndim:
        alone = mode(x.reshape(1), dim, True)
        return _Mode(alone.values.reshape(()), alone.indices.reshape(()))
    d = normalize_dim(dim, x.ndim, "mode")
    size = x._shape[d]
    if not size:
        raise IndexError(f"mode: dim {d} of {describe(x)} has no elements")
    order = argsort(x.detach(), d)  # equal elements keep their order
    ordered = x.detach().gather(d, order)
    places = arange(size, device=x.device).reshape((size,) + (1,) * (x.ndim - 1 - d)).expand(x._shape)
    begins = narrow(ordered, d, 1, size - 1) != narrow(ordered, d, 0, size - 1)  # of runs but the first
    starts = cat([narrow(places, d, 0, 1), where(begins, narrow(places, d, 1, size - 1), 0)], d).cummax(d)[0]
    indices = order.gather(d, (places - starts).argmax(d, True))  # where the first of the longest runs ends
    picked = x.gather(d, indices)
    return _Mode(picked, indices) if keepdim else _Mode(picked.squeeze(d), indices.squeeze(d))


@function(method=True)
def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of the elements that are not NaN; along a dim, (values, indices)."""
    if dim is None:
        return median_of_all(x, nanmedian) if x.numel() else x.new_full((), float("nan"))
    d = normalize_dim(dim, x.ndim, "nanmedian")
    count = _sum(x.isnan().logical_not(), d, True)
    order = x.detach().argsort(d)
    rank = where(count > 0, (count - 1).floor_divide(2), 0)
    indices = order.gather(d, rank)
    values = x.gather(d, indices)
    return _NanMedian(values, indices) if keepdim else _NanMedian(values.squeeze(d), indices.squeeze(d))


@function(method=True)
def nanquantile(
    x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-quantiles (a number, or a vector, which adds a first dim) of what is not NaN, along a dim or of all
    elements; NaN where there is nothing else.
    """
    parts = _portions("nanquantile", x, q, interpolation)
    d = 0 if dim is None else normalize_dim(dim, x.ndim, "nanquantile")
    flat = reshape(x, -1) if dim is None else x
    kept = keepdim or dim is None
    found = [
        _nanquantile(flat, float(part), learned, d, kept, interpolation)
        for part, learned in zip(parts.reshape(-1), _learned(q, parts, interpolation), strict=True)
    ]
    if dim is None:
        found = [reshape(value, (1,) * x.ndim if keepdim else ()) for value in found]
    return stack(found, 0) if parts.ndim else found[0]


def _nanquantile(
    x: Tensor, q: float, learned: Tensor | None, d: int, keepdim: bool, interpolation: str
) -> Tensor:  # fmt: skip
    count = _sum(x.isnan().logical_not(), d, True)
    ordered = x.gather(d, x.detach().argsort(d))  # NaN last
    place = (count - 1).maximum(0).to("float64") * q
    low = place.floor().to("int64")
    high = (low + 1).minimum((count - 1).maximum(0))
    first, second = ordered.gather(d, low), ordered.gather(d, high)
    if learned is not None:
        place = (count - 1).maximum(0).to("float64") * learned
    beyond = place - low.to("float64")
    if interpolation == "nearest":
        beyond = place.round() - low.to("float64")
    elif interpolation != "linear":
        beyond = (beyond > 0).to("float64") * {"lower": 0.0, "higher": 1.0, "midpoint": 0.5}[interpolation]
    share = beyond.to(x.dtype)
    value = where(share == 0, first, first + (second - first) * share)
    return value if keepdim else value.squeeze(d)

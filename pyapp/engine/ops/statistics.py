"""More reductions and scans: products, norms, order statistics, counts."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..dtype import as_dtype
from ..lazy import np
from ..op import describe, op, primitive
from ..shape import normalize_dim, normalize_dims
from ..tensor import Tensor
from .base import array_of, computed, tensor_of
from .elementwise import where
from .reduce import Found, _accumulator, _spread, amax, amin, argsort, cumsum, sum
from .view import cat, flip, narrow, reshape, squeeze, stack, transpose


def _ones_before(x: Tensor, dim: int) -> Tensor:
    """Along dim: 1, x0, x0 x1, … without the last element."""
    size = x.shape[dim]
    first = x.new_ones(*(1 if i == dim else n for i, n in enumerate(x.shape)))
    return cumprod(cat([first, narrow(x, dim, 0, size - 1)], dim), dim)


def _d_prod(g: Tensor, _: Any, x: Tensor, dim: int, keepdim: bool) -> Any:
    """The product of all others, without a division: right for zeros too."""
    if not x.numel():
        return (x * 0,)
    others = _ones_before(x, dim) * flip(_ones_before(flip(x, dim), dim), dim)
    return (_spread(g, x, dim, keepdim) * others,)


@primitive(vjp=_d_prod, name="_prod", method=False)
def _prod(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    computed("prod")
    kind = _accumulator(x)
    array = array_of(x, _dtype.float32 if x.dtype is _dtype.float16 else kind)
    return tensor_of(np.prod(array, axis=dim, keepdims=keepdim, dtype=array.dtype), kind)


def prod(x: Tensor, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Product along a dim, or of all elements; of integers in int64."""
    if dtype is not None:
        x = x.to(as_dtype(dtype))
    if dim is None:
        whole = _prod(reshape(x, -1), 0, False)
        return reshape(whole, (1,) * x.ndim) if keepdim else whole
    d = normalize_dim(dim, x.ndim, "prod")
    return _prod(x, d, keepdim) if x.ndim else _prod(reshape(x, 1), 0, False)


def _d_cumprod(g: Tensor, y: Tensor, x: Tensor, dim: int) -> Any:
    """Σ over later products, each without x_k: by division, or one element after the other where there are zeros."""
    if not bool((x == 0).any()):
        return (flip(cumsum(flip(g * y, dim), dim), dim) / x,)
    d, pieces = normalize_dim(dim, x.ndim, "cumprod"), []
    size = x.shape[d]
    before = _ones_before(x, d)
    for k in range(size):
        after = _without_first(narrow(x, d, k, size - k), d)
        pieces.append(sum(narrow(g, d, k, size - k) * after, d, True) * narrow(before, d, k, 1))
    return (cat(pieces, d),)


def _without_first(x: Tensor, dim: int) -> Tensor:
    """Running products of x with its first element taken as one."""
    rest = narrow(x, dim, 1, x.shape[dim] - 1)
    return cumprod(cat([x.new_ones(*narrow(x, dim, 0, 1).shape), rest], dim), dim)


@primitive(vjp=_d_cumprod, saves="both")
def cumprod(x: Tensor, dim: int) -> Tensor:
    """Running product along a dim."""
    computed("cumprod")
    kind = _accumulator(x)
    array = array_of(x, kind)
    if not x.ndim:
        return tensor_of(array.copy(), kind)
    return tensor_of(np.cumprod(array, axis=normalize_dim(dim, x.ndim, "cumprod"), dtype=array.dtype), kind)


cumprod.by_name = lambda x, dim, dtype=None: cumprod(x if dtype is None else x.to(dtype), dim)


def _d_norm(g: Tensor, y: Tensor, x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    whole = _spread(y, x, dim, keepdim)
    return (_spread(g, x, dim, keepdim) * where(whole == 0, 0.0, x / whole),)


@op(vjp=_d_norm, saves="both")
def _euclidean(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return sum(x * x, dim, keepdim).sqrt()


def _d_p_norm(g: Tensor, y: Tensor, x: Tensor, p: float, dim: Any = None, keepdim: bool = False) -> Any:
    whole = _spread(y, x, dim, keepdim)
    share = x.sign() * where(whole == 0, 0.0, x.abs() / whole) ** (p - 1)
    return (_spread(g, x, dim, keepdim) * where(whole == 0, 0.0, share),)


@op(vjp=_d_p_norm, saves="both")
def _p_norm(x: Tensor, p: float, dim: Any = None, keepdim: bool = False) -> Tensor:
    return sum(x.abs() ** p, dim, keepdim) ** (1 / p)


def norm(x: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm of the elements over dims: (Σ |x|^p)^(1/p); p may be "fro" (2), inf, -inf or 0 (how many)."""
    if not x.dtype.is_floating_point:
        raise TypeError(f"norm: takes floating-point tensors, not {describe(x)}")
    if p in ("fro", 2):
        return _euclidean(x, dim, keepdim)
    if p == "nuc":
        from .decompose import matrix_norm

        return matrix_norm(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if isinstance(p, str):
        raise ValueError(f"norm: p is a number, 'fro' or 'nuc', not {p!r}")
    if p in (inf, -inf):
        return (amax if p > 0 else amin)(x.abs(), dim, keepdim)
    if p == 0:
        return sum(x != 0, dim, keepdim).to(x.dtype)
    if p == 1:
        return sum(x.abs(), dim, keepdim)
    return _p_norm(x, p, dim, keepdim)


def _at_rank(x: Tensor, rank: Tensor, dim: int, keepdim: bool) -> Found:
    """(values, indices) of the element that stands at `rank` (one along dim) when sorted."""
    indices = argsort(x, dim).gather(dim, rank)
    values = x.gather(dim, indices)
    return Found(values, indices) if keepdim else Found(squeeze(values, dim), squeeze(indices, dim))


def _filled(x: Tensor, name: str, dim: int | None = None) -> int:
    """The size of a dim (or of all), which must not be zero."""
    size = x.numel() if dim is None else x.shape[normalize_dim(dim, x.ndim, name)] if x.ndim else 1
    if not size:
        raise (ValueError if dim is None else IndexError)(f"{name}: {describe(x)} has no elements along dim {dim}")
    return size


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Found:
    """(values, indices) of the k-th smallest along a dim; k counts from 1."""
    size = _filled(x, "kthvalue", dim)
    if not 1 <= k <= size:
        raise ValueError(f"kthvalue: k = {k} is not between 1 and {size}, dim {dim} of {describe(x)}")
    values, indices = _at_rank(reshape(x, 1) if not x.ndim else x, _ranks(x, dim, k - 1), dim, keepdim)
    return Found(values, indices) if x.ndim else Found(reshape(values, ()), reshape(indices, ()))


def _ranks(x: Tensor, dim: int, rank: int) -> Tensor:
    shape = list(x.shape or (1,))
    shape[dim] = 1
    return tensor_of(np.full(shape, rank, dtype=np.int64), _dtype.int64)


def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements; along a dim, (values, indices). NaN wins."""
    if dim is None:
        if not x.numel() and x.dtype.is_floating_point:
            return x.new_full((), float("nan"))
        _filled(x, "median")
        return median(reshape(x, -1), 0)[0]
    size = _filled(x, "median", dim)
    if not x.ndim:
        return kthvalue(x, 1)
    ranks = _ranks(x, dim, (size - 1) // 2)
    if x.dtype.is_floating_point:  # NaN is sorted to the end
        ranks = where(x.detach().isnan().any(dim, True), size - 1, ranks)
    return _at_rank(x, ranks, dim, keepdim)


_BETWEEN = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear") -> Tensor:
    """The q-quantiles (a number, or a vector, which adds a first dim) along a dim or of all elements. NaN wins."""
    if interpolation not in _BETWEEN:
        raise ValueError(f"quantile: interpolation is one of {', '.join(_BETWEEN)}, not {interpolation!r}")
    if not x.dtype.is_floating_point:
        raise TypeError(f"quantile: takes floating-point tensors, not {describe(x)}")
    if isinstance(q, Tensor) and q.dtype is not x.dtype:
        raise TypeError(f"quantile: {describe(x)} and q, {describe(q)}, differ in dtype")
    _filled(x, "quantile", dim)
    parts = array_of(q).astype(np.float64)
    if parts.ndim > 1 or not ((parts >= 0) & (parts <= 1)).all():
        raise ValueError(f"quantile: q is a number or vector of numbers in 0 .. 1, not {describe(q)}")
    rank = x.ndim
    d = normalize_dim(dim, rank, "quantile") if dim is not None else 0
    flat = transpose(x, d, -1) if dim is not None and rank else reshape(x, -1)
    ordered = flat.gather(-1, argsort(flat, -1))
    found = []
    for part in parts.reshape(-1):
        value = _between(ordered, float(part) * (ordered.shape[-1] - 1), interpolation)
        value = where(flat.detach().isnan().any(-1, True), float("nan"), value)
        value = transpose(value, d, -1) if dim is not None and rank else reshape(value, (1,) * rank)
        found.append(value if keepdim else reshape(value, ()) if dim is None or not rank else squeeze(value, d))
    return stack(found, 0) if parts.ndim else found[0]


def _between(ordered: Tensor, position: float, interpolation: str) -> Tensor:
    low = int(position)
    high = min(low + 1, ordered.shape[-1] - 1)
    above = position > low
    share = {"linear": position - low, "lower": 0.0, "higher": float(above), "midpoint": 0.5 * above}
    weight = share.get(interpolation, float(round(position) > low))
    first = narrow(ordered, -1, low, 1)
    return first if weight == 0 else first + (narrow(ordered, -1, high, 1) - first) * weight


def count_nonzero(x: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero (int64)."""
    return sum(x != 0, dim)


def nansum(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Sum that takes NaN as zero."""
    return sum(where(x.isnan(), 0.0, x) if x.dtype.is_floating_point else x, dim, keepdim)


def nanmean(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Mean of the elements that are not NaN. TypeError for integers."""
    if not x.dtype.is_floating_point:
        raise TypeError(f"nanmean: takes floating-point tensors, not {describe(x)}")
    return nansum(x, dim, keepdim) / sum(x.isnan().logical_not(), dim, keepdim)


def _running(name: str, accumulate: Any) -> Any:
    def function(x: Tensor, dim: int) -> Found:
        computed(name)
        if not x.ndim:
            return Found(x.clone(), tensor_of(np.zeros((), np.int64)))
        d = normalize_dim(dim, x.ndim, name)
        array = array_of(x)
        values = accumulate().accumulate(array, axis=d)
        at = np.arange(array.shape[d], dtype=np.int64).reshape((-1,) + (1,) * (x.ndim - 1 - d))
        hit = np.where((array == values) | (array != array), at, 0)
        indices = tensor_of(np.maximum.accumulate(hit, axis=d), _dtype.int64)
        return Found(x.gather(d, indices), indices)

    function.__name__ = name
    function.__doc__ = f"(values, indices) of the running {name[3:]}imum along a dim; of equals the last. NaN wins."
    return function


cummax = _running("cummax", lambda: np.maximum)
cummin = _running("cummin", lambda: np.minimum)


def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements (or slices along a dim) in order; with them, where each element went and how often."""
    computed("unique")
    axis = None if dim is None else normalize_dim(dim, x.ndim, "unique")
    values, inverse, counts = np.unique(
        array_of(x), return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    shape = x.shape if axis is None else (x.shape[axis],)
    found = [tensor_of(values, x.dtype)]
    if return_inverse:
        found.append(tensor_of(inverse.reshape(shape), _dtype.int64))
    if return_counts:
        found.append(tensor_of(counts, _dtype.int64))
    return found[0] if len(found) == 1 else tuple(found)


class Extremes(NamedTuple):
    """The smallest and the largest."""

    min: Tensor
    max: Tensor


def aminmax(x: Tensor, dim: Any = None, keepdim: bool = False) -> Extremes:
    """(smallest, largest) over dims."""
    return Extremes(amin(x, dim, keepdim), amax(x, dim, keepdim))


def var_mean(x: Tensor, dim: Any = None, correction: int = 1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """(variance, mean) over dims."""
    normalize_dims(dim, x.ndim, "var_mean")
    return x.var(dim, correction, keepdim), x.mean(dim, keepdim)


for _function in (
    prod, norm, kthvalue, median, quantile, count_nonzero, nansum, nanmean, cummax, cummin, unique, aminmax,
):  # fmt: skip
    setattr(Tensor, _function.__name__, _function)

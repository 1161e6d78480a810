"""More writing and counting by index: fill, copy, put, scatter with a reduction, bins, searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import UnsupportedTypeError
from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, primitive
from ..shape import normalize_dim
from ..tensor import Tensor
from .base import array_of, computed, tensor_of
from .elementwise import where
from .index import _grid, _index_array, _put
from .inplace import in_place
from .rearrange import diagonal
from .reduce import Found
from .reduce import sum as _sum
from .view import expand


def _along(x: Tensor, dim: int, index: Tensor, name: str) -> tuple[Any, ...]:
    d = normalize_dim(dim, x.ndim, name)
    if index.dtype.category != 1 or index.ndim > 1:
        raise TypeError(f"{name}: the index must be a vector of integers, got {describe(index)}")
    array = index.array()
    lowest = -x.shape[d] if name == "index_fill" else 0
    if array.size and (array.min() < lowest or array.max() >= x.shape[d]):
        raise IndexError(f"{name}: index values {array.min()} .. {array.max()} are outside dim {dim} of {describe(x)}")
    return (slice(None),) * d + (index.reshape(-1),)


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """x with one value at the entries of a dim that a vector of integers names."""
    return _put(x, value, _along(x, dim, index, "index_fill"))


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x with the entries of source along dim at a vector of integers."""
    where_ = _along(x, dim, index, "index_copy")
    d = normalize_dim(dim, x.ndim, "index_copy")
    if source.shape != (*x.shape[:d], index.numel(), *x.shape[d + 1 :]):
        raise ValueError(
            f"index_copy: the source {describe(source)} does not fit {describe(x)} at {index.numel()} indices"
        )
    return _put(x, source, where_)


def index_put(x: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """x with values at x[indices]; with `accumulate` added, equal indices adding up."""
    index = tuple(indices)
    if not accumulate:
        return _put(x, values, index)
    from .index import _array_index, _take_back

    shape = x.detach()[index].shape
    return x + _take_back(expand(values, shape), x.shape, _array_index(list(index)))


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """x with the first elements of source, in order, where the mask holds."""
    from ..shape import broadcast_shapes

    shape = broadcast_shapes(x.shape, mask.shape, op="masked_scatter")
    wide, seen = expand(x, shape), expand(mask, shape)
    count = int(seen.sum())
    if source.numel() < count:
        raise ValueError(f"masked_scatter: the mask holds {count} times, {describe(source)} has fewer elements")
    return _put(wide, source.reshape(-1)[:count], seen)


def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened x."""
    return x.reshape(-1)[index]


# -- scatter with a reduction

_REDUCE = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}


@primitive(name="_scatter_extreme", saves="both", method=False)
def _scatter_extreme(x: Tensor, source: Tensor, dim: int, index: Tensor, reduce: str, include_self: bool) -> Tensor:
    """prod, amax or amin of what meets at each element."""
    computed("scatter_reduce")
    found = _index_array("scatter_reduce", x, dim, index)
    values = array_of(source, x.dtype)[tuple(slice(n) for n in found.shape)]
    result = array_of(x).copy()
    if not include_self:
        kind = result.dtype
        lowest = np.iinfo(kind).min if kind.kind in "iu" else -np.inf
        highest = np.iinfo(kind).max if kind.kind in "iu" else np.inf
        result[_grid(found, dim)] = {"prod": 1, "amax": lowest, "amin": highest}[reduce]
    getattr(np, _REDUCE[reduce]).at(result, _grid(found, dim), values)
    return tensor_of(result, x.dtype)


@_scatter_extreme.gradient
def _d_scatter_extreme(
    g: Tensor, y: Tensor, x: Tensor, source: Tensor, dim: int, index: Tensor, reduce: str, include_self: bool
) -> Any:
    """prod: the product of the others; amax, amin: shared by equals."""
    from .create import zeros

    part = source[tuple(slice(n) for n in index.shape)]
    own: Tensor | float = 1.0 if include_self else where(_touched(x, dim, index), 0.0, 1.0)
    if reduce == "prod":
        if bool((part == 0).any()) or bool((x == 0).any()):
            raise RuntimeError("scatter_reduce: the gradient of a product with zeros is not there")
        g_x, g_part = g * y / x * own, (g * y).gather(dim, index) / part
    else:
        hit_x, hit = (x == y).to(g.dtype) * own, (part == y.gather(dim, index)).to(g.dtype)
        shares = g / zeros(y.shape, dtype=g.dtype).scatter_add(dim, index, hit).add(hit_x).clamp(1.0)
        g_x, g_part = shares * hit_x, shares.gather(dim, index) * hit
    if not include_self:
        g_x = where(_touched(x, dim, index), g * 0, g)
    if part.shape != source.shape:
        from .rearrange import pad

        widths = [n for a, b in zip(reversed(source.shape), reversed(part.shape), strict=True) for n in (0, a - b)]
        g_part = pad(g_part, widths)
    return g_x, g_part


def _touched(x: Tensor, dim: int, index: Tensor) -> Tensor:
    from .create import ones, zeros

    return zeros(x.shape).scatter_add(dim, index, ones(index.shape)) > 0


def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """x with source reduced in at index along dim: reduce "sum", "mean", "prod", "amax" or "amin"; without
    `include_self` the elements of x that are hit do not count.
    """
    if reduce not in ("sum", "mean", *_REDUCE):
        raise ValueError(f"scatter_reduce: reduce is sum, mean, prod, amax or amin, not {reduce!r}")
    d = normalize_dim(dim, x.ndim, "scatter_reduce")
    if reduce in _REDUCE:
        return _scatter_extreme(x, src, d, index, reduce, include_self)
    base = x if include_self else where(_touched(x, d, index), x * 0, x)
    total = base.scatter_add(d, index, src)
    if reduce == "sum":
        return total
    from .create import ones, zeros

    hits = zeros(x.shape).scatter_add(d, index, ones(index.shape))
    count = (hits + 1.0 if include_self else hits).clamp(1.0).to(x.dtype)
    return total / count if x.dtype.is_floating_point else total.floor_divide(count)


# -- counting and searching


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer 0, 1, … stands in a vector (int64), or the sums of weights."""
    if x.ndim != 1 or x.dtype.category != 1:
        raise UnsupportedTypeError(f"bincount: takes a vector of integers, got {describe(x)}")
    array = x.array().astype(np.int64)
    if array.size and array.min() < 0:
        raise ValueError(f"bincount: {array.min()} is negative")
    size = max(int(array.max()) + 1 if array.size else 0, minlength)
    if weights is None:
        counts = np.zeros(size, np.int64)
        np.add.at(counts, array, 1)
        return tensor_of(counts)
    kind = _dtype.float32 if weights.dtype is _dtype.float32 else _dtype.float64
    sums = np.zeros(size, "float64")
    np.add.at(sums, array, array_of(weights))
    return tensor_of(sums, kind)


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts in equal bins from min to max (of the elements, where both are equal)."""
    values = array_of(x, _dtype.float64).reshape(-1)  # NumPy would warn of bools
    low, high = float(min), float(max)
    if low == high and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if bins < 1 or low > high:
        raise ValueError(f"histc: {bins} bins from {low} to {high} are none")
    counts, _ = np.histogram(values, bins, (low, high))
    return tensor_of(counts.astype("float64"), x.dtype)


def searchsorted(
    sorted_sequence: Tensor, values: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None
) -> Tensor:
    """Where values would go into ascending rows: before equals, or after them with `right` (int64)."""
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    way: Any = "right" if right or side == "right" else "left"
    rows, wanted = array_of(sorted_sequence), array_of(values)
    if rows.ndim == 1:
        found = np.searchsorted(rows, wanted, way)
    else:
        if rows.shape[:-1] != wanted.shape[:-1]:
            raise ValueError(
                f"searchsorted: {describe(sorted_sequence)} and {describe(values)} differ before the last dim"
            )
        pairs = zip(rows.reshape(-1, rows.shape[-1]), wanted.reshape(-1, wanted.shape[-1]), strict=True)
        found = np.stack([np.searchsorted(r, w, way) for r, w in pairs]).reshape(wanted.shape)
    return tensor_of(np.asarray(found), _dtype.int32 if out_int32 else _dtype.int64)


def bucketize(x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """searchsorted with the arguments the other way round."""
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


def isin(elements: Tensor, test_elements: Any, *, invert: bool = False) -> Tensor:
    """Whether each element is among the test elements."""
    return tensor_of(np.isin(array_of(elements), array_of(test_elements), invert=invert))


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Found:
    """(values, indices) of what stands most often along a dim; the smallest of such, and its last place."""
    if not x.ndim:
        found = mode(x.reshape(1), dim, True)
        return Found(found.values.reshape(()), found.indices.reshape(()))
    d = normalize_dim(dim, x.ndim, "mode")
    array = np.moveaxis(array_of(x), d, -1)
    counts = (array[..., :, None] == array[..., None, :]).sum(-1)
    best = counts == counts.max(-1, keepdims=True)
    values = np.where(best, array, array.max() if array.size else 0).min(-1, keepdims=True)
    last = array.shape[-1] - 1 - np.argmax((array == values)[..., ::-1], -1)
    indices = tensor_of(np.moveaxis(last[..., None], -1, d), _dtype.int64)
    found = x.gather(d, indices)
    return Found(found, indices) if keepdim else Found(found.squeeze(d), indices.squeeze(d))


def msort(x: Tensor) -> Tensor:
    """Sorted along dim 0."""
    return x.sort(0)[0]


def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The flattened elements (or slices along a dim) without repetitions of neighbours; with the place of each, and the
    counts."""
    array = array_of(x)
    d = 0 if dim is None else normalize_dim(dim, x.ndim, "unique_consecutive")
    rows = array.reshape(-1) if dim is None else np.moveaxis(array, d, 0)
    size = rows.shape[0]
    starts = np.zeros(0, np.int64)
    if size:
        starts = np.flatnonzero(np.r_[True, (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))])
    results = [tensor_of(np.moveaxis(rows[starts], 0, d), x.dtype)]
    counts = np.diff(np.r_[starts, size]).astype("int64")
    if return_inverse:
        places = np.repeat(np.arange(len(starts), dtype=np.int64), counts.astype(np.intp))
        results.append(tensor_of(places.reshape(x.shape) if dim is None else places))
    if return_counts:
        results.append(tensor_of(counts))
    return tuple(results) if len(results) > 1 else results[0]


def std_mean(x: Tensor, dim: Any = None, correction: int = 1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """(std, mean) over dims."""
    return x.std(dim, correction, keepdim), x.mean(dim, keepdim)


def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """log of the running sum of exp along a dim, stable."""
    if not x.numel():
        return x.clone()
    top = x.detach().amax(dim, True)
    safe = where(top.isfinite(), top, 0.0)
    return (x - safe).exp().cumsum(dim).log() + safe


def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of what is not NaN; along a dim, (values, indices)."""
    if dim is None:
        return nanmedian(x.reshape(-1), 0)[0] if x.numel() else x.new_full((), float("nan"))
    d = normalize_dim(dim, x.ndim, "nanmedian")
    count = _sum(x.isnan().logical_not(), d, True)
    order = x.detach().argsort(d)
    rank = where(count > 0, (count - 1).floor_divide(2), 0)
    indices = order.gather(d, rank)
    values = x.gather(d, indices)
    return Found(values, indices) if keepdim else Found(values.squeeze(d), indices.squeeze(d))


def nanquantile(x: Tensor, q: float, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The q-quantile (linear) of what is not NaN, along a dim or of all elements; NaN where there is nothing else."""
    if not 0 <= q <= 1:
        raise ValueError(f"nanquantile: q must be a number in 0 .. 1, got {q}")
    if dim is None:
        found = nanquantile(x.reshape(-1), q, 0)
        return found.reshape((1,) * x.ndim) if keepdim else found
    d = normalize_dim(dim, x.ndim, "nanquantile")
    count = _sum(x.isnan().logical_not(), d, True)
    ordered = x.gather(d, x.detach().argsort(d))  # NaN last
    place = (count - 1).clamp(0).to("float64") * q
    low = place.floor().to("int64")
    high = (low + 1).minimum((count - 1).clamp(0))
    first, second = ordered.gather(d, low), ordered.gather(d, high)
    share = (place - low.to("float64")).to(x.dtype)
    value = where(share == 0, first, first + (second - first) * share)
    return value if keepdim else value.squeeze(d)


# -- a part of a tensor replaced, out of place


def _with_part(name: str, x: Tensor, src: Tensor, part_of: Callable[[Tensor], Tensor]) -> Tensor:
    """A copy of x with src in the place that a view of it shows."""
    whole = x.clone()
    part = part_of(whole)
    if src.shape != part.shape:
        raise ValueError(f"{name}: {describe(src)} does not have the shape of that part of {describe(x)}, {part.shape}")
    part.copy_(src.to(x.dtype))
    return whole


def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of x with src, in the shape of x.diagonal(offset, dim1, dim2), there."""
    return _with_part("diagonal_scatter", x, src, lambda whole: diagonal(whole, offset, dim1, dim2))


def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of x with src at an index of a dim."""
    return _with_part("select_scatter", x, src, lambda whole: whole.select(dim, index))


def slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of x with src in start:end:step of a dim."""
    entries = (slice(None),) * normalize_dim(dim, x.ndim, "slice_scatter") + (slice(start, end, step),)
    return _with_part("slice_scatter", x, src, lambda whole: whole[entries])


for _function in (
    diagonal_scatter, index_fill, index_copy, index_put, masked_scatter, take, scatter_reduce, bincount, histc, mode,
    msort, unique_consecutive, logcumsumexp, nanmedian, nanquantile, select_scatter, slice_scatter,
):  # fmt: skip
    setattr(Tensor, _function.__name__, _function)
for _name in ("index_fill", "index_copy", "index_put", "masked_scatter", "scatter_reduce"):
    setattr(Tensor, _name + "_", in_place(_name, False))

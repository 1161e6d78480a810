"""Counts of values: histograms, unique, isin."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

from ...errors import UnsupportedTypeError
from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..operands import refuse_complex
from ..return_types import printed_as
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .sorted_search import by_the_host


@function(method=True)
@by_the_host
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements (or slices along a dim) in order; optionally the index of each element in them,
    and counts.
    """
    refuse_complex("unique", x)
    axis = None if dim is None else normalize_dim(dim, x.ndim, "unique")
    array = array_of(x)
    by_count = axis is None and _unique_by_count(array, return_inverse)
    if by_count:
        values, inverse, counts = by_count
    elif axis is None and not (return_inverse or return_counts):
        values = np.sort(array, axis=None)
        values = values[np.r_[True, values[1:] != values[:-1]]] if values.size else values
    else:
        values, inverse, counts = np.unique(array, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    found = [tensor_of(values, x.dtype)]
    if return_inverse:
        found.append(tensor_of(inverse.reshape(x._shape if axis is None else (x._shape[axis],)), _dtype.int64))
    if return_counts:
        found.append(tensor_of(counts, _dtype.int64))
    return found[0] if len(found) == 1 else tuple(found)


def _unique_by_count(array: Any, with_inverse: bool) -> Any:
    """(values, inverse or None, counts) of integers that lie in a range no longer than their number; else None."""
    if array.dtype == bool and array.size and not with_inverse:
        true = int(np.count_nonzero(array))
        counts = np.array([array.size - true, true])
        return np.flatnonzero(counts).astype(bool), None, counts[counts > 0]
    if array.dtype.kind not in "iu" or not array.size:
        return None
    least, most = int(array.min()), int(array.max())
    if most - least >= array.size or most >= 1 << 62 or least < -(1 << 62):
        return None
    places = (array.reshape(-1).astype(np.int64) - least).astype(np.intp)
    counts = np.bincount(places)
    present = np.flatnonzero(counts)
    inverse = (np.cumsum(counts > 0) - 1)[places] if with_inverse else None
    return present.astype(np.int64) + least, inverse, counts[present]


@function(method=True)
@by_the_host
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """The count of each integer 0, 1, … in a vector (int64), or the sums of weights."""
    if x.ndim != 1 or x.dtype.category != 1:
        raise UnsupportedTypeError(f"bincount: takes a vector of integers, got {describe(x)}")
    if minlength < 0:
        raise ValueError(f"bincount: minlength is at least 0, not {minlength}")
    places = x.array().astype(np.intp, copy=False)
    # Of nothing int64 in any case, as in torch.
    weights = weights if places.size else None
    kind = _dtype.float32 if weights is not None and weights.dtype is _dtype.float32 else _dtype.float64
    given = None if weights is None else array_of(weights)
    try:
        return tensor_of(np.bincount(places, given, minlength), _dtype.int64 if weights is None else kind)
    except ValueError:
        if places.size and places.min() < 0:  # which NumPy looks for, too
            raise ValueError(f"bincount: {places.min()} is negative") from None
        raise


@function(method=True)
@by_the_host
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts in equal bins from min to max; if both are equal, from the smallest to the largest element."""
    refuse_complex("histc", x)
    values = array_of(x, _dtype.float64).reshape(-1)  # NumPy would warn of bools
    low, high = float(min), float(max)
    if low == high and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 1, high + 1
    bins = index(bins)
    if bins < 1 or low > high:
        raise ValueError(f"histc: cannot make {bins} bins from {low} to {high}")
    counts, _ = np.histogram(values, bins, (low, high))
    return tensor_of(counts.astype("float64"), x.dtype)


@function()
@by_the_host
def isin(elements: Tensor, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among the test elements; `assume_unique` changes no result, as in torch."""
    return tensor_of(np.isin(array_of(elements), array_of(test_elements), invert=invert))


@function(method=True)
@by_the_host
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The flattened elements (or slices along a dim) without repetitions of neighbours; optionally the index of each
    element in them, and counts.
    """
    array = array_of(x)
    d = 0 if dim is None else normalize_dim(dim, x.ndim, "unique_consecutive")
    rows = array.reshape(-1) if dim is None else np.moveaxis(array, d, 0)
    size = rows.shape[0]
    differ = rows[1:] != rows[:-1]
    changes = np.flatnonzero(differ if rows.ndim == 1 else differ.any(axis=tuple(range(1, rows.ndim)))) + 1
    starts = np.concatenate([np.zeros(int(size > 0), np.int64), changes])
    results = [tensor_of(np.moveaxis(rows[starts], 0, d), x.dtype)]
    if return_inverse or return_counts:
        counts = np.diff(starts, append=size).astype("int64")
    if return_inverse:
        places = np.repeat(np.arange(len(starts), dtype=np.int64), counts.astype(np.intp))
        results.append(tensor_of(places.reshape(x._shape) if dim is None else places))
    if return_counts:
        results.append(tensor_of(counts))
    return tuple(results) if len(results) > 1 else results[0]


@printed_as("histogram")
class Histogram(NamedTuple):
    """The counts, and the edges of the bins."""

    hist: Tensor
    bin_edges: Tensor


@function(method=True)
@by_the_host
def histogram(
    x: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """(counts, edges) of the elements: `bins` of equal width over `range`, or between given edges."""
    edges = array_of(bins) if isinstance(bins, Tensor) else bins
    weights = None if weight is None else array_of(weight).reshape(-1)
    limits = None if range is None else (range[0], range[1])
    found, at = np.histogram(array_of(x).reshape(-1), edges, limits, weights=weights, density=density)
    return Histogram(tensor_of(found, x.dtype), tensor_of(at, x.dtype))


@printed_as("histogramdd")
class HistogramOfPoints(NamedTuple):
    """The counts, or sums of weights, in boxes, and the edges along each dim."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


@function()
@by_the_host
def histogramdd(
    x: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False
) -> HistogramOfPoints:
    """(counts, edges) of points (..., D) in D dims: a number of `bins` for all dims or for each, over `range` (the
    least and the largest of each dim in turn), or edges for each dim.
    """
    if x.ndim < 2:
        raise ValueError(f"histogramdd: takes points (..., D), not {describe(x)}")
    dims = x._shape[-1]
    if not isinstance(bins, int):
        bins = [array_of(part) if isinstance(part, Tensor) else part for part in bins]
        if len(bins) != dims:
            raise ValueError(f"histogramdd: {describe(x)} has points of {dims} dims, and bins are for {len(bins)}")
    if range is not None and len(range) != 2 * dims:
        raise ValueError(f"histogramdd: range takes {2 * dims} numbers for {dims} dims, not {len(range)}")
    limits = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    weights = None if weight is None else array_of(weight).reshape(-1)
    found, edges = np.histogramdd(array_of(x).reshape(-1, dims), bins, limits, weights=weights, density=density)
    return HistogramOfPoints(tensor_of(found, x.dtype), tuple(tensor_of(part, x.dtype) for part in edges))

"""Write elements by index: scatter, index_add, index_put and their relatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from ..declare import function, method
from ..dtype import bool_, uint8
from ..lazy import np
from ..numpy_arrays import array_of, combine_at, tensor_of
from ..op import primitive
from ..operands import check_number, refuse_complex, same_device
from ..shape import broadcast_shapes, normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .create import arange, ones, zeros
from .diagonals import diagonal
from .elementwise.select import where
from .index import _put, _take_back
from .padding import pad
from .selection import _grid, _index_array
from .sorted_search import searchsorted
from .view import as_strided, expand, reshape


def _d_source(g: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """g at the index for the entries of the source that are used, zeros for the rest."""
    if not index.numel():
        return zeros(source._shape, dtype=g.dtype, device=g.device)
    part = g.gather(dim, index)
    if not source.ndim:
        return reshape(part, ())
    return pad(
        part, [n for size, had in zip(source._shape[::-1], part._shape[::-1], strict=True) for n in (0, size - had)]
    )


@function(method=True, in_place=True)
@primitive(vjp=lambda g, _, x, dim, index, src: (g, None, None, _d_source(g, dim, index, src)), saves="none")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """x with src added at index along dim; equal indices add up."""
    if src.dtype is not x.dtype:
        raise TypeError(f"scatter_add: {describe(x)} and the source {describe(src)} differ in dtype")
    d = normalize_dim(dim, x.ndim, "scatter_add")
    result = array_of(x).copy()
    if not index.numel():  # of any number of dims, as in torch
        return tensor_of(result, x.dtype)
    found = _index_array("scatter_add", x, d, index)
    values = np.atleast_1d(array_of(src))
    combine_at(np.add, np.atleast_1d(result), _grid(found, d), values[tuple(slice(n) for n in found.shape)])
    return tensor_of(result, x.dtype)


def _d_scatter(g: Tensor, _: Any, x: Tensor, dim: int, index: Tensor, source: Any) -> Any:
    hole = scatter(g, dim, index, 0.0)
    reads = isinstance(source, Tensor) and source.ndim >= index.ndim
    return hole, None, None, _d_source(g, dim, index, source) if reads else None


@function(method=True, in_place=True)
@primitive(vjp=_d_scatter, saves="none")
def scatter(x: Tensor, dim: int, index: Tensor, source: Any) -> Tensor:
    """x with source (a tensor or a number) written at index along dim."""
    if isinstance(source, Tensor) and source.dtype is not x.dtype:
        raise TypeError(f"scatter: {describe(x)} and the source {describe(source)} differ in dtype")
    check_number("scatter", source, x.dtype)
    d = normalize_dim(dim, x.ndim, "scatter")
    result = array_of(x).copy()
    if not index.numel():
        return tensor_of(result, x.dtype)
    found = _index_array("scatter", x, d, index)
    values = array_of(source)
    if values.ndim and (
        values.ndim != found.ndim or any(n < m for n, m in zip(values.shape, found.shape, strict=True))
    ):
        raise ValueError(f"scatter: the source {describe(source)} does not cover the index {describe(index)}")
    np.atleast_1d(result)[_grid(found, d)] = values[tuple(slice(n) for n in found.shape)] if values.ndim else values
    return tensor_of(result, x.dtype)


def _scatter_by_name(
    x: Tensor, dim: int, index: Tensor, src: Any = None, value: Any = None, reduce: str | None = None
) -> Tensor:
    source = value if src is None else src
    if reduce is None:
        return scatter(x, dim, index, source)
    if reduce not in ("add", "multiply"):
        raise ValueError(f"scatter: reduce is 'add' or 'multiply', not {reduce!r}")
    if not isinstance(source, Tensor):
        source = x.new_full(index._shape, source)
    return scatter_reduce(x, dim, index, source, "sum" if reduce == "add" else "prod")


scatter.by_name = _scatter_by_name


@primitive(
    vjp=lambda g, _, x, dim, index, source: (g, None, None, g.index_select(dim, index)), saves="none", name="_index_add"
)
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    result = array_of(x).copy()
    where: Any = (slice(None),) * dim + (index.array().astype(np.int64),)
    combine_at(np.add, result, where, array_of(source))
    return tensor_of(result, x.dtype)


def add_rows(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    """x (n, ...) with rows (count, ...) added at an index (count,), which is within it: x itself where a kernel can. x
    is the caller's own.
    """
    claim = _index_add.claim_in_place
    if claim is not None and claim(x, 0, index, rows):
        return x
    found: Tensor = _index_add(x, 0, index, rows)
    return found


@function(method=True, in_place=True)
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float = 1) -> Tensor:
    """x with the entries of source along dim added at a 1-dim index; equal indices add up."""
    d = normalize_dim(dim, x.ndim, "index_add")
    same_device("index_add", x, index, source)
    index = reshape(index, 1) if index.ndim == 0 else index
    if x.ndim <= 1:
        source = reshape(source, 1) if source.ndim == 0 else source
        if not x.ndim:
            return reshape(index_add(reshape(x, 1), 0, index, source, alpha), ())
    if index.dtype.category != 1 or index.ndim != 1:
        raise TypeError(f"index_add: the index must be a vector of integers, got {describe(index)}")
    if source.dtype is not x.dtype:
        raise TypeError(f"index_add: {describe(x)} and the source {describe(source)} differ in dtype")
    if source._shape != (*x._shape[:d], index._shape[0], *x._shape[d + 1 :]):
        raise ValueError(
            f"index_add: the source {describe(source)} does not fit {describe(x)} at {index.shape[0]} "
            f"indices of dim {dim}"
        )
    array = index.array_to_check()
    if _is_outside(array, x._shape[d]):
        raise IndexError(
            f"index_add: index values {array.min()} .. {array.max()} are outside dim {dim} of {describe(x)}"
        )
    if alpha != 1:  # of integers, a whole number
        source = source * (alpha if x.dtype.has_gradient else int(alpha))
    return _index_add(x, d, index, source.to(x.dtype))


def _is_outside(index: Any, size: int) -> bool:
    """Whether one of an array of integers is negative, which is large without a sign, or not below the size."""
    return bool(index.size and index.view(f"u{index.itemsize}").max() >= size)


def _along(x: Tensor, dim: int, index: Tensor, name: str) -> tuple[Any, ...]:
    """An index of every dim of x."""
    d = normalize_dim(dim, x.ndim, name)
    if index.dtype.category != 1 or index.ndim > 1:
        raise TypeError(f"{name}: the index must be a vector of integers, got {describe(index)}")
    array, size = index.array_to_check(), x._shape[d]
    if _is_outside(array, size) and (name != "index_fill" or array.min() < -size or array.max() >= size):
        raise IndexError(f"{name}: index values {array.min()} .. {array.max()} are outside dim {dim} of {describe(x)}")
    return (slice(None),) * d + (index if index.ndim else index.reshape(1),) + (slice(None),) * (x.ndim - 1 - d)


@function(method=True, in_place=True)
def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """x with one value at the entries of a dim that a vector of integers names."""
    if not x.ndim:
        return reshape(index_fill(reshape(x, 1), dim, index, value), ())
    places = _along(x, dim, index, "index_fill")
    if isinstance(value, Tensor) and value.requires_grad and not value.ndim:  # equal indices are one place
        chosen = zeros(x._shape[dim], dtype=bool_, device=x.device)
        d = normalize_dim(dim, x.ndim, "index_fill")
        chosen[places[d]] = True
        return where(reshape(chosen, (-1,) + (1,) * (x.ndim - 1 - d)), value.to(x.dtype), x)
    return _put(x, value, places)


@function(method=True, in_place=True)
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x with the entries of source along dim at a vector of integers."""
    if x.ndim <= 1:
        source = reshape(source, 1) if source.ndim == 0 else source
        if not x.ndim:
            return reshape(index_copy(reshape(x, 1), dim, index, source), ())
    where_ = _along(x, dim, index, "index_copy")
    d = normalize_dim(dim, x.ndim, "index_copy")
    if source._shape != (*x._shape[:d], index.numel(), *x._shape[d + 1 :]):
        raise ValueError(
            f"index_copy: the source {describe(source)} does not fit {describe(x)} at {index.numel()} indices"
        )
    return _put(x, source, where_)


@function(method=True, in_place=True)
def index_put(x: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """x with values at x[indices]; with `accumulate` added, equal indices adding up."""
    index = tuple(i != 0 if isinstance(i, Tensor) and i.dtype is uint8 else i for i in indices)  # masks
    if not accumulate:
        return _put(x, values, index)

    entries = (*index, *(slice(None),) * (x.ndim - sum(i.ndim if i.dtype is bool_ else 1 for i in index)))
    shape = x.detach()[index]._shape
    return x + _take_back(expand(values, shape), x._shape, entries)


@function(method=True, in_place=True)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """x with the first elements of source, in order, where the mask holds."""
    if mask.dtype is not bool_:
        raise TypeError(f"masked_scatter: the mask is a tensor of bools, not {describe(mask)}")
    shape = broadcast_shapes(x._shape, mask._shape, op="masked_scatter")
    wide, seen = expand(x, shape), expand(mask, shape)
    count = int(seen.sum())
    if source.numel() < count:
        raise ValueError(f"masked_scatter: the mask holds {count} times, {describe(source)} has fewer elements")
    return _put(wide, source.reshape(-1)[:count], seen)


REDUCTIONS = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}  # NumPy's function, and the kernel's opcode


@primitive(name="_scatter_extreme", saves="both")
def _scatter_extreme(x: Tensor, source: Tensor, dim: int, index: Tensor, reduce: str, include_self: bool) -> Tensor:
    """prod, amax or amin of the values at each element."""
    if reduce != "prod":
        refuse_complex("scatter_reduce", x, source)
    found = _index_array("scatter_reduce", x, dim, index)
    values = np.atleast_1d(array_of(source, x.dtype))[tuple(slice(n) for n in found.shape)]
    whole = array_of(x).copy()
    result = np.atleast_1d(whole)
    if not include_self:
        kind = result.dtype
        lowest = np.iinfo(kind).min if kind.kind in "iu" else -np.inf
        highest = np.iinfo(kind).max if kind.kind in "iu" else np.inf
        result[_grid(found, dim)] = {"prod": 1, "amax": lowest, "amin": highest}[reduce]
    combine_at(getattr(np, REDUCTIONS[reduce]), result, _grid(found, dim), values)
    return tensor_of(whole, x.dtype)


@_scatter_extreme.gradient
def _d_scatter_extreme(
    g: Tensor, y: Tensor, x: Tensor, source: Tensor, dim: int, index: Tensor, reduce: str, include_self: bool
) -> Any:
    """prod: the product of the others; amax, amin: shared by equals."""
    part = source[tuple(slice(n) for n in index._shape)] if index.ndim == source.ndim else reshape(source, index._shape)
    own: Tensor | float = 1.0 if include_self else (~_touched(x, dim, index)).to(g.dtype)
    if reduce == "prod":
        zero, hole = (part == 0).to(g.dtype), (x == 0).to(g.dtype) * own
        if bool(zero.any()) or bool(hole.any()):  # the product of the others, where one factor is 0
            whole = where(x == 0, 1.0, x) if include_self else where(_touched(x, dim, index), 1.0, x)
            rest = _scatter_extreme(whole, where(part == 0, 1.0, part), dim, index, "prod", True)
            count = zeros(y._shape, dtype=g.dtype, device=g.device).scatter_add(dim, index, zero) + hole
            alone = g * where(count == 1, rest, 0.0)
            usual = g * where(count == 0, rest, 0.0)
            g_x = where(x == 0, alone, usual / where(x == 0, 1.0, x)) * own
            g_part = where(part == 0, alone.gather(dim, index), usual.gather(dim, index) / where(part == 0, 1.0, part))
        else:
            g_x, g_part = g * y / x * own, (g * y).gather(dim, index) / part
    else:
        hit_x, hit = (x == y).to(g.dtype) * own, (part == y.gather(dim, index)).to(g.dtype)
        shares = g / zeros(y._shape, dtype=g.dtype, device=g.device).scatter_add(dim, index, hit).add(hit_x).clamp(1.0)
        g_x, g_part = shares * hit_x, shares.gather(dim, index) * hit
    if not include_self:
        g_x = where(_touched(x, dim, index), 0, g)
    if part.ndim != source.ndim:
        g_part = reshape(g_part, source._shape)
    elif part._shape != source._shape:
        widths = [n for a, b in zip(reversed(source._shape), reversed(part._shape), strict=True) for n in (0, a - b)]
        g_part = pad(g_part, widths)
    return g_x, g_part


def _touched(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return _hits(x, dim, index) > 0


def _hits(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """How often each element of x is hit, as float32; dims along which an index is repeated have one element."""
    shape = list(x._shape)
    for d, stride in enumerate(index.strides):
        if d != dim and not stride and index._shape[d] == shape[d]:
            index, shape[d] = index.narrow(d, 0, 1), 1
    return zeros(shape, device=x.device).scatter_add(dim, index, ones(index._shape, device=x.device))


@function(method=True, in_place=True)
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """x with source reduced in at index along dim: reduce "sum", "mean", "prod", "amax" or "amin" ("max" and "min" are
    the same, as in torch); without `include_self` the elements of x that are hit do not count.
    """
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("sum", "mean", *REDUCTIONS):
        raise ValueError(f"scatter_reduce: reduce is sum, mean, prod, amax or amin, not {reduce!r}")
    d = normalize_dim(dim, x.ndim, "scatter_reduce")
    if not index.numel():
        return x + src.reshape(-1)[:0].sum() if src.requires_grad else x._row_major()
    if x.dtype is bool_:
        bytes_of = scatter_reduce(x.to(uint8), d, index, src.to(uint8), reduce, include_self=include_self)
        return bytes_of.to(bool_)
    if reduce in REDUCTIONS:
        return _scatter_extreme(x, src, d, index, reduce, include_self)
    hits = None if include_self and reduce == "sum" else _hits(x, d, index)
    base = x if include_self or hits is None else where(hits > 0, 0, x)  # also where x is NaN or infinite
    total = base.scatter_add(d, index, src)
    if reduce == "sum" or hits is None:
        return total

    if total.requires_grad:
        refuse_complex("scatter_reduce", x, src)  # as in torch, where means of them have no gradient
    count = (hits + 1.0 if include_self else hits).clamp(1.0).to(x.dtype)
    return total / count if x.dtype.has_gradient else total.floor_divide(count)


def _with_part(name: str, x: Tensor, src: Tensor, part_of: Callable[[Tensor], Tensor]) -> Tensor:
    """A copy of x with src written to a view of it."""
    whole = x.clone()
    part = part_of(whole)
    if src._shape != part._shape:
        raise ValueError(f"{name}: {describe(src)} does not have the shape of that part of {describe(x)}, {part.shape}")
    part.copy_(src.to(x.dtype))
    return whole


@function(method=True)
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of x with src written to x.diagonal(offset, dim1, dim2)."""
    return _with_part("diagonal_scatter", x, src, lambda whole: diagonal(whole, offset, dim1, dim2))


@function(method=True)
def as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of x, which is dense, with src written to x.as_strided(size, stride, storage_offset)."""
    return _with_part("as_strided_scatter", x, src, lambda whole: as_strided(whole, size, stride, storage_offset))


@function(method=True)
def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of x with src at an index of a dim."""
    return _with_part("select_scatter", x, src, lambda whole: whole.select(dim, index))


@function(method=True)
def slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of x with src in start:end:step of a dim."""
    entries = (slice(None),) * normalize_dim(dim, x.ndim, "slice_scatter") + (slice(start, end, step),)
    return _with_part("slice_scatter", x, src, lambda whole: whole[entries])


@function(method=True)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """x with the elements of source, in order, at indices into the flattened x; with `accumulate` they are added."""
    flat = index_put(x.reshape(-1), (index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x._shape)


@method("put_")
def _put_in_place(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    return x.copy_(put(x._row_major(), index, source, accumulate))


@function(method=True, in_place=True)
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """scatter_reduce of whole slices along a dim: "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ValueError(f"index_reduce: the reduction is prod, mean, amax or amin, not {reduce!r}")
    d = normalize_dim(dim, x.ndim, "index_reduce")
    if not x.ndim:
        return index_reduce(x.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self).reshape(())
    shape = [1] * max(x.ndim, 1)
    shape[d] = -1
    at = index.to("int64").reshape(shape).expand(*source._shape)
    return scatter_reduce(x, d, at, source, reduce, include_self=include_self)


_SEGMENTS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "prod": ("prod", 1.0),
    "max": ("amax", -inf),
    "min": ("amin", inf),
}


@function()
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, offsets: Tensor | None = None, axis: int = 0,
    unsafe: bool = False, initial: float | None = None,
) -> Tensor:  # fmt: skip
    """Pieces along `axis`, one after the other, each reduced to an element: "sum", "mean", "prod", "max" or "min" of
    floating-point data (*B, N, ...) with lengths (*B, S), or offsets (*B, S + 1) → (*B, S, ...). `initial` takes part
    in each. An empty piece is `initial`, or else what changes no result; its mean NaN. ValueError where the lengths do
    not fill the axis, which `unsafe` does not check.
    """
    if reduce not in _SEGMENTS:
        raise ValueError(f"segment_reduce: reduce is {', '.join(_SEGMENTS)}, not {reduce!r}")
    d = normalize_dim(axis, data.ndim, "segment_reduce")
    if lengths is None and offsets is None:
        raise ValueError("segment_reduce: takes lengths or offsets of the pieces")
    sizes: Tensor = lengths if lengths is not None else offsets.diff()  # type: ignore[union-attr]
    batch, count = data._shape[:d], data._shape[d]
    if sizes._shape[:-1] != batch:
        raise ValueError(f"segment_reduce: along dim {d} of {describe(data)} the lengths are {batch + ('S',)}, "
                         f"not {describe(sizes)}")  # fmt: skip
    if not unsafe and not bool(((sizes >= 0).all(-1) & (sizes.sum(-1) == count)).all()):
        raise ValueError(f"segment_reduce: the lengths are at least 0 and add up to {count}, the size of dim {d}")
    kind, neutral = _SEGMENTS[reduce]
    pieces, rest = sizes._shape[-1], data._shape[d + 1 :]
    places = arange(count, device=data.device).expand(*batch, count).contiguous()
    at = searchsorted(sizes.cumsum(-1), places, right=True)
    index = at.reshape(*batch, count, *(1,) * len(rest)).expand(data._shape)
    start = data.new_full((*batch, pieces + 1, *rest), neutral if initial is None else initial)
    found = start.scatter_reduce(d, index, data, kind).narrow(d, 0, pieces)  # what is beyond the last piece is dropped
    if reduce != "mean":
        return found
    each = sizes.reshape(*batch, pieces, *(1,) * len(rest))
    empty_mean = float("nan") if initial is None else initial
    return where(each > 0, found / each.clamp(min=1), empty_mean)

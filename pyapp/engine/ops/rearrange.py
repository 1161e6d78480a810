"""More shape and index ops: windows, padding, rolling, diagonals, grids, selections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import UnsupportedValueError
from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, primitive, view_op
from ..shape import as_shape, broadcast_shapes, contiguous_strides, infer_shape, normalize_dim
from ..tensor import Tensor
from .base import array_of, computed, same_device, tensor_of
from .view import _alias, _no_blocks, _spread, cat, expand, narrow, permute, place_back, repeat, reshape, transpose


def _int64(values: Any) -> Tensor:
    return tensor_of(np.asarray(values, dtype=np.int64), _dtype.int64)


# -- windows: what unfold, convolutions and pooling look through


def _d_windows(g: Tensor, _: Any, x: Tensor, dim: int, size: int, step: int, dilation: int) -> Any:
    return (_add_windows(g, x.shape[dim], dim, step, dilation),)


@view_op(_d_windows, "_windows")
def _windows(x: Tensor, dim: int, size: int, step: int, dilation: int) -> Tensor:
    """A view: dim counts the windows, a new last dim holds the `size` elements of each, `dilation` apart."""
    _no_blocks(x, "unfold")
    count = (x.shape[dim] - (size - 1) * dilation - 1) // step + 1
    stride = x.strides[dim]
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    return _alias(x, shape, (*x.strides[:dim], stride * step, *x.strides[dim + 1 :], stride * dilation))


def _d_add_windows(g: Tensor, _: Any, windows: Tensor, total: int, dim: int, step: int, dilation: int) -> Any:
    return (_windows(g, dim, windows.shape[-1], step, dilation),)


@primitive(vjp=_d_add_windows, saves="none", name="_add_windows", method=False)
def _add_windows(windows: Tensor, total: int, dim: int, step: int, dilation: int) -> Tensor:
    """The transpose of _windows: each window's elements added where they came from, in a dim of `total`."""
    computed("unfold")
    array = np.moveaxis(array_of(windows), dim, -2)
    whole = np.zeros((*array.shape[:-2], total), array.dtype)
    count = array.shape[-2]
    for i in range(array.shape[-1]):
        whole[..., i * dilation : i * dilation + (count - 1) * step + 1 : step] += array[..., i]
    return tensor_of(np.ascontiguousarray(np.moveaxis(whole, -1, dim)), windows.dtype)


def windows(x: Tensor, dim: int, size: int, step: int, dilation: int = 1, name: str = "unfold") -> Tensor:
    """_windows, checked: at least one window must fit."""
    d = normalize_dim(dim, x.ndim, name)
    if size < 1 or step < 1 or dilation < 1:
        raise ValueError(f"{name}: size {size}, step {step} and dilation {dilation} must be positive")
    if (size - 1) * dilation + 1 > x.shape[d]:
        raise ValueError(f"{name}: a window of {(size - 1) * dilation + 1} does not fit dim {dim} of {describe(x)}")
    return _windows(x, d, size, step, dilation)


def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` along a dim, `step` apart: a view, with the elements of each in a new last dim."""
    return windows(x, dimension, size, step)


# -- padding and rolling


def _d_pad(g: Tensor, _: Any, x: Tensor, widths: tuple[tuple[int, int], ...], value: float) -> Any:
    for dim, (before, _after) in enumerate(widths):
        g = narrow(g, dim, before, x.shape[dim])
    return (g,)


@primitive(vjp=_d_pad, saves="none", name="_pad", method=False)
def _pad(x: Tensor, widths: tuple[tuple[int, int], ...], value: float) -> Tensor:
    computed("pad")
    return tensor_of(np.pad(array_of(x), widths, constant_values=value), x.dtype)


def _positions(mode: str, size: int, before: int, after: int, x: Tensor) -> Any:
    """Which elements of a dim the padded dim shows."""
    limit = {"reflect": size - 1, "circular": size, "replicate": before + after if size else 0}[mode]
    if max(before, after) > limit:
        raise ValueError(f"pad: {before} and {after} are too wide for mode {mode!r} on {describe(x)}")
    at = np.arange(-before, size + after, dtype=np.int64)
    if mode == "replicate":
        return np.clip(at, 0, size - 1)
    if mode == "circular":
        return at % size
    at = np.abs(at)
    return np.where(at >= size, 2 * (size - 1) - at, at)


def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Widens dims by (before, after) pairs, the last dim's first; negative widths cut.

    mode: "constant" (with `value`, 0 by default), "reflect", "replicate" or "circular".
    """
    widths, given = [int(n) for n in pad], x
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise ValueError(f"pad: {tuple(widths)} does not name pairs for the dims of {describe(x)}")
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise UnsupportedValueError(f"pad: mode is constant, reflect, replicate or circular, not {mode!r}")
    pairs = [(0, 0)] * x.ndim
    for i in range(0, len(widths), 2):
        dim, before, after = x.ndim - 1 - i // 2, widths[i], widths[i + 1]
        if before < 0 or after < 0:
            kept = x.shape[dim] + min(before, 0) + min(after, 0)
            if kept < 0:
                raise ValueError(f"pad: {before} and {after} cut more than dim {dim} of {describe(x)} has")
            x = narrow(x, dim, max(-before, 0), kept)
            before, after = max(before, 0), max(after, 0)
        if mode != "constant" and (before or after):
            x = x.index_select(dim, _int64(_positions(mode, x.shape[dim], before, after, x)))
        pairs[dim] = (before, after)
    if mode == "constant" and any(sum(p) for p in pairs):
        return _pad(x, tuple(pairs), 0 if value is None else value)
    return x.clone() if x.storage is given.storage else x


def _d_roll(g: Tensor, _: Any, x: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    return (_roll(g, tuple(-s for s in shifts), dims),)


@primitive(vjp=_d_roll, saves="none", name="_roll", method=False)
def _roll(x: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    computed("roll")
    return tensor_of(np.roll(array_of(x), shifts, dims), x.dtype)


def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Shifts elements along dims, round the end; without dims, along the flattened tensor."""
    by = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if dims is None:
        if len(by) != 1:
            raise ValueError(f"roll: shifts {by} need dims for {describe(x)}")
        return reshape(_roll(reshape(x, -1), by, (0,)), x.shape)
    named = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(named) != len(by):
        raise ValueError(f"roll: shifts {by} and dims {named} differ in number")
    return _roll(x, by, tuple(normalize_dim(d, x.ndim, "roll") for d in named))


# -- repetition, order and grids


def tile(x: Tensor, *times: Any, dims: Any = None) -> Tensor:
    """repeat, where missing counts are one."""
    counts = as_shape(times if dims is None else dims)
    return repeat(x, (1,) * (x.ndim - len(counts)) + counts)


def repeat_interleave(x: Tensor, repeats: int | Tensor | None = None, dim: int | None = None) -> Tensor:
    """Each entry of a dim `repeats` times (one number, or one for each entry); flattened without a dim. Of a vector of
    counts alone: each place as often as that says."""
    if repeats is None:
        x, repeats = _int64(np.arange(x.shape[0])), x
    if dim is None:
        x, dim = reshape(x, -1), 0
    size = x.shape[normalize_dim(dim, x.ndim, "repeat_interleave")]
    counts = array_of(repeats).astype(np.int64).reshape(-1)
    if counts.size not in (1, size) or (counts < 0).any():
        raise ValueError(f"repeat_interleave: repeats {describe(repeats)} do not fit dim {dim} of {describe(x)}")
    return x.index_select(dim, _int64(np.repeat(np.arange(size), counts.astype(np.intp))))


def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Moves dims to other places; the rest keep their order."""
    origin = [normalize_dim(d, x.ndim, "movedim") for d in ((source,) if isinstance(source, int) else source)]
    target = [
        normalize_dim(d, x.ndim, "movedim") for d in ((destination,) if isinstance(destination, int) else destination)
    ]
    if len(origin) != len(target) or len(set(origin)) != len(origin) or len(set(target)) != len(target):
        raise ValueError(f"movedim: {source} and {destination} must name equally many distinct dims")
    rest = iter(d for d in range(x.ndim) if d not in origin)
    places = dict(zip(target, origin, strict=True))
    return permute(x, tuple(places[i] if i in places else next(rest) for i in range(x.ndim)))


def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Splits a dim into several; one size may be -1."""
    d = normalize_dim(dim, x.ndim, "unflatten")
    return reshape(x, x.shape[:d] + infer_shape(sizes, x.shape[d], "unflatten") + x.shape[d + 1 :])


def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dim, which goes away."""
    d = normalize_dim(dim, x.ndim, "unbind")
    if not x.ndim:
        raise ValueError("unbind: a 0-dim tensor has no dim to take apart")
    return tuple(x[(slice(None),) * d + (i,)] for i in range(x.shape[d]))


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Each tensor expanded to the common shape."""
    shape = broadcast_shapes(*(t.shape for t in tensors), op="broadcast_tensors")
    return tuple(expand(t, shape) for t in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of the grid that 1-dim tensors span: "ij" (matrix order) or "xy" (the first two swapped)."""
    axes = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing is 'ij' or 'xy', not {indexing!r}")
    for axis in axes:
        if axis.ndim > 1:
            raise ValueError(f"meshgrid: takes 1-dim tensors, got {describe(axis)}")
    shape = tuple(axis.numel() for axis in axes)
    grids = [expand(reshape(axis, (1,) * i + (-1,) + (1,) * (len(axes) - i - 1)), shape) for i, axis in enumerate(axes)]
    return tuple(transpose(g, 0, 1) if indexing == "xy" and len(axes) > 1 else g for g in grids)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along dim 1; vectors along dim 0."""
    whole = [t if t.ndim else reshape(t, 1) for t in tensors]
    return cat(whole, 0 if whole and whole[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along dim 0; vectors are rows."""
    return cat([t if t.ndim > 1 else reshape(t, 1, -1) for t in tensors], 0)


# -- diagonals


def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dims as a new last dim: a view."""
    a, b = normalize_dim(dim1, x.ndim, "diagonal"), normalize_dim(dim2, x.ndim, "diagonal")
    if a == b:
        raise ValueError(f"diagonal: dims {dim1} and {dim2} of {describe(x)} are the same")
    return _diagonal(x, offset, a, b)


@view_op(None, name="_diagonal")
def _diagonal(x: Tensor, offset: int, a: int, b: int) -> Tensor:
    _no_blocks(x, "diagonal")
    length = max(0, min(x.shape[a] + min(offset, 0), x.shape[b] - max(offset, 0)))
    start = (max(-offset, 0) * x.strides[a] + max(offset, 0) * x.strides[b]) if length else 0
    kept = [d for d in range(x.ndim) if d not in (a, b)]
    shape, strides = tuple(x.shape[d] for d in kept), tuple(x.strides[d] for d in kept)
    return _alias(x, (*shape, length), (*strides, x.strides[a] + x.strides[b]), x.offset + start)


place_back(_diagonal)


def diag_embed(x: Tensor, offset: int = 0) -> Tensor:
    """Matrices of zeros with the last dim of x on a diagonal of the last two dims."""
    if not x.ndim:
        raise ValueError("diag_embed: takes at least one dim")
    width = x.shape[-1] + abs(offset)
    size = (*x.shape[:-1], width, width)
    strides = (*contiguous_strides(size)[:-2], width + 1)
    return _spread(x, size, x.shape, strides, (offset if offset >= 0 else -offset * width) if x.numel() else 0)


_diagonal_of = diagonal


def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, as a copy, or the matrix with a vector on its diagonal."""
    if x.ndim not in (1, 2):
        raise ValueError(f"diag: takes a vector or a matrix, got {describe(x)}")
    return diag_embed(x, diagonal) if x.ndim == 1 else _diagonal_of(x, diagonal).clone()


# -- selections


def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather, with both broadcast outside dim; flattened without a dim."""
    if dim is None:
        return reshape(x, -1).gather(0, reshape(indices, -1))
    d = normalize_dim(dim, x.ndim, "take_along_dim")
    if x.ndim != indices.ndim:
        raise ValueError(f"take_along_dim: {describe(x)} and {describe(indices)} have different numbers of dims")
    outside = [(*t.shape[:d], 1, *t.shape[d + 1 :]) for t in (x, indices)]
    common = broadcast_shapes(*outside, op="take_along_dim")
    whole = (expand(t, (*common[:d], t.shape[d], *common[d + 1 :])) for t in (x, indices))
    return next(whole).gather(d, next(whole))


@primitive(
    vjp=lambda g, _, x, dim, index, source: (g, None, None, g.index_select(dim, index)),
    saves="none",
    name="_index_add",
    method=False,
)
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    computed("index_add")
    result = array_of(x).copy()
    where: Any = (slice(None),) * dim + (index.array().astype(np.int64),)
    np.add.at(result, where, array_of(source))
    return tensor_of(result, x.dtype)


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float = 1) -> Tensor:
    """x with the entries of source along dim added at a 1-dim index; equal indices add up."""
    d = normalize_dim(dim, x.ndim, "index_add")
    same_device("index_add", x, index, source)
    if index.ndim == 0:
        index = reshape(index, 1)
    if index.dtype.category != 1 or index.ndim != 1:
        raise TypeError(f"index_add: the index must be a vector of integers, got {describe(index)}")
    if source.dtype is not x.dtype:
        raise TypeError(f"index_add: {describe(x)} and the source {describe(source)} differ in dtype")
    if source.shape != (*x.shape[:d], index.shape[0], *x.shape[d + 1 :]):
        raise ValueError(
            f"index_add: the source {describe(source)} does not fit {describe(x)} at {index.shape[0]} "
            f"indices of dim {dim}"
        )
    array = index.array()
    if array.size and (array.min() < 0 or array.max() >= x.shape[d]):
        raise IndexError(
            f"index_add: index values {array.min()} .. {array.max()} are outside dim {dim} of {describe(x)}"
        )
    return _index_add(x, d, index, source if alpha == 1 else source * alpha)


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector; both broadcast."""
    if mask.dtype is not _dtype.bool_:
        raise TypeError(f"masked_select: the mask must be bool, got {describe(mask)}")
    shape = broadcast_shapes(x.shape, mask.shape, op="masked_select")
    return expand(x, shape)[expand(mask, shape)] if shape else reshape(x, 1)[reshape(mask, 1)]


def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """Indices (int64) of the elements that are not zero: (count, dims), or one vector for each dim."""
    computed("nonzero")
    found = np.argwhere(array_of(x)).astype(np.int64)
    return tuple(_int64(np.ascontiguousarray(c)) for c in found.T) if as_tuple else _int64(found)


swapaxes = swapdims = transpose
for _function in (
    unfold, roll, tile, repeat_interleave, movedim, unflatten, unbind, diagonal, diag_embed, diag, take_along_dim,
    index_add, masked_select, nonzero,
):  # fmt: skip
    setattr(Tensor, _function.__name__, _function)
for _name in ("swapaxes", "swapdims"):
    setattr(Tensor, _name, transpose)

"""Pooling: windows of the input, reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, inf, prod
from typing import Any, TypeAlias

from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, from_bits, tensor_of
from ..op import op
from ..operands import is_half
from ..shape import contiguous_strides
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import fused_gradient
from .conv import _distances, _each, _padded, _viewed
from .create import arange, ones
from .dtype_limits import iinfo
from .elementwise.arithmetic import _rounded
from .elementwise.select import where
from .random import rand
from .stacking import cat
from .view import expand, narrow, reshape


class _Windows:
    """The windows of a pool. Kernels read the sizes of x and of the result, the kernel, stride, padding and dilation of
    each spatial dim; and of means whether padding counts and what the sums are divided by (0: by their counts).
    """

    def __init__(
        self, name: str, dims: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        ceil_mode: bool, counted: bool = True, divisor: int = 0,
    ) -> None:  # fmt: skip
        if x.ndim not in (dims + 1, dims + 2):
            raise ValueError(f"{name}: takes (N, C, {dims} dims) or without N, got {describe(x)}")
        self.name, self.dims = name, dims
        self.counted, self.divisor = counted, divisor
        self.kernel = _distances(kernel_size, dims, name, "kernel_size")
        empty = stride is None or stride in ((), [])
        self.stride = self.kernel if empty else _each(stride, dims, name, "stride")
        self.dilation = _each(dilation, dims, name, "dilation")
        self.padding = _each(padding, dims, name, "padding")
        if any(not 0 <= m <= k // 2 for m, k in zip(self.padding, self.kernel, strict=True)):
            raise ValueError(f"{name}: padding {self.padding} is not between 0 and half of the kernel {self.kernel}")
        self.beyond = [0] * dims  # elements that the last window lacks, in ceil_mode
        self.sizes, out = x._shape[x.ndim - dims :], []
        for i, size in enumerate(self.sizes):
            step, reach, padded = (
                self.stride[i],
                self.dilation[i] * (self.kernel[i] - 1) + 1,
                2 * self.padding[i] + size,
            )
            if ceil_mode:
                count = ceil((padded - reach) / step) + 1
                if (count - 1) * step >= size + self.padding[i]:
                    count -= 1  # it would start in the padding
                self.beyond[i] = max(0, (count - 1) * step + reach - padded)
            out.append((padded + self.beyond[i] - reach) // step + 1 if step > 0 else 0)
        self.out = tuple(out)  # below 1 where the windows do not fit

    def padded(self, x: Tensor, fill: float, beyond: float | None = None) -> Tensor:
        """x with its padding; elements beyond the last windows are `beyond`, or `fill`."""
        margins = [(m, m) for m in self.padding]
        if beyond is None or not any(self.beyond):
            return _padded(x, [(m, m + b) for m, b in zip(self.padding, self.beyond, strict=True)], fill)
        return _padded(_padded(x, margins, fill), [(0, b) for b in self.beyond], beyond)

    def of(self, x: Tensor, fill: float, beyond: float | None = None) -> Tensor:
        """(..., *out, elements of a window)."""
        seen = _viewed(self.padded(x, fill, beyond), self.kernel, self.stride, self.dilation, self.name)
        return reshape(seen, (*seen._shape[: seen.ndim - self.dims], prod(self.kernel)))

    def places_of_max(self, x: Tensor) -> Tensor:
        """Where the largest element of each window is in the flattened spatial dims: (..., *out), int64."""
        seen = self.of(x, float("-inf") if x.dtype.is_floating_point else iinfo(x.dtype).min)
        if not seen.numel():
            return tensor_of(np.zeros(seen._shape[:-1], "int64")).to(x.device)

        def places() -> Tensor:
            return self.of(reshape(arange(prod(self.sizes), device=x.device), (1, *self.sizes)), -1)[
                0
            ]  # (*out, elements)

        return expand(places(), seen._shape).gather(-1, _largest(seen, places)).squeeze(-1)

    def mean(self, x: Tensor) -> Tensor:
        """The mean of each window: (..., *out)."""
        total = self.of(x, 0.0).sum(-1)
        if self.divisor:
            return _shared(total, self.divisor)
        if self.counted and not any(self.beyond):
            return _shared(total, prod(self.kernel))
        inside = ones((1,) * (x.ndim - self.dims) + self.sizes, dtype=x.dtype, device=x.device)
        return _shared(total, self.of(inside, 1.0 if self.counted else 0.0, 0.0).sum(-1))


class _Parts:
    """The windows of an adaptive pool: `out` parts of each spatial dim, which overlap unless `out` divides the size."""

    counted, divisor = False, 0

    def __init__(self, name: str, dims: int, x: Tensor, output_size: Any) -> None:
        self.dims, self.out = dims, _sizes(name, dims, x, output_size)
        self.sizes = x._shape[x.ndim - dims :]
        self.kernel = self.padding = (0,) * dims
        self.stride = self.dilation = (1,) * dims

    def places_of_max(self, x: Tensor) -> Tensor:
        """As of _Windows."""
        lead, out = x._shape[: x.ndim - self.dims], self.out
        flat, pieces = reshape(x, (*lead, prod(self.sizes))), []
        if prod(out):
            steps = contiguous_strides(self.sizes)
            by_dim = list(zip(self.sizes, out, steps, strict=True))
            later = [_parts(n, 0, count, count)[0] * step for n, count, step in by_dim[1:]]
            each = max(1, _PARTS_AT_ONCE // prod(p.size for p in later))
            for start in range(0, out[0], each):
                first = _parts(self.sizes[0], start, min(start + each, out[0]), out[0])[0] * steps[0]
                pieces.append(_largest_of_parts(flat, [first, *later]))
        return reshape(
            cat(pieces, -1) if pieces else tensor_of(np.zeros((*lead, 0), "int64")).to(x.device), (*lead, *out)
        )

    def mean(self, x: Tensor) -> Tensor:
        """As of _Windows."""
        for i, out in enumerate(self.out):
            dim = x.ndim - self.dims + i
            if out and x._shape[dim] % out == 0:
                x = x.unflatten(dim, (out, x._shape[dim] // out)).mean(dim + 1)
                continue
            means = [
                _means_of_parts(x, dim, start, min(start + _PARTS_AT_ONCE, out), out)
                for start in range(0, out, _PARTS_AT_ONCE)
            ]
            x = (cat(means, dim) if len(means) > 1 else means[0]) if means else narrow(x, dim, 0, 0)
        return x


Pooled: TypeAlias = _Windows | _Parts


@op()
def _places_of_max(x: Tensor, windows: Pooled) -> Tensor:
    """Where the largest element of each window is in the flattened spatial dims: (..., *out), int64."""
    return windows.places_of_max(x)


@op()
def _max_of_windows(x: Tensor, windows: Pooled) -> Tensor:
    """The largest element of each window, (..., *out); its place alone gets the gradient."""
    lead = x._shape[: x.ndim - windows.dims]
    places = _places_of_max(x.detach(), windows)
    found = reshape(x, (*lead, prod(windows.sizes))).gather(
        -1, reshape(places, (*lead, prod(places.shape[len(lead) :])))
    )
    return reshape(found, places.shape)


max_of_windows_backward = fused_gradient(_max_of_windows)
_max_of_windows.flat = True


@op()
def _mean_of_windows(x: Tensor, windows: Pooled) -> Tensor:
    """The mean of each window, (..., *out)."""
    return windows.mean(x.to("float32")).to(x.dtype) if is_half(x) else windows.mean(x)  # halves' sums may overflow


mean_of_windows_backward = fused_gradient(_mean_of_windows)
_mean_of_windows.flat = True


def _max_pool(
    name: str, dims: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    return_indices: bool,
) -> Any:  # fmt: skip
    windows = _Windows(name, dims, x, kernel_size, stride, padding, dilation, ceil_mode)
    values = _max_of_windows(x, windows)
    return (values, _places_of_max(x.detach(), windows)) if return_indices else values


def _largest(seen: Tensor, places: Callable[[], Tensor] | None = None) -> Tensor:
    """The index of the largest element of the last dim, as in torch: the first of equal ones, but the last NaN; if all
    are -inf, the first that is not padding. Padding has the index -1.
    """
    chosen = seen.argmax(-1, True)
    if not seen.dtype.is_floating_point:
        if places is None:
            return chosen
        equal = array_of(seen) == array_of(seen.gather(-1, chosen))  # padding is as small as the smallest integer
        return tensor_of((equal & (places().numpy() >= 0)).argmax(-1)[..., None]).to(seen.device)
    largest = seen.gather(-1, chosen)
    values = largest.array_to_check()
    if np.isfinite(from_bits(values, largest.dtype) if largest.dtype.is_bits else values).all():
        return chosen
    found = array_of(largest)
    at, values = chosen.numpy().copy(), array_of(seen)
    last = values.shape[-1] - 1 - np.isnan(values)[..., ::-1].argmax(-1)[..., None]
    at = np.where(np.isnan(found), last, at)
    if places is not None:
        inside = np.broadcast_to(places().numpy() >= 0, values.shape).argmax(-1)[..., None]
        at = np.where(np.isneginf(found), inside, at)
    return tensor_of(at.astype(np.int64)).to(seen.device)


def _avg_pool(
    name: str, dims: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    if divisor_override == 0:
        raise ValueError(f"{name}: divisor_override is 0")
    windows = _Windows(
        name, dims, x, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor_override or 0
    )
    return _mean_of_windows(x, windows)


def _shared(total: Tensor, count: Any) -> Tensor:
    """Means of integers are integers."""
    return total / count if total.dtype.is_floating_point else _rounded(total, count, "trunc")


@function()
def max_pool1d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Largest of each window of (N, C, L); the stride is the kernel's size unless given. `ceil_mode` keeps a last
    window that is not full; `return_indices` also returns the indices (int64) in the flattened L.
    """
    return _max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function()
def max_pool2d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """max_pool1d for (N, C, H, W)."""
    return _max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function()
def max_pool3d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """max_pool1d for (N, C, D, H, W)."""
    return _max_pool("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function()
def avg_pool1d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """Mean of each window of (N, C, L); zeros of the padding count unless `count_include_pad` is False."""
    return _avg_pool("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@function()
def avg_pool2d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """avg_pool1d for (N, C, H, W); `divisor_override` divides the sums instead of their counts."""
    return _avg_pool("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@function()
def avg_pool3d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """avg_pool2d for (N, C, D, H, W)."""
    return _avg_pool("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(
    name: str, dims: int, x: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Tensor:
    if not norm_type:
        raise ValueError(f"{name}: norm_type is 0")
    if norm_type in (inf, -inf):
        sign = 1 if norm_type > 0 else -1
        return _max_pool(name, dims, x.abs() * sign, kernel_size, stride, 0, 1, ceil_mode, False) * sign
    look = _Windows(name, dims, x, kernel_size, stride, 0, 1, ceil_mode)
    total = look.of(x**norm_type, 0.0).sum(-1)
    if any(look.beyond):  # torch scales the windows that are not full
        inside = ones((1,) * (x.ndim - dims) + x._shape[x.ndim - dims :], dtype=x.dtype, device=x.device)
        total = total * (prod(look.kernel) / look.of(inside, 0.0).sum(-1))
    return (total.sign() * total.abs().relu()) ** (1.0 / norm_type)


@function()
def lp_pool1d(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(Σ x^p)^(1 / p) of each window of (N, C, L); the largest |x| for p = inf, the smallest for -inf."""
    return _lp_pool("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


@function()
def lp_pool2d(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(Σ x^p)^(1 / p) of each window of (N, C, H, W)."""
    return _lp_pool("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


@function()
def lp_pool3d(x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(Σ x^p)^(1 / p) of each window of (N, C, D, H, W)."""
    return _lp_pool("lp_pool3d", 3, x, norm_type, kernel_size, stride, ceil_mode)


def _sizes(name: str, dims: int, x: Tensor, output_size: Any) -> tuple[int, ...]:
    if x.ndim not in (dims + 1, dims + 2):
        raise ValueError(f"{name}: takes (N, C, {dims} dims) or without N, got {describe(x)}")
    given = (output_size,) * dims if output_size is None or isinstance(output_size, int) else tuple(output_size)
    if len(given) == 1:
        given = given * dims
    if len(given) != dims or any(n is not None and not 0 <= n < 1 << 63 for n in given):
        raise ValueError(f"{name}: output_size {output_size} does not name {dims} dims")
    own = x._shape[x.ndim - dims :]
    if 0 in own:
        raise ValueError(f"{name}: {describe(x)} has no elements to pool")
    return tuple(own[i] if n is None else int(n) for i, n in enumerate(given))


_PARTS_AT_ONCE = 1 << 16


def _parts(size: int, start: int, stop: int, out: int) -> tuple[Any, Any]:
    """The elements of the parts start .. stop of `out` parts. Parts overlap if the size is not a multiple of `out`.

    Returns the places of the elements (parts, longest), where shorter parts repeat their last one, and a mask that is
    False for these repetitions.
    """
    k = np.arange(start, stop, dtype=np.int64)
    first, end = k * size // out, -(-(k + 1) * size // out)
    places = first[:, None] + np.arange((end - first).max(), dtype=np.int64)
    return np.minimum(places, end[:, None] - 1), places < end[:, None]


def _room_for(x: Tensor, parts: Any) -> Tensor:
    """The memory of a result's indices, the most that it takes: MemoryError at once where there is none."""
    return x.new_empty((*x._shape[: x.ndim - len(parts.out)], *parts.out), dtype="int64")


def _without_elements(x: Tensor, parts: Any) -> Tensor:
    """A result without elements, however many parts there are: they are not looked at one by one."""
    for dim, n in enumerate(parts.out, x.ndim - len(parts.out)):
        x = x.narrow(dim, 0, min(n, 1))
    return expand(x, (*x._shape[: x.ndim - len(parts.out)], *parts.out))._row_major()


def _adaptive_avg_pool(name: str, dims: int, x: Tensor, output_size: Any) -> Tensor:
    parts = _Parts(name, dims, x, output_size)
    if {*parts.out} == {1} and 0 not in x._shape and x.dtype.is_floating_point:
        return x.mean(list(range(x.ndim - dims, x.ndim)), True)
    if not _room_for(x, parts).numel():
        return _without_elements(x, parts)
    return _mean_of_windows(x, parts)


def _means_of_parts(x: Tensor, dim: int, start: int, stop: int, out: int) -> Tensor:
    places, inside = _parts(x._shape[dim], start, stop, out)
    behind = (1,) * (x.ndim - 1 - dim)
    seen = x.index_select(dim, tensor_of(places.reshape(-1)).to(x.device)).unflatten(dim, places.shape)
    if not inside.all():
        seen = where(tensor_of(inside.reshape(*inside.shape, *behind)).to(x.device), seen, 0.0)
    counts = tensor_of(inside.sum(1).reshape(-1, *behind), x.dtype).to(x.device)
    return seen.sum(dim + 1) / counts


def _adaptive_max_pool(name: str, dims: int, x: Tensor, output_size: Any, return_indices: bool) -> Any:
    parts = _Parts(name, dims, x, output_size)
    room = _room_for(x, parts)
    if not room.numel():
        values = _without_elements(x, parts)
        return (values, room) if return_indices else values
    values = _max_of_windows(x, parts)
    return (values, _places_of_max(x.detach(), parts)) if return_indices else values


def _largest_of_parts(flat: Tensor, along: list[Any]) -> Tensor:
    """The place of the largest element of each part; `along` holds the places of the parts by dim, as _parts gives."""
    dims = len(along)
    whole = np.zeros((1,) * (2 * dims), np.int64)
    for i, places in enumerate(along):
        shape = [1] * (2 * dims)
        shape[i], shape[dims + i] = places.shape
        whole = whole + places.reshape(shape)
    rows = tensor_of(whole.reshape(prod(whole.shape[:dims]), -1)).to(flat.device)  # (parts, elements of one)
    seen = flat.index_select(-1, rows.reshape(-1)).unflatten(-1, rows._shape)
    return expand(rows, seen._shape).gather(-1, _largest(seen)).squeeze(-1)


@function()
def adaptive_avg_pool1d(x: Tensor, output_size: Any) -> Tensor:
    """Means of `output_size` parts of (N, C, L) (None: no pooling)."""
    return _adaptive_avg_pool("adaptive_avg_pool1d", 1, x, output_size)


@function()
def adaptive_avg_pool2d(x: Tensor, output_size: Any) -> Tensor:
    """adaptive_avg_pool1d for (N, C, H, W)."""
    return _adaptive_avg_pool("adaptive_avg_pool2d", 2, x, output_size)


@function()
def adaptive_avg_pool3d(x: Tensor, output_size: Any) -> Tensor:
    """adaptive_avg_pool1d for (N, C, D, H, W)."""
    return _adaptive_avg_pool("adaptive_avg_pool3d", 3, x, output_size)


@function()
def adaptive_max_pool1d(x: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Largest of `output_size` parts of (N, C, L); with `return_indices` the indices too."""
    return _adaptive_max_pool("adaptive_max_pool1d", 1, x, output_size, return_indices)


@function()
def adaptive_max_pool2d(x: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool1d for (N, C, H, W)."""
    return _adaptive_max_pool("adaptive_max_pool2d", 2, x, output_size, return_indices)


@function()
def adaptive_max_pool3d(x: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool1d for (N, C, D, H, W)."""
    return _adaptive_max_pool("adaptive_max_pool3d", 3, x, output_size, return_indices)


def _max_unpool(
    name: str, dims: int, x: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any,
    output_size: Sequence[int] | None,
) -> Tensor:  # fmt: skip
    if x._shape != indices._shape or indices.dtype.name != "int64":
        raise ValueError(f"{name}: the indices {describe(indices)} do not belong to {describe(x)}")
    kernel = _each(kernel_size, dims, name, "kernel_size")
    steps = kernel if stride is None else _each(stride, dims, name, "stride")
    margins = _each(padding, dims, name, "padding")
    own = x._shape[x.ndim - dims :]
    size = tuple((n - 1) * s - 2 * m + k for n, s, m, k in zip(own, steps, margins, kernel, strict=True))
    if output_size is not None:
        size = tuple(output_size)[-dims:]
    lead = x._shape[: x.ndim - dims]
    flat = (*lead, prod(own))
    empty = x.new_zeros((*lead, prod(size)))
    return reshape(empty.scatter(x.ndim - dims, reshape(indices, flat), reshape(x, flat)), (*lead, *size))


@function()
def max_unpool1d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The values of max_pool1d with return_indices at their original positions; zeros elsewhere."""
    return _max_unpool("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


@function()
def max_unpool2d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """max_unpool1d for (N, C, H, W)."""
    return _max_unpool("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


@function()
def max_unpool3d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """max_unpool1d for (N, C, D, H, W)."""
    return _max_unpool("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)


def _starts(samples: Any, size: int, out: int, window: int) -> Any:
    """The start of each window of a dim, (N, C, out), from samples (N, C) in 0 .. 1, in their precision as in torch."""
    step = samples.dtype.type((size - window) / (out - 1)) if out > 1 else samples.dtype.type(0)
    at = np.arange(out, dtype=samples.dtype)
    begins = np.floor((at + samples[..., None]) * step) - np.floor(samples[..., None] * step)
    begins[..., out - 1] = size - window
    return begins.astype(np.int64)


def _fractional_sizes(
    name: str, dims: int, x: Tensor, kernel: tuple[int, ...], output_size: Any, output_ratio: Any
) -> tuple[int, ...]:
    spatial = x._shape[x.ndim - dims :]
    if (output_size is None) == (output_ratio is None) or x.ndim not in (dims + 1, dims + 2):
        raise ValueError(f"{name}: takes output_size or output_ratio and (N, C, {dims} dims), got {describe(x)}")
    if output_size is not None:
        sizes = _each(output_size, dims, name, "output_size")
    else:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else tuple(output_ratio)
        if len(ratios) != dims or not all(0 < r < 1 for r in ratios):
            raise ValueError(f"{name}: output_ratio must lie between 0 and 1, got {output_ratio}")
        sizes = tuple(int(n * r) for n, r in zip(spatial, ratios, strict=True))
    if any(out < 1 or out + k - 1 > n for out, k, n in zip(sizes, kernel, spatial, strict=True)):
        raise ValueError(f"{name}: {sizes} windows of {kernel} do not fit {describe(x)}")
    return sizes


def _fractional_max_pool(
    name: str, dims: int, x: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Tensor | None,
) -> Any:  # fmt: skip
    kernel = _each(kernel_size, dims, name, "kernel_size")
    sizes = _fractional_sizes(name, dims, x, kernel, output_size, output_ratio)
    if x.ndim == dims + 1:
        found = _fractional_max_pool(name, dims, x.unsqueeze(0), kernel, sizes, None, True, samples)
        return (found[0].squeeze(0), found[1].squeeze(0)) if return_indices else found[0].squeeze(0)
    lead, spatial = x._shape[:2], x._shape[2:]
    if samples is None:
        samples = rand(*lead, dims, dtype=x.dtype)
    if samples.ndim == 3 and samples._shape[0] > lead[0]:
        samples = narrow(samples, 0, 0, lead[0])  # as torch, which reads no further
    if samples._shape != (*lead, dims):
        raise ValueError(f"{name}: the samples {describe(samples)} are not {[*lead, dims]}")
    drawn = samples.detach().numpy()
    places = np.zeros((*lead, *(1,) * (2 * dims)), np.int64)  # (N, C, *out, *window)
    for i, (size, out, window) in enumerate(zip(spatial, sizes, kernel, strict=True)):
        sample = drawn[..., dims - 1 - i if dims == 2 else i]  # torch's order
        at = _starts(sample, size, out, window)[..., None] + np.arange(window, dtype=np.int64)
        shape = [*lead, *(1,) * (2 * dims)]
        shape[2 + i], shape[2 + dims + i] = out, window
        places = places * size + at.reshape(shape)
    flat = reshape(x, (*lead, prod(spatial)))
    inside = tensor_of(np.ascontiguousarray(places.reshape(*lead, prod(sizes) * prod(kernel)))).to(x.device)
    chosen = _largest(reshape(flat.detach().gather(2, inside), (*lead, prod(sizes), prod(kernel))))
    indices = reshape(inside, (*lead, prod(sizes), prod(kernel))).gather(-1, chosen).squeeze(-1)
    values = reshape(flat.gather(2, indices), (*lead, *sizes))
    return (values, reshape(indices, (*lead, *sizes))) if return_indices else values


@function()
def fractional_max_pool2d(
    x: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Largest of windows of (N, C, H, W) at pseudo-random steps, `output_size` of them or `output_ratio` of the size
    (Graham 2014, arXiv 1412.6071). `_random_samples` (N, C, 2) in 0 .. 1 determine the windows; drawn by default.
    """
    return _fractional_max_pool(
        "fractional_max_pool2d", 2, x, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


@function()
def fractional_max_pool3d(
    x: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """fractional_max_pool2d for (N, C, D, H, W), samples (N, C, 3)."""
    return _fractional_max_pool(
        "fractional_max_pool3d", 3, x, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )

"""Resample images, signals and volumes: interpolate, grid_sample, affine_grid, pixel_shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import floor, isfinite, prod
from operator import index
from typing import Any

from ...errors import UnsupportedValueError
from ..declare import function
from ..dtype import DType, float32, float64
from ..launch import constants, recorder
from ..lazy import np
from ..memory_format import channels_last, channels_last_3d
from ..numpy_arrays import tensor_of
from ..op import op
from ..tensor import Tensor
from ..user_errors import describe
from . import pool
from .composite_gradient import fused_gradient
from .create import ones
from .elementwise.limits import clamp
from .elementwise.select import where
from .linalg.products import matmul
from .spacing import linspace
from .stacking import cat, stack
from .view import expand, narrow, permute, reshape, transpose

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_CUBIC = -0.75  # torch's and OpenCV's coefficient (Keys 1981)


def _cubic_weights(t: Any) -> list[Any]:
    """Weights of the four neighbours at -1, 0, 1, 2 for a position t in [0, 1) (Keys 1981)."""

    def near(d: Any) -> Any:
        return ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _places(size: int, out: int, scale: float | None, align_corners: bool) -> Any:
    """The positions of the `out` samples along a dim of `size`, as float64."""
    at = np.arange(out, dtype="float64")
    if align_corners:
        return at * ((size - 1) / (out - 1) if out > 1 else 0.0)
    return (at + 0.5) * (1 / scale if scale else size / out) - 0.5


def _neighbours(size: int, out: int, scale: float | None, kind: str, align_corners: bool) -> tuple[Any, Any]:
    """(taps, out) places and weights of the elements of a dim that make each sample."""
    at = _places(size, out, scale, align_corners)
    if kind == "linear" and not align_corners:
        at = np.maximum(at, 0)
    first = np.floor(at)
    t = at - first
    weights = [1 - t, t] if kind == "linear" else _cubic_weights(t)
    start = 0 if kind == "linear" else -1
    places = first.astype("int64") + np.arange(start, start + len(weights))[:, None]
    return np.clip(places, 0, size - 1), np.stack(weights)


def _antialiased(size: int, out: int, scale: float | None, kind: str, align_corners: bool) -> tuple[Any, Any]:
    """As _neighbours, but samples of a reduction use a wider neighbourhood (as Pillow does). What is beyond a
    neighbourhood has the weight 0."""
    if align_corners:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = 1 / scale if scale else size / out
    support = (1.0 if kind == "linear" else 2.0) * max(step, 1.0)
    centre = step * (np.arange(out) + 0.5)
    low = np.maximum(0, (centre - support + 0.5).astype("int64"))
    high = np.minimum(size, (centre + support + 0.5).astype("int64"))
    places = low + np.arange(min(size, int(2 * support + 2)))[:, None]
    d = np.abs((places - centre + 0.5) / max(step, 1.0))
    if kind == "linear":
        weights = np.maximum(0, 1 - d)
    else:
        a = -0.5
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((d - 5) * d + 8) * d * a - 4 * a
        weights = np.where(d < 1, near, np.where(d < 2, far, 0))
    weights = np.where(places < high, weights, 0.0)
    return np.minimum(places, size - 1), weights / weights.sum(0)


class Taps:
    """Samples along a dim of `size` elements: sample o is the sum of the elements places[k] times weights[k] for
    starts[o] <= k < starts[o + 1]. With a `precision` they are of bytes, and the weights whole numbers in 2^-precision.
    """

    def __init__(self, size: int, starts: Any, places: Any, weights: Any, precision: int = 0) -> None:
        self.size, self.out, self.precision = size, len(starts) - 1, precision
        self.starts, self.places, self.weights = starts, places, weights
        self._transposed: Taps | None = None
        self.sampling: tuple[Any, ...] | None = None  # the arguments of `_samples`

    @staticmethod
    def of_neighbours(size: int, places: Any, weights: Any, kept: Any, precision: int = 0) -> Taps:
        """From arrays (out, taps), of which those count that are `kept`."""
        starts = np.concatenate([[0], np.cumsum(kept.sum(1))])
        return Taps(size, starts, places[kept], weights[kept], precision)

    def transposed(self) -> Taps:
        """The gradient: what each element gives to the samples."""
        if self._transposed is None:
            order = np.argsort(self.places, kind="stable")
            samples = np.repeat(np.arange(self.out), np.diff(self.starts))
            starts = np.concatenate([[0], np.cumsum(np.bincount(self.places, minlength=self.size))])
            self._transposed = Taps(self.out, starts, samples[order], self.weights[order])
            self._transposed._transposed = self
        return self._transposed

    def matrix(self, start: int = 0, stop: int | None = None) -> Any:
        """The weights of some samples as a matrix (size, samples), float64."""
        counts = np.diff(self.starts)[start:stop]
        entries = slice(self.starts[start], self.starts[start] + counts.sum())
        found = np.zeros((self.size, len(counts)))
        np.add.at(found, (self.places[entries], np.repeat(np.arange(len(counts)), counts)), self.weights[entries])
        return found


@lru_cache(64)
def _samples(size: int, out: int, scale: float | None, kind: str, align_corners: bool, antialias: bool) -> Taps:
    """_neighbours or _antialiased."""
    places, weights = (_antialiased if antialias else _neighbours)(size, out, scale, kind, align_corners)
    # An antialiased neighbourhood differs in size, and what is beyond has the weight 0.
    kept = weights.T != 0 if antialias else np.ones(weights.T.shape, bool)
    found = Taps.of_neighbours(size, places.T, weights.T, kept)
    found.sampling = size, out, scale, kind, align_corners, antialias
    return found


@lru_cache(64)
def _samples_of_bytes(size: int, *more: Any) -> Taps:
    """The same in torch's fixed point for bytes: the largest weight has 15 bits."""
    matrix = _samples(size, *more).matrix()
    most, bits = matrix.max(), 0
    while bits < 22 and int(0.5 + most * (1 << bits + 1)) < 1 << 15:
        bits += 1
    whole = np.trunc(matrix * (1 << bits) + np.copysign(0.5, matrix)).T  # (out, size)
    return Taps.of_neighbours(size, np.broadcast_to(np.arange(size), whole.shape), whole, whole != 0, bits)


def _new_matrix(dtype: DType, taps: Taps) -> Tensor:
    return tensor_of(taps.matrix(), dtype)


_matrix = constants(32)(_new_matrix)
LARGEST_KEPT = 1 << 18  # elements of a matrix that is kept for the next call


@op(saves="none", name="_resampled")
def _resampled(x: Tensor, dim: int, taps: Taps) -> Tensor:
    """The samples of floats along a dim: by one matrix product where all are finite."""
    if not _is_finite(x):
        return _by_neighbours(x, dim, taps)
    matrix = (_matrix if taps.size * taps.out <= LARGEST_KEPT else _new_matrix)(x.dtype, taps)
    order = [*(d for d in range(x.ndim) if d != dim), dim]
    y = matmul(permute(x, order), matrix.to(x.device))
    return permute(y, [order.index(d) for d in range(x.ndim)])


@_resampled.gradient
def _d_resampled(g: Tensor, _: Any, x: Tensor, dim: int, taps: Taps) -> tuple[Tensor]:
    return (_resampled(g, dim, taps.transposed()),)


_BLOCK = 16  # samples that are computed by one product
_EXACT = 15  # bits of a weight with which float32 holds every sum


@op(vjp=None, name="_resampled_bytes")
def resampled_bytes(x: Tensor, dim: int, taps: Taps) -> Tensor:
    """The samples of bytes along a dim, rounded to bytes, halves up. Each product of a few samples reads only what they
    need, in floats that hold the sums of whole numbers exactly.
    """
    wide, parts = float32 if taps.precision <= _EXACT else float64, []
    moved = transpose(x, dim, -1)
    for start in range(0, taps.out, _BLOCK):
        stop = min(start + _BLOCK, taps.out)
        near = taps.places[taps.starts[start] : taps.starts[stop]]
        low, high = int(near.min()), int(near.max()) + 1
        matrix = tensor_of(taps.matrix(start, stop)[low:high], wide).to(x.device)
        product = matmul(narrow(moved, -1, low, high - low).to(wide), matrix)
        rounded = ((product + (1 << (taps.precision - 1))) * 2.0**-taps.precision).floor().clamp(0, 255)
        parts.append(rounded.to("uint8"))
    return transpose(cat(parts, -1), dim, -1)


def _by_neighbours(x: Tensor, dim: int, taps: Taps) -> Tensor:
    """Sums where an infinity or a NaN reaches its neighbours only: in a product, 0 times it is NaN everywhere."""
    shape = [-1 if d == dim else 1 for d in range(x.ndim)]
    counts, total = np.diff(taps.starts), None
    for k in range(counts.max()):
        has = counts > k
        at = np.minimum(taps.starts[:-1] + np.minimum(k, np.maximum(counts - 1, 0)), len(taps.places) - 1)
        share = reshape(tensor_of(taps.weights[at], x.dtype).to(x.device), shape)
        part = x.index_select(dim, tensor_of(taps.places[at]).to(x.device)) * share
        if not has.all():
            part = where(reshape(tensor_of(has).to(x.device), shape), part, 0.0)
        total = part if total is None else total + part
    assert total is not None
    return total


def _is_finite(x: Tensor) -> bool:
    """Whether all elements are finite, where that can be read at once: True on other devices and in a capture."""
    if not x.device.backend.host_visible or recorder() is not None:
        return True
    own = x.detach()
    return isfinite((own.sum() if x.dtype.itemsize >= 4 else own.sum(dtype="float32")).item())


@lru_cache(128)
def _nearest(size: int, out: int, scale: float | None, exact: bool) -> Tensor:
    """The places (out,) that are read; nobody writes them."""
    step = np.float32(1 / scale if scale else size / out)  # torch computes these in float32
    at = (np.arange(out, dtype="float32") + np.float32(0.5 if exact else 0)) * step
    return tensor_of(np.minimum(np.floor(at).astype("int64"), size - 1))


def _output_sizes(
    x: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    dims = x.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give size or scale_factor, one of them")
    if size is not None:
        sizes = [size] * dims if isinstance(size, int) else [int(n) for n in size]
        scales: list[float | None] = [None] * dims
    else:
        factors = [float(scale_factor)] * dims if isinstance(scale_factor, (int, float)) else list(scale_factor)
        sizes = [floor(n * f) for n, f in zip(x._shape[2:], factors, strict=False)]
        scales = [None] * dims if recompute else [float(f) for f in factors]
    if len(sizes) != dims or len(scales) != dims:
        raise ValueError(f"interpolate: {size or scale_factor} does not name the {dims} dims of {describe(x)}")
    if max(sizes, default=1) >= 1 << 31:
        raise MemoryError(f"interpolate: the size {tuple(sizes)} of the result is beyond 2**31")
    if min(sizes, default=1) < 1 or 0 in x._shape[2:]:
        raise ValueError(f"interpolate: cannot bring {describe(x)} to {tuple(sizes)}")
    return sizes, scales


@function()
def interpolate(
    x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """x (N, C, L), (N, C, H, W) or (N, C, D, H, W) at another size. mode: "nearest", "nearest-exact", "linear" (3
    dims), "bilinear", "bicubic" (4 dims), "trilinear" (5 dims) or "area"; places as in torch.nn.functional.interpolate.
    """
    if not 3 <= x.ndim <= 5:
        raise ValueError(f"interpolate: takes (N, C, L), (N, C, H, W) or (N, C, D, H, W), got {describe(x)}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: antialias takes mode 'bilinear' or 'bicubic', not {mode!r}")
    sizes, scales = _output_sizes(x, size, scale_factor, recompute_scale_factor)
    if mode in ("nearest", "nearest-exact", "area"):
        if align_corners is not None:
            raise ValueError(f"interpolate: mode {mode!r} does not take align_corners")
        if mode == "area":
            return getattr(pool, f"adaptive_avg_pool{x.ndim - 2}d")(x, sizes)
        for i, (out, scale) in enumerate(zip(sizes, scales, strict=True)):
            x = x.index_select(2 + i, _nearest(x._shape[2 + i], out, scale, mode != "nearest").to(x.device))
        return x
    if _LINEAR.get(mode, 2 if mode == "bicubic" else None) != x.ndim - 2:
        raise UnsupportedValueError(f"interpolate: mode {mode!r} does not fit {describe(x)}")
    if not (x.is_contiguous() or (x.ndim > 3 and x.is_contiguous(channels_last if x.ndim == 4 else channels_last_3d))):
        x = x.contiguous()  # as in torch, where the result has one of these orders
    kind = "cubic" if mode == "bicubic" else "linear"
    of_bytes = x.dtype.name == "uint8"
    for dim in range(x.ndim - 1, 1, -1) if of_bytes else range(2, x.ndim):  # of bytes in torch's order
        out, scale = sizes[dim - 2], scales[dim - 2]
        sampling = (x._shape[dim], out, scale, kind, bool(align_corners), bool(antialias))
        x = (
            resampled_bytes(x, dim, _samples_of_bytes(*sampling))
            if of_bytes
            else _resampled(x, dim, _samples(*sampling))
        )
    return x


def _unnormalized(at: Tensor, size: int, align_corners: bool) -> Tensor:
    """-1 .. 1 to positions: -1 and 1 are the centres of the corner elements, or their outer edges."""
    return (at + 1) * ((size - 1) / 2) if align_corners else ((at + 1) * size - 1) * 0.5


def _reflected(at: Tensor, low2: float, high2: float) -> Tensor:
    """Positions mirrored at low2 / 2 and high2 / 2 until they lie between."""
    if low2 == high2:
        return at * 0
    low, span = low2 / 2, (high2 - low2) / 2
    at = (at - low).abs()
    extra = at.fmod(span)
    flips = (at.detach() / span).floor()
    return where(flips.remainder(2) == 0, extra + low, span - extra + low)


def _bounded(at: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        ends = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
        at = _reflected(at, *ends)
    return clamp(where(at.isnan(), 0.0, at), 0, size - 1)


def _picked(flat: Tensor, sizes: Sequence[int], at: Sequence[Tensor]) -> Tensor:
    """flat (N, C, D…) at integer positions (N, P), one for each dim; zeros outside → (N, C, P)."""
    index, inside = None, None
    for size, place in zip(sizes, at, strict=True):
        valid = (place >= 0).logical_and(place <= size - 1)
        safe = clamp(where(valid, place, 0.0), 0, size - 1).to("int64")  # of NaN there is no integer
        index = safe if index is None else index * size + safe
        inside = valid if inside is None else inside.logical_and(valid)
    assert index is not None and inside is not None
    shape = (flat._shape[0], flat._shape[1], index._shape[1])
    return flat.gather(2, expand(index.unsqueeze(1), shape)) * inside.unsqueeze(1).to(flat.dtype)


def _sample_cubic(flat: Tensor, sizes: Sequence[int], at: list[Tensor], padding_mode: str, corners: bool) -> Tensor:
    bases = [a.detach().floor() for a in at]
    weights = [_cubic_weights(a - b) for a, b in zip(at, bases, strict=True)]
    total = None
    for shifts in product(range(4), repeat=2):
        places = [
            _bounded(b + (k - 1), n, padding_mode, corners).round()
            for b, k, n in zip(bases, shifts, sizes, strict=True)
        ]
        share = weights[0][shifts[0]] * weights[1][shifts[1]]
        part = _picked(flat, sizes, places) * share.unsqueeze(1)
        total = part if total is None else total + part
    assert total is not None
    return total


@op(vjp=lambda g, _, y, grid: (g, grid.new_zeros(grid.shape)))
def _without_slope(y: Tensor, grid: Tensor) -> Tensor:
    """y with a gradient of 0 in the grid, as in torch, in place of no gradient."""
    return y


@op()
def _grid_sample(x: Tensor, grid: Tensor, mode: str, padding_mode: str, corners: bool) -> Tensor:
    dims, sizes, out = x.ndim - 2, x._shape[2:], grid._shape[1:-1]
    flat = reshape(x, (x._shape[0], x._shape[1], prod(sizes)))
    places = reshape(grid, (grid._shape[0], prod(out), dims))
    at = [_unnormalized(places[:, :, dims - 1 - i], n, corners) for i, n in enumerate(sizes)]
    if mode == "bicubic":
        y = _sample_cubic(flat, sizes, at, padding_mode, corners)
        return reshape(y, (*x._shape[:2], *out))
    at = [_bounded(a, n, padding_mode, corners) for a, n in zip(at, sizes, strict=True)]
    if mode == "nearest":
        y = _picked(flat, sizes, [a.detach().round() for a in at])
        return _without_slope(reshape(y, (*x._shape[:2], *out)), grid)
    total = None
    bases = [a.detach().floor() for a in at]
    for shifts in product(range(2), repeat=dims):
        share = None
        for a, b, k in zip(at, bases, shifts, strict=True):
            weight = (a - b) if k else 1 - (a - b)
            share = weight if share is None else share * weight
        assert share is not None
        part = _picked(flat, sizes, [b + k for b, k in zip(bases, shifts, strict=True)]) * share.unsqueeze(1)
        total = part if total is None else total + part
    assert total is not None
    return reshape(total, (*x._shape[:2], *out))


_grid_sample_backward = fused_gradient(_grid_sample)


@function()
def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """x (N, C, H, W) at places grid (N, H', W', 2) of (x, y) in -1 .. 1 → (N, C, H', W'); or x (N, C, D, H, W) at
    (N, D', H', W', 3). mode: "bilinear", "nearest" or "bicubic" (4 dims); padding_mode: "zeros", "border" or
    "reflection" (Jaderberg et al. 2015, arXiv 1506.02025).
    """
    dims = x.ndim - 2
    if dims not in (2, 3) or grid.ndim != x.ndim or grid._shape[-1] != dims or grid._shape[0] != x._shape[0]:
        raise ValueError(f"grid_sample: {describe(x)} and grid {describe(grid)} do not fit")
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and dims == 3):
        raise ValueError(f"grid_sample: mode {mode!r} does not fit {describe(x)}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: padding_mode is zeros, border or reflection, not {padding_mode!r}")
    return _grid_sample(x, grid, mode, padding_mode, bool(align_corners))


@function()
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for grid_sample of affine maps theta: (N, 2, 3) and `size` (N, C, H, W), or (N, 3, 4) and 5 sizes."""
    dims = len(size) - 2
    if not theta.dtype.is_floating_point:
        raise ValueError(f"affine_grid: theta must be floating-point, not {describe(theta)}")
    if dims not in (2, 3) or theta._shape != (size[0], dims, dims + 1):
        raise ValueError(f"affine_grid: theta {describe(theta)} does not fit the size {tuple(size)}")
    theta.new_empty((size[0], *size[2:], dims + 1))  # MemoryError at once where there is no room for the result
    axes = []
    for i, n in enumerate(size[2:]):
        at = linspace(-1, 1, n, dtype=theta.dtype, device=theta.device) if n > 1 else theta.new_zeros(n)
        if not align_corners:
            at = at * (n - 1) / n  # rounded as torch rounds: the side of a pixel on which a place lies depends on it
        shape = (1,) * i + (n,) + (1,) * (dims - 1 - i)
        axes.append(expand(reshape(at, shape), tuple(size[2:])))
    base = stack([*reversed(axes), ones(size[2:], dtype=theta.dtype, device=theta.device)], -1)  # (*spatial, dims + 1)
    flat = matmul(reshape(base, (1, prod(size[2:]), dims + 1)), theta.mT)
    return reshape(flat, (size[0], *size[2:], dims))


@function()
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r², H, W) → (..., C, H r, W r) (Shi et al. 2016, arXiv 1609.05158)."""
    r = index(upscale_factor)
    if x.ndim < 3 or r < 1 or x._shape[-3] % (r * r):
        raise ValueError(f"pixel_shuffle: the channels of {describe(x)} must be a multiple of {r * r}")
    lead, (c, h, w) = x._shape[:-3], x._shape[-3:]
    n = len(lead)
    parts = reshape(x, (*lead, c // (r * r), r, r, h, w))
    shuffled = permute(parts, (*range(n), n, n + 3, n + 1, n + 4, n + 2))._row_major()
    return reshape(shuffled, (*lead, c // (r * r), h * r, w * r))


@function()
def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) → (..., C r², H, W)."""
    r = index(downscale_factor)
    if x.ndim < 3 or r < 1 or x._shape[-1] % r or x._shape[-2] % r:
        raise ValueError(f"pixel_unshuffle: the height and width of {describe(x)} must be multiples of {r}")
    lead, (c, h, w) = x._shape[:-3], x._shape[-3:]
    n = len(lead)
    parts = reshape(x, (*lead, c, h // r, r, w // r, r))
    shuffled = permute(parts, (*range(n), n, n + 2, n + 4, n + 1, n + 3))._row_major()
    return reshape(shuffled, (*lead, c * r * r, h // r, w // r))


@function()
def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """(N, C, ...): the channels, in `groups` rows, read column by column (Zhang et al. 2017, arXiv 1707.01083)."""
    if x.ndim < 3 or groups < 1 or x._shape[1] % groups:
        raise ValueError(f"channel_shuffle: the channels of {describe(x)} must be a multiple of {groups}")
    rows = reshape(x, (x._shape[0], groups, x._shape[1] // groups, *x._shape[2:]))
    return reshape(permute(rows, (0, 2, 1, *range(3, rows.ndim)))._row_major(), x._shape)

"""Pictures at another size (native/resample.c), and sampled at places of a grid (native/grid_sample.c)."""

from __future__ import annotations

from math import prod
from typing import Any

from ..dtype import DType, float32, int32, uint8
from ..element_types import CODES
from ..launch import KERNELS, constants
from ..lazy import np
from ..native import IN_BROWSER
from ..numpy_arrays import tensor_of
from ..op import claims
from ..operands import dense, is_half
from ..ops.resample import Taps
from ..tensor import Tensor, empty_contiguous, make, set_requires_grad
from .layouts import is_packed

_FORWARD, _BACKWARD = KERNELS["grid_sample_f32"], KERNELS["grid_sample_backward_f32"]
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}


def _fits(x: Tensor, grid: Tensor, mode: str) -> bool:
    if IN_BROWSER or not x.dtype is grid.dtype is float32 or len(x._shape) != 4 or mode == "bicubic":
        return False
    # Places are float32, which tells whole numbers apart up to 2^24.
    return 0 < x._shape[2] * x._shape[3] < 1 << 31 and max(x._shape[2:]) <= 1 << 24


def _numbers(x: Tensor, grid: Tensor, mode: str, padding_mode: str, corners: bool) -> tuple[int, ...]:
    return *x._shape, prod(grid._shape[1:-1]), int(mode == "nearest"), _PADDING[padding_mode], int(corners)


@claims("_grid_sample")
def _grid_sample(x: Tensor, grid: Tensor, mode: str, padding_mode: str, corners: bool) -> Any:
    if is_half(x) and x.dtype is grid.dtype:  # rounded once
        found = _grid_sample(x.to(float32), grid.to(float32), mode, padding_mode, corners)
        return found if found is NotImplemented else found.to(x.dtype)
    if not _fits(x, grid, mode):
        return NotImplemented
    y = empty_contiguous((*x._shape[:2], *grid._shape[1:-1]), float32, x.device)
    _FORWARD.launch(y.numel() >> 7, y, dense(x), dense(grid), *_numbers(x, grid, mode, padding_mode, corners))
    return y


@claims("grid_sample_backward")
def _grid_sample_backward(
    g: Tensor, x: Tensor, grid: Tensor, mode: str, padding_mode: str, corners: bool
) -> Any:  # fmt: skip
    if is_half(x) and x.dtype is grid.dtype is g.dtype:
        wide = x.detach().to(float32), grid.detach().to(float32)
        for of, given in zip(wide, (x, grid), strict=True):
            set_requires_grad(of, given.requires_grad)
        found = _grid_sample_backward(g.to(float32), *wide, mode, padding_mode, corners)
        return found if found is NotImplemented else tuple(t if t is None else t.to(g.dtype) for t in found)
    if not _fits(x, grid, mode) or g.dtype is not float32:
        return NotImplemented
    grad_x = empty_contiguous(x._shape, float32, x.device) if x.requires_grad else None
    grad_grid = empty_contiguous(grid._shape, float32, x.device) if grid.requires_grad else None
    if g.numel():
        _BACKWARD.launch(
            g.numel() >> 6, grad_x, grad_grid, dense(x), dense(grid), dense(g),
            *_numbers(x, grid, mode, padding_mode, corners),
        )  # fmt: skip
    else:
        return NotImplemented  # zeros
    return grad_x, grad_grid


# ---- another size


_RESAMPLE = KERNELS["resample"]
_MOST = (1 << 31) - 1  # of a sum of bytes


@constants(64)
def _tables(taps: Taps, weights: DType) -> tuple[Tensor, Tensor, Tensor]:
    """starts (out + 1,), places (k,), weights (k,)."""
    return tensor_of(taps.starts, int32), tensor_of(taps.places, int32), tensor_of(taps.weights, weights)


def _along(x: Tensor, dim: int, taps: Taps, weights: DType) -> Any:
    """The samples along a dim, in the order in which x lies in memory."""
    if IN_BROWSER or _RESAMPLE.name not in x.device.backend.kernels:
        return NotImplemented
    if not is_packed(x):
        x = dense(x)
    order = range(len(x._shape)) if x.is_contiguous() else sorted(range(len(x._shape)), key=lambda d: -x.strides[d])
    lying = [x._shape[d] for d in order]
    at = order.index(dim)
    outer, inner = prod(lying[:at]), prod(lying[at + 1 :])
    lying[at] = taps.out
    y = empty_contiguous(tuple(lying), x.dtype, x.device)
    entries = len(taps.places)
    tables = [table.to(x.device) for table in _tables(taps, weights)]
    _RESAMPLE.launch(
        outer * inner * entries >> 10, y, x, *tables, outer, taps.size, taps.out, inner, entries,
        CODES[x.dtype], taps.precision,
    )  # fmt: skip
    if x.is_contiguous():
        return y
    places = [order.index(d) for d in range(len(order))]
    return make(y._storage, tuple(lying[i] for i in places), tuple(y.strides[i] for i in places), y.dtype)


@claims("_resampled")
def _resampled(x: Tensor, dim: int, taps: Taps) -> Any:
    return _along(x, dim, taps, float32) if x.dtype is float32 else NotImplemented


@claims("_resampled_bytes")
def _resampled_bytes(x: Tensor, dim: int, taps: Taps) -> Any:
    largest = 255 * np.add.reduceat(abs(taps.weights), taps.starts[:-1]).max() + (1 << taps.precision)
    return _along(x, dim, taps, int32) if x.dtype is uint8 and largest <= _MOST else NotImplemented

"""Pictures sampled at places of a grid (native/grid_sample.c)."""

from __future__ import annotations

from math import prod
from typing import Any

from ..dtype import float32
from ..launch import KERNELS
from ..native import IN_BROWSER
from ..op import claims
from ..operands import dense
from ..ops.resample import grid_sample as _grid_sample_function  # noqa: F401 (defines the op)
from ..tensor import Tensor, empty_contiguous

_FORWARD, _BACKWARD = KERNELS["grid_sample_f32"], KERNELS["grid_sample_backward_f32"]
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}


def _fits(x: Tensor, grid: Tensor, mode: str) -> bool:
    if IN_BROWSER or not x.dtype is grid.dtype is float32 or len(x.shape) != 4 or mode == "bicubic":
        return False
    # Places are float32, which tells whole numbers apart up to 2^24.
    return 0 < x.shape[2] * x.shape[3] < 1 << 31 and max(x.shape[2:]) <= 1 << 24


def _numbers(x: Tensor, grid: Tensor, mode: str, padding_mode: str, corners: bool) -> tuple[int, ...]:
    return *x.shape, prod(grid.shape[1:-1]), int(mode == "nearest"), _PADDING[padding_mode], int(corners)


@claims("_grid_sample")
def _grid_sample(x: Tensor, grid: Tensor, mode: str, padding_mode: str, corners: bool) -> Any:
    if not _fits(x, grid, mode):
        return NotImplemented
    y = empty_contiguous((*x.shape[:2], *grid.shape[1:-1]), float32, x.device)
    _FORWARD.launch(y.numel() >> 7, y, dense(x), dense(grid), *_numbers(x, grid, mode, padding_mode, corners))
    return y


@claims("grid_sample_backward")
def _grid_sample_backward(
    g: Tensor, x: Tensor, grid: Tensor, mode: str, padding_mode: str, corners: bool
) -> Any:  # fmt: skip
    if not _fits(x, grid, mode) or g.dtype is not float32:
        return NotImplemented
    grad_x = empty_contiguous(x.shape, float32, x.device) if x.requires_grad else None
    grad_grid = empty_contiguous(grid.shape, float32, x.device) if grid.requires_grad else None
    if g.numel():
        _BACKWARD.launch(
            g.numel() >> 6, grad_x, grad_grid, dense(x), dense(grid), dense(g),
            *_numbers(x, grid, mode, padding_mode, corners),
        )  # fmt: skip
    else:
        return NotImplemented  # zeros
    return grad_x, grad_grid

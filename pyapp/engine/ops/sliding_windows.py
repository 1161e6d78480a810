"""Sliding windows along dims, as views."""

from __future__ import annotations

from operator import index
from typing import Any

from ..declare import function
from ..op import op, view_op
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .create import zeros
from .padding import pad
from .view import _alias, _no_blocks, movedim, reshape


def _d_windows(g: Tensor, _: Any, x: Tensor, dim: int, size: int, step: int, dilation: int) -> Any:
    return (_add_windows(g, x._shape[dim], dim, step, dilation),)


@view_op(_d_windows, "_windows")
def _windows(x: Tensor, dim: int, size: int, step: int, dilation: int) -> Tensor:
    """A view: dim counts the windows, a new last dim holds the `size` elements of each, `dilation` apart."""
    _no_blocks(x, "unfold")
    count = (x._shape[dim] - (size - 1) * dilation - 1) // step + 1
    stride = x.strides[dim]
    shape = (*x._shape[:dim], count, *x._shape[dim + 1 :], size)
    return _alias(x, shape, (*x.strides[:dim], stride * step, *x.strides[dim + 1 :], stride * dilation))


def _d_add_windows(g: Tensor, _: Any, windows: Tensor, total: int, dim: int, step: int, dilation: int) -> Any:
    return (_windows(g, dim, windows._shape[-1], step, dilation),)


@op(vjp=_d_add_windows, saves="none", name="_add_windows")
def _add_windows(windows: Tensor, total: int, dim: int, step: int, dilation: int) -> Tensor:
    """The transpose of _windows: the elements of each window are summed at their origin, in a dim of `total`."""
    *shape, size = windows._shape
    if dilation == 1 < step < size and shape[dim]:
        return _add_blocks(windows, total, dim, step)
    whole = zeros((*shape[:dim], total, *shape[dim + 1 :]), dtype=windows.dtype, device=windows.device)
    last = (shape[dim] - 1) * step + 1
    for i in range(size):
        whole[(slice(None),) * dim + (slice(i * dilation, i * dilation + last, step),)].add_(windows.select(-1, i))
    return whole


def _add_blocks(windows: Tensor, total: int, dim: int, step: int) -> Tensor:
    """_add_windows in a few large sums: part k of window w, `step` long, goes to block w + k."""
    *shape, size = windows._shape
    count, parts = shape[dim], -(-size // step)
    length = count + parts - 1
    blocks = zeros((*shape[:dim], length, *shape[dim + 1 :], step), dtype=windows.dtype, device=windows.device)
    for k in range(parts):
        part = windows[..., k * step : (k + 1) * step]
        blocks.narrow(dim, k, count).narrow(-1, 0, part._shape[-1]).add_(part)
    whole = reshape(movedim(blocks, -1, dim + 1), (*shape[:dim], length * step, *shape[dim + 1 :]))
    if total > length * step:
        return pad(whole, (0, 0) * (whole.ndim - 1 - dim) + (0, total - length * step))
    return whole.narrow(dim, 0, total)


def windows(
    x: Tensor, dim: int, size: int, step: int, dilation: int = 1, name: str = "unfold", least: int = 1
) -> Tensor:
    """_windows, checked: at least one window must fit, of `least` elements or more."""
    d = normalize_dim(dim, x.ndim, name)
    length = x._shape[d] if x.ndim else 1
    if size < least or step < 1 or dilation < 1:
        raise ValueError(f"{name}: size {size}, step {step} and dilation {dilation} must be positive")
    if (size - 1) * dilation + 1 > length:
        reach = (size - 1) * dilation + 1
        raise ValueError(
            f"{name}: Kernel size can't be greater than actual input size: a window of {reach} does not fit dim {dim} "
            f"of {describe(x)}"
        )
    return _windows(x, d, size, step, dilation) if x.ndim else reshape(x, 1).narrow(0, 0, size)


@function(method=True)
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` along a dim, `step` apart: a view, with the elements of each in a new last dim."""
    return windows(x, dimension, index(size), index(step), least=0)

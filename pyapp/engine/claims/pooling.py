"""Pools of one to three spatial dims, which are three for the kernels: fewer dims get leading sizes of 1."""

from __future__ import annotations

from typing import Any

from ..dtype import int64
from ..element_types import CODES
from ..launch import KERNELS
from ..op import claims
from ..operands import dense
from ..tensor import Tensor, empty_contiguous

_MAX, _MAX_BACKWARD, _MEAN, _MEAN_BACKWARD = (
    KERNELS[n] for n in ("max_pool", "max_pool_backward", "avg_pool", "avg_pool_backward")
)


def _slots(x: Tensor, windows: Any) -> tuple[int, ...] | None:
    """The type, the planes and the geometry as slots of a record; None where there is no kernel for them."""
    if not x.dtype.is_floating_point or x.dtype.itemsize < 2 or min(*windows.out, *windows.sizes) < 1:
        return None
    if min(windows.stride) < 1 or min(windows.dilation) < 1 or min(windows.padding) < 0 or min(windows.kernel) < 0:
        return None
    first = x.ndim - windows.dims
    planes = 1
    for size in x.shape[:first]:
        planes *= size
    ones, zeros = (1,) * (3 - windows.dims), (0,) * (3 - windows.dims)
    return (
        CODES[x.dtype], planes, *ones, *windows.sizes, *ones, *windows.out, *ones, *windows.kernel,
        *ones, *windows.stride, *zeros, *windows.padding, *ones, *windows.dilation,
    )  # fmt: skip


def _work(x: Tensor) -> int:
    return 2 * x.numel() >> 10


def _of_windows(x: Tensor, windows: Any, dtype: Any) -> Tensor:
    return empty_contiguous((*x.shape[: x.ndim - windows.dims], *windows.out), dtype, x.device)


@claims("_max_of_windows")
def _max_of_windows(x: Tensor, windows: Any) -> Any:
    slots = _slots(x, windows)
    if slots is None:
        return NotImplemented
    y = _of_windows(x, windows, x.dtype)
    _MAX.launch(_work(x), y, None, dense(x), *slots)
    return y


@claims("_places_of_max")
def _places_of_max(x: Tensor, windows: Any) -> Any:
    slots = _slots(x, windows)
    if slots is None:
        return NotImplemented
    places = _of_windows(x, windows, int64)
    _MAX.launch(_work(x), None, places, dense(x), *slots)
    return places


@claims("max_of_windows_backward")
def _max_of_windows_backward(grad: Tensor, x: Tensor, windows: Any) -> Any:
    slots = _slots(x, windows)
    if slots is None or grad.dtype is not x.dtype:
        return NotImplemented
    grad_x = empty_contiguous(x.shape, x.dtype, x.device)
    _MAX_BACKWARD.launch(_work(x), grad_x, dense(x), dense(grad), *slots)
    return grad_x, None


@claims("_mean_of_windows")
def _mean_of_windows(x: Tensor, windows: Any) -> Any:
    slots = _slots(x, windows)
    if slots is None:
        return NotImplemented
    y = _of_windows(x, windows, x.dtype)
    _MEAN.launch(_work(x), y, dense(x), *slots, int(windows.counted), windows.divisor)
    return y


@claims("mean_of_windows_backward")
def _mean_of_windows_backward(grad: Tensor, x: Tensor, windows: Any) -> Any:
    slots = _slots(x, windows)
    if slots is None or grad.dtype is not x.dtype:
        return NotImplemented
    grad_x = empty_contiguous(x.shape, x.dtype, x.device)
    _MEAN_BACKWARD.launch(_work(x), grad_x, dense(grad), *slots, int(windows.counted), windows.divisor)
    return grad_x, None

"""Pools of one to three spatial dims, which are three for the kernels: fewer dims get leading sizes of 1."""

from __future__ import annotations

from typing import Any

from ..device import cpu
from ..dtype import DType, float32, float64, int64
from ..element_types import CODES
from ..launch import KERNELS
from ..native import IN_BROWSER
from ..op import claims
from ..operands import dense, is_half
from ..tensor import Tensor, empty_contiguous
from .layouts import in_type

_MAX, _MAX_BACKWARD, _MEAN, _MEAN_BACKWARD = (
    KERNELS[n] for n in ("max_pool", "max_pool_backward", "avg_pool", "avg_pool_backward")
)


def _slots(x: Tensor, windows: Any, *, compares: bool = False) -> tuple[int, ...] | None:
    """The type, the planes and the geometry as slots of a record; None where there is no kernel for them. Kernels that
    compare elements take int64, too.
    """
    if x.dtype.itemsize < 2 or min(*windows.out, *windows.sizes) < 1:
        return None
    if not (x.dtype.is_floating_point or (compares and x.dtype is int64 and _takes_integers(x, windows))):
        return None
    if min(windows.stride) < 1 or min(windows.dilation) < 1 or min(windows.padding) < 0 or min(windows.kernel) < 0:
        return None
    first = x.ndim - windows.dims
    planes = 1
    for size in x._shape[:first]:
        planes *= size
    ones, zeros = (1,) * (3 - windows.dims), (0,) * (3 - windows.dims)
    return (
        CODES[x.dtype], planes, *ones, *windows.sizes, *ones, *windows.out, *ones, *windows.kernel,
        *ones, *windows.stride, *zeros, *windows.padding, *ones, *windows.dilation,
    )  # fmt: skip


def _takes_integers(x: Tensor, windows: Any) -> bool:
    """Whether the kernel compares int64: on processors, in windows of a given size."""
    return x.device is cpu and not IN_BROWSER and min(windows.kernel) > 0


def _compared(x: Tensor) -> DType:
    """The dtype in which the kernel compares the elements: they are the same numbers there."""
    if x.dtype.category != 1:
        return float32 if is_half(x) and x.device is cpu else x.dtype
    return float32 if x.dtype.itemsize < 4 else float64 if x.dtype.itemsize == 4 else x.dtype


def _work(x: Tensor) -> int:
    return 2 * x.numel() >> 10


def _of_windows(x: Tensor, windows: Any, dtype: Any) -> Tensor:
    return empty_contiguous((*x._shape[: x.ndim - windows.dims], *windows.out), dtype, x.device)


@claims("_max_of_windows")
def _max_of_windows(x: Tensor, windows: Any) -> Any:
    kind, x = x.dtype, in_type(x, _compared(x))
    slots = _slots(x, windows, compares=True)
    if slots is None:
        return NotImplemented
    y = _of_windows(x, windows, x.dtype)
    _MAX.launch(_work(x), y, None, dense(x), *slots)
    return in_type(y, kind)


@claims("_places_of_max")
def _places_of_max(x: Tensor, windows: Any) -> Any:
    x = in_type(x, _compared(x))
    slots = _slots(x, windows, compares=True)
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
    grad_x = empty_contiguous(x._shape, x.dtype, x.device)
    _MAX_BACKWARD.launch(_work(x), grad_x, dense(x), dense(grad), *slots)
    return grad_x, None


_FEW = 1 << 10  # elements of 16 bits, which take less time than their conversion to float32


@claims("_mean_of_windows")
def _mean_of_windows(x: Tensor, windows: Any) -> Any:
    kind = x.dtype
    if is_half(x) and x.device is cpu and x.numel() > _FEW:
        x = in_type(x, float32)  # whose kernel has vectors
    slots = _slots(x, windows)
    if slots is None:
        return NotImplemented
    y = _of_windows(x, windows, x.dtype)
    _MEAN.launch(_work(x), y, dense(x), *slots, int(windows.counted), windows.divisor)
    return in_type(y, kind)


@claims("mean_of_windows_backward")
def _mean_of_windows_backward(grad: Tensor, x: Tensor, windows: Any) -> Any:
    slots = _slots(x, windows)
    if slots is None or grad.dtype is not x.dtype:
        return NotImplemented
    grad_x = empty_contiguous(x._shape, x.dtype, x.device)
    _MEAN_BACKWARD.launch(_work(x), grad_x, dense(grad), *slots, int(windows.counted), windows.divisor)
    return grad_x, None

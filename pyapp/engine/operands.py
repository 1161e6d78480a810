"""Operands of an op: dtype promotion, devices, numbers as tensors, gradients of broadcasting."""

from __future__ import annotations

from math import inf
from typing import Any

from . import dtype as _dtype
from .device import Device, cpu
from .dtype import DType, of_number, result_dtype
from .lazy import np
from .numpy_arrays import tensor_of
from .storage import constant_storage
from .tensor import Tensor, make
from .user_errors import describe


def standing(x: Any) -> tuple[DType, int]:
    """(dtype, standing) of an operand, for promotion."""
    if isinstance(x, Tensor):
        return x.dtype, 2 if x.shape else 0 if x.weak else 1
    return of_number(x), 0


def common_dtype(*operands: Any) -> DType:
    """The dtype in which these tensors and numbers meet."""
    return result_dtype([standing(x) for x in operands])


def same_device(name: str, *operands: Any) -> Device:
    """The one device of all tensors. RuntimeError when there are two."""
    devices = {x.device for x in operands if isinstance(x, Tensor)}
    if len(devices) > 1:
        raise RuntimeError(
            f"{name}: tensors are on {' and '.join(sorted(map(str, devices)))}; move them to one with .to(device)"
        )
    if not devices:
        raise TypeError(f"{name}: takes tensors, not {', '.join(map(describe, operands)) or 'nothing'}")
    return devices.pop()


def as_tensor(x: Any, like: Tensor) -> Tensor:
    """A number as a zero-dimensional tensor that does not widen `like`."""
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, (int, float, bool)) and not hasattr(x, "__float__"):
        raise TypeError(f"expected a tensor or a number, got {type(x).__name__}")
    kind = of_number(x)
    if like.dtype is _dtype.float64 and kind is _dtype.float32:
        kind = _dtype.float64  # or 0.1 would be rounded
    result = tensor_of(np.asarray(x, dtype=kind.numpy_name), kind)
    if like.device is not cpu:
        result = make(constant_storage(kind.itemsize, like.device), (), (), kind)
        result.storage.write(0, np.asarray(x, dtype=kind.numpy_name).tobytes())
    result.weak = True
    return result


def check_number(name: str, value: Any, dtype: DType) -> None:
    """ValueError for a number that a dtype cannot hold. As in torch, unsigned types take negative numbers of their
    size, which wrap, and float types infinities."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or dtype.category not in (1, 2):
        return
    if dtype.is_floating_point:
        fits = value != value or value in (inf, -inf) or abs(value) <= _LARGEST.get(dtype.name, 448.0)
    else:
        largest = 2 ** (8 * dtype.itemsize - (dtype.name[0] != "u")) - 1
        fits = -largest - (dtype.name[0] != "u") <= value <= largest
    if not fits:
        raise ValueError(f"{name}: {dtype} cannot hold {value!r:.40}")


_LARGEST = {
    "float64": inf, "float32": 3.4028234663852886e38, "bfloat16": 3.3895313892515355e38, "float16": 65504.0,
    "float8_e5m2": 57344.0,
}  # fmt: skip


def unbroadcast(gradient: Tensor, x: Any) -> Tensor | None:
    """The gradient of x, from that of what x was broadcast to; None for numbers and tensors that want none."""
    if not isinstance(x, Tensor) or not x.requires_grad:
        return None
    if gradient.shape != x.shape:
        extra = gradient.ndim - x.ndim
        dims = [
            *range(extra),
            *(i + extra for i, size in enumerate(x.shape) if size == 1 and gradient.shape[i + extra] != 1),
        ]
        gradient = gradient.sum(dims, keepdim=True)
        gradient = gradient.reshape(x.shape) if extra else gradient
    return gradient if gradient.dtype is x.dtype else gradient.to(x.dtype)


def is_plain(x: Any) -> bool:
    """A dense float32 tensor, as kernels take it."""
    return isinstance(x, Tensor) and x.dtype is _dtype.float32 and x.is_contiguous()


def dense(x: Tensor) -> Tensor:
    """x itself when dense, else a dense copy."""
    return x if x.is_contiguous() else x.contiguous()


def is_half(x: Tensor) -> bool:
    """Whether x is float16 or bfloat16, whose sums and squares are computed in float32, as in torch."""
    return x.dtype.is_floating_point and x.dtype.itemsize == 2

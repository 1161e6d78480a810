"""Operands of an op: dtype promotion, devices, numbers as tensors, gradients of broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from struct import error, pack
from typing import Any

from ..errors import UnsupportedTypeError
from . import dtype as _dtype
from .device import Device, cpu
from .dtype import DType, of_number, promote, result_dtype
from .lazy import np
from .numpy_arrays import to_bits
from .shape import Shape, dense_layout, normalize_dim
from .storage import CAPTURES, Storage
from .tensor import C_TYPES, Tensor, empty_contiguous, make, set_attribute
from .user_errors import describe


def with_priority(x: Any) -> tuple[DType, int]:
    """(dtype, priority) of an operand, for `result_dtype`: 2 for a tensor with dimensions, 1 for a zero-dimensional
    one, 0 for a number."""
    if isinstance(x, Tensor):
        return x.dtype, 2 if x._shape else 0 if x.weak else 1
    return of_number(x), 0


def common_dtype(*operands: Any) -> DType:
    """The dtype to which these tensors and numbers are promoted together."""
    if isinstance(operands[0], Tensor):
        kind = operands[0].dtype
        if not kind.is_storage_only:
            for x in operands:
                if not isinstance(x, Tensor) or x.dtype is not kind:
                    break
            else:
                return kind
    if len(operands) == 2:
        x, number = operands if isinstance(operands[0], Tensor) else operands[::-1]
        if (type(number) is int or type(number) is float) and isinstance(x, Tensor) and x._shape:
            if x.dtype.is_floating_point and not x.dtype.is_storage_only:
                return x.dtype
        if isinstance(number, Tensor) and x._shape and number._shape:
            return promote(x.dtype, number.dtype)
    return result_dtype([with_priority(x) for x in operands])


def at_home(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with zero-dimensional tensors of the CPU moved to the one other device that tensors are on, as
    torch takes them. The same tuple where there is nothing to move."""
    tensors = [x for x in args if isinstance(x, Tensor)]
    others = {x.device for x in tensors} - {cpu}
    ours = [x._shape for x in tensors if x.device is cpu]
    if len(others) != 1 or not ours or any(ours):
        return args
    device = others.pop()
    return tuple(x.to(device) if isinstance(x, Tensor) else x for x in args)


def moved(value: Any, device: Device) -> Any:
    """A tensor, or those in a list or tuple, on another device, detached; other values unchanged."""
    if isinstance(value, Tensor):
        return value.detach().to(device)
    if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        found = [moved(each, device) for each in value]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    return value


def same_device(name: str, *operands: Any) -> Device:
    """The device of all tensors. RuntimeError if they are on several; zero-dimensional ones of the CPU do not count
    beside others (`at_home`)."""
    found: Device | None = None
    for x in operands:
        if isinstance(x, Tensor) and x.device is not found:
            if found is not None:
                break
            found = x.device
    else:
        if found is not None:
            return found
    found = None
    for x in at_home(operands):
        if isinstance(x, Tensor) and x.device is not found:
            if found is not None:
                devices = {t.device for t in operands if isinstance(t, Tensor)}
                raise RuntimeError(
                    f"{name}: tensors are on {' and '.join(sorted(map(str, devices)))}; move them to one with "
                    ".to(device)"
                )
            found = x.device
    if found is None:
        raise TypeError(f"{name}: takes tensors, not {', '.join(map(describe, operands)) or 'nothing'}")
    return found


def as_tensor(x: Any, like: Tensor) -> Tensor:
    """A number as a zero-dimensional tensor on the device of `like`. In promotion it counts as a number."""
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, (int, float, bool, complex)) and not hasattr(x, "__float__"):
        raise TypeError(f"expected a tensor or a number, got {type(x).__name__}")
    kind = of_number(x)
    if type(x) is int and abs(x) < 1 << 63 and like.dtype in (_dtype.float32, _dtype.float64):
        kind = like.dtype  # to which it is promoted
    elif like.dtype.part is _dtype.float64 and kind.part is _dtype.float32:
        kind = _dtype.complex128 if kind.is_complex else _dtype.float64  # float32 would round 0.1
    if like.device is cpu and not CAPTURES.count and kind in C_TYPES and (type(x) is float or kind.has_gradient):
        result = empty_contiguous((), kind)
        C_TYPES[kind].from_address(result.address).value = x
    else:
        result = make(Storage.of_bytes(_bytes_of(x, kind), like.device), (), (), kind)
    set_attribute(result, "weak", True)
    return result


def tensor_of_number(x: Any) -> Tensor:
    """A number as a zero-dimensional tensor on the CPU, of the dtype that torch gives it."""
    kind = of_number(x)
    return make(Storage.of_bytes(_bytes_of(x, kind), cpu), (), (), kind)


def _bytes_of(x: Any, kind: DType) -> bytes:
    """The bytes of a number in a dtype."""
    if kind.is_bits:
        return to_bits(np.asarray(x), kind).tobytes()
    if type(x) is int or type(x) is float:
        try:
            return pack(kind.format, x)
        except (error, OverflowError):  # NumPy has infinities for such numbers, or says what is wrong
            pass
    return np.asarray(x, dtype=kind.numpy_name).tobytes()


def check_number(name: str, value: Any, dtype: DType) -> None:
    """ValueError for a number that a dtype cannot hold, RuntimeError for a complex one in a real dtype. As in torch,
    unsigned types accept negative whole numbers down to minus their largest number (they wrap), and float types accept
    infinities."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or dtype.category not in (1, 2):
        if isinstance(value, complex) and not dtype.is_complex:
            raise RuntimeError(f"{name}: {value!r:.40} is complex and does not go into {dtype}; take its .real")
        return
    if dtype.is_floating_point:
        fits = value != value or value in (inf, -inf) or abs(value) <= _LARGEST.get(dtype.name, 448.0)
    else:
        largest = 2 ** (8 * dtype.itemsize - (dtype.name[0] != "u")) - 1
        lowest = -largest - 1 if dtype.name[0] != "u" else 0 if isinstance(value, float) else -largest
        fits = lowest <= value <= largest
    if not fits:
        raise ValueError(f"{name}: {dtype} cannot hold {value!r:.40}")


_LARGEST = {
    "float64": inf, "float32": 3.4028234663852886e38, "bfloat16": 3.3895313892515355e38, "float16": 65504.0,
    "float8_e5m2": 57344.0,
}  # fmt: skip


def unbroadcast(gradient: Tensor, x: Any) -> Tensor | None:
    """The gradient of x from the gradient of its broadcast form: (broadcast shape) → x.shape, in x's dtype. None if x
    is a number or does not require a gradient."""
    if not isinstance(x, Tensor) or not x._requires_grad:
        return None
    if gradient._shape != x._shape:
        dims, keepdim, moved = _repeated_dims(gradient._shape, x._shape)
        gradient = gradient.sum(dims, keepdim)
        gradient = gradient.reshape(x._shape) if moved else gradient
    return gradient if gradient.dtype is x.dtype else gradient.to(x.dtype)


@lru_cache(4096)
def _repeated_dims(wide: Shape, shape: Shape) -> tuple[tuple[int, ...], bool, bool]:
    """(the dims that a broadcast of `shape` repeats; whether a sum over them keeps them; whether dims of size one are
    left before those of the shape)."""
    extra = len(wide) - len(shape)
    within = [i + extra for i, size in enumerate(shape) if size == 1 and wide[i + extra] != 1]
    return (*range(extra), *within), bool(within), bool(extra and within)


def refuse_complex(name: str, *operands: Any) -> None:
    """UnsupportedTypeError for complex tensors, where a function is for real numbers."""
    if any(isinstance(x, complex) or (isinstance(x, Tensor) and x.dtype.is_complex) for x in operands):
        raise UnsupportedTypeError(
            f"{name}: takes real numbers, not {', '.join(map(describe, operands))}; use abs(), or .real and .imag"
        )


def is_plain(x: Any) -> bool:
    """Whether x is a dense float32 tensor."""
    return isinstance(x, Tensor) and x.dtype is _dtype.float32 and x.is_contiguous()


def dense(x: Tensor) -> Tensor:
    """x itself if it is dense, otherwise a dense copy."""
    if x.strides == dense_layout(x._shape)[1] or x.is_contiguous():
        return x
    return x.contiguous() if x.dtype.is_quantized else x._row_major()


def is_half(x: Tensor) -> bool:
    """Whether x is float16 or bfloat16. Sums and squares of these are computed in float32, as in torch."""
    return x.dtype.is_floating_point and x.dtype.itemsize == 2


def check_extreme(name: str, x: Tensor, dim: Any, axes: Sequence[int]) -> None:
    """ValueError or IndexError where there is nothing along the dims (`axes`, which are `dim`) of which to take one."""
    if 0 in [x._shape[d] for d in axes]:
        raise (ValueError if dim is None else IndexError)(
            f"{name}: {describe(x)} has no elements along dim {dim if dim is not None else list(axes)}"
        )


def check_place(name: str, x: Tensor, dim: int | None) -> None:
    """IndexError where there is nothing along a dim (None: at all) of which to find the place of one."""
    if (x.numel() if dim is None else (*x._shape, 1)[normalize_dim(dim, x.ndim, name)]) == 0:
        raise IndexError(f"{name}: {describe(x)} has no elements" + ("" if dim is None else f" along dim {dim}"))

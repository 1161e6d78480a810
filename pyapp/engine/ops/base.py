"""What the primitives share: arrays in and out of NumPy, dtype promotion, gradients of broadcasting."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any

from .. import dtype as _dtype
from ..device import Device
from ..dtype import DType, as_dtype, of_number, result_dtype
from ..launch import refuse_capture
from ..lazy import np
from ..op import describe
from ..tensor import Tensor, adopt_array, empty_contiguous

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


def array_of(x: Any, dtype: DType | None = None) -> Array:
    """The NumPy array of a tensor or a number, in `dtype` (bfloat16 and 8-bit floats: as float32)."""
    if isinstance(x, Tensor):
        array = from_bits(x.array(), x.dtype) if x.dtype.is_bits else x.array()
    else:
        array = np.asarray(x)
        if array.dtype.kind in "OUS":
            raise TypeError(f"expected a tensor or a number, got {x!r:.80}")
    if dtype is None:
        return array
    name = "float32" if dtype.is_bits else dtype.numpy_name
    if array.dtype == name:
        return array
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(name)


def tensor_of(array: Any, dtype: DType | None = None) -> Tensor:
    """A tensor over a NumPy result, converted to `dtype`."""
    array = np.asarray(array)
    if dtype is None:
        return adopt_array(array)
    if dtype.is_bits:
        return adopt_array(to_bits(array, dtype), dtype)
    if array.dtype != dtype.numpy_name:
        array = array.astype(dtype.numpy_name)
    return adopt_array(array, dtype)


def from_bits(bits: Array, dtype: DType) -> Array:
    """What NumPy keeps as bits, as float32."""
    if dtype is _dtype.bfloat16:
        return bits_to_float32(bits)
    return _float8_values(dtype)[bits]


def to_bits(array: Array, dtype: DType) -> Array:
    """Numbers to the bits of bfloat16 or an 8-bit float, by way of float32, as torch does it."""
    with np.errstate(invalid="ignore", over="ignore"):
        values = array.astype(np.float32, copy=False)
    return float32_to_bits(values) if dtype is _dtype.bfloat16 else _float32_to_float8(values, dtype)


@cache
def _float8_values(dtype: DType) -> Array:
    """The value of each of the 256 codes: e4m3fn has no infinities and one NaN of each sign, e5m2 is like float16."""
    codes = np.arange(256)
    if dtype is _dtype.float8_e5m2:
        return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    exponent, fraction = (codes >> 3) & 15, codes & 7
    size = np.where(exponent == 0, np.ldexp(fraction / 8, -6), np.ldexp(1 + fraction / 8, exponent - 7))
    size[codes & 127 == 127] = np.nan
    return np.where(codes < 128, size, -size).astype(np.float32)


def _float32_to_float8(values: Array, dtype: DType) -> Array:
    """To the nearest code, ties to even; what is too large becomes the largest number (e4m3fn) or infinite
    (e5m2), as in torch 2.13.
    """
    last = 126 if dtype is _dtype.float8_e4m3fn else 123  # the largest finite code
    known = _float8_values(dtype)[: last + 1].astype(np.float64)
    between = np.append((known[1:] + known[:-1]) / 2, known[-1] + (known[-1] - known[-2]) / 2)
    size = np.abs(values).astype(np.float64)
    code = np.searchsorted(between, size)  # the lower one where a value lies in the middle
    middle = np.isin(size, between) & (code % 2 == 1)
    code = np.where(np.isnan(size), 127, np.minimum(code + middle, 126 if last == 126 else 124))
    return (code + np.where(np.signbit(values), 128, 0)).astype(np.uint8)


def bits_to_float32(bits: Array) -> Array:
    """bfloat16 bits to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float32_to_bits(values: Array) -> Array:
    """float32 to bfloat16 bits, to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).reshape(values.shape)


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


def computed(name: str) -> None:
    """A primitive is about to compute with NumPy, which no Graph can replay."""
    refuse_capture(name)


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
        gradient = gradient.sum(dims, keepdim=True).reshape(x.shape)
    return gradient if gradient.dtype is x.dtype else gradient.to(x.dtype)


def is_plain(x: Any) -> bool:
    """A dense float32 tensor, as kernels take it."""
    return isinstance(x, Tensor) and x.dtype is _dtype.float32 and x.is_contiguous()


def dense(x: Tensor) -> Tensor:
    """x itself when dense, else a dense copy."""
    return x if x.is_contiguous() else x.contiguous()


__all__ = [
    "Tensor", "adopt_array", "array_of", "as_dtype", "as_tensor", "bits_to_float32", "check_number", "common_dtype",
    "computed", "dense",
    "empty_contiguous", "float32_to_bits", "is_plain", "same_device", "tensor_of", "unbroadcast",
]  # fmt: skip


def definition_gradient(op: Any, gradient: Tensor, *args: Any) -> tuple[Any, ...]:
    """Gradients of an op through its definition, on the tape: where no kernel takes the dtype, or for second order.

    Each argument is seen through a node of its own, behind which the walk does not go: one argument may have been made
    of another, or be the same tensor.
    """
    from ..autograd import STATE, edge_of, enable_grad, gradients_at
    from .view import permute

    second_order = STATE.enabled
    wanted = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    twins = list(args)
    with enable_grad():
        for i in wanted:
            twin = args[i].detach().requires_grad_() if not second_order else args[i]
            twins[i] = permute(twin, range(twin.ndim))
        output = op.definition(*twins)
    edges = [edge_of(twins[i]) for i in wanted]
    stop = frozenset(id(edge) for edge in edges)
    by_edge = gradients_at(edges, [output], [gradient], second_order, second_order, stop)
    found = [by_edge.get(id(edge)) for edge in edges]
    result: list[Any] = [None] * len(args)
    for i, g in zip(wanted, found, strict=True):
        result[i] = g
    return tuple(result)

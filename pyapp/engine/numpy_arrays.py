"""Arrays in and out of NumPy: tensors to arrays and back, the bits of bfloat16 and of 8-bit floats."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from . import dtype as _dtype
from .dtype import DType
from .lazy import np
from .tensor import Tensor, adopt_array

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


def array_of(x: Any, dtype: DType | None = None) -> Array:
    """The NumPy array of a tensor or a number, in `dtype` (bfloat16 and 8-bit floats: as float32)."""
    if isinstance(x, Tensor):
        array = np.asarray(from_bits(x.array(), x.dtype)) if x.dtype.is_bits else x.array()  # NumPy gives scalars, too
    else:
        array = np.asarray(x)
        if array.dtype.kind in "OUS":
            raise TypeError(f"expected a tensor or a number, got {x!r:.80}")
    if dtype is None:
        return array
    if dtype.is_quantized:
        raise TypeError(f"a {dtype} tensor has no elements to view: convert it with .to(float32)")
    name = "float32" if dtype.is_bits else dtype.numpy_name
    if array.dtype == name:
        return array
    if array.dtype.kind == "c" and not dtype.is_complex:
        array = array.real
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(name)


AT_DIMS = 32  # of ufunc.at: NumPy 2 ends the process where there are more


def combine_at(ufunc: Any, whole: Array, index: Any, values: Any) -> None:
    """As ufunc.at(whole, index, values), for contiguous arrays of any number of dims."""
    if max(whole.ndim, np.ndim(values)) > AT_DIMS:
        places = np.arange(whole.size).reshape(whole.shape)[index]
        whole, index, values = whole.reshape(-1), places.reshape(-1), np.broadcast_to(values, places.shape).reshape(-1)
    ufunc.at(whole, index, values)


def tensor_of(array: Any, dtype: DType | None = None) -> Tensor:
    """A tensor over a NumPy result, converted to `dtype`."""
    array = np.asarray(array)
    if dtype is None:
        return adopt_array(array)
    if dtype.is_bits:
        return adopt_array(to_bits(array.real, dtype), dtype)
    if dtype.is_quantized:
        raise TypeError(
            f"{dtype} holds matrices in blocks, not single elements: convert a tensor with .to({dtype.name})"
        )
    if array.dtype != dtype.numpy_name:
        if array.dtype.kind == "c" and not dtype.is_complex:
            array = array.real
        with np.errstate(all="ignore"):  # numbers beyond the dtype become infinite, as in torch
            array = array.astype(dtype.numpy_name)
    return adopt_array(array, dtype)


def from_bits(bits: Array, dtype: DType) -> Array:
    """Bits of a dtype that NumPy lacks → float32."""
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


def int64_tensor(values: Any) -> Tensor:
    return tensor_of(np.asarray(values, dtype=np.int64), _dtype.int64)

"""Quantised tensors: x = (q - zero point) · scale. The products of whole numbers are exact."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import (
    SMALL_INTEGERS,
    ForeignArray,
    array_of,
    axes_of,
    element_name,
    element_of,
    made_of,
    rounded_to,
)
from .casting import cast_to
from .windows import settings, sides


def limits(element: str) -> tuple[int, int]:
    """The lowest and highest number of an integer type."""
    if element in SMALL_INTEGERS:
        return SMALL_INTEGERS[element]
    found = np.iinfo(element)
    return int(found.min), int(found.max)


def spread(part: Any, shape: Any, axis: int, block: int) -> Any:
    """A scale or zero point in a shape that broadcasts to x: one number, one for each entry of an axis, or blocks."""
    if part.ndim == 0 or (part.size == 1 and part.ndim <= 1):
        return part.reshape([1] * len(shape))
    if block:
        at = axes_of([axis], len(shape))[0]
        if part.ndim != len(shape) or part.shape[at] * block < shape[at]:
            raise ValueError(
                f"scales of shape {part.shape} do not fit blocks of {block} along axis {at} of {tuple(shape)}"
            )
        wide = np.repeat(part, block, at)
        return wide[tuple(slice(0, n) if d == at else slice(None) for d, n in enumerate(shape))]
    if part.ndim != 1:
        if part.ndim != len(shape):
            raise ValueError(f"a scale of shape {part.shape} does not fit x of shape {tuple(shape)}")
        return part
    at = axes_of([axis], len(shape))[0]
    if part.shape[0] != shape[at]:
        raise ValueError(f"{part.shape[0]} scales for {shape[at]} entries of axis {at}")
    return part.reshape([-1 if d == at else 1 for d in range(len(shape))])


def quantized(x: Any, scale: Any, zero: Any, element: str, kind: Any = np.float32) -> Any:
    """round(x / scale) + zero, within the type."""
    low, high = limits(element)
    with np.errstate(all="ignore"):
        steps = np.rint(x.astype(kind) / scale.astype(kind)).astype(np.float64)
    found = np.clip(np.nan_to_num(steps + zero, posinf=high, neginf=low), low, high).astype(np.int64)
    if element in SMALL_INTEGERS:
        return ForeignArray(element, found.astype(np.int8 if low < 0 else np.uint8))
    return made_of(found, element)


@operator("QuantizeLinear")
def quantize_linear(
    x: Tensor, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    """x / scale + zero point, rounded to the type of the zero point, or to `output_dtype` (uint8)."""
    element = element_of(zero) if zero is not None else element_name(output_dtype) if output_dtype else "uint8"
    kind = {"float64": np.float64}.get(element_name(precision) if precision else element_of(scale), np.float32)
    factor = spread(array_of(scale), x.shape, axis, block_size)
    if "float" in element:
        with np.errstate(all="ignore"):
            return ForeignArray(
                element, rounded_to(element, array_of(x).astype(kind) / factor.astype(kind), bool(saturate))
            )
    offset = 0 if zero is None else spread(array_of(zero), x.shape, axis, block_size).astype(np.int64)
    values = array_of(x)
    if x.dtype.category == 1:
        values = values.astype(np.float64 if kind is np.float64 else np.float32)
    if element_of(scale) == "float16" and not precision:
        values = values.astype(np.float16).astype(np.float32)
    return quantized(values, factor, offset, element, kind)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    """(x - zero point) · scale, in the type of the scale or `output_dtype`."""
    element = element_name(output_dtype) if output_dtype else element_of(scale)
    factor = spread(array_of(scale), x.shape, axis, block_size).astype(np.float32)
    values = array_of(x)
    if zero is not None:
        offset = spread(array_of(zero), x.shape, axis, block_size)
        wide = np.float32 if values.dtype.kind == "f" else np.int64
        values = values.astype(wide) - offset.astype(wide)
    return made_of(values.astype(np.float32) * factor, element, x.device)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> Any:
    """x in uint8, its scale and its zero point, which cover its range and 0."""
    return dynamic(array_of(x))


def dynamic(values: Any) -> tuple[Any, Any, Any]:
    """(uint8, scale, zero point) of an array."""
    low = np.float32(min(0.0, values.min())) if values.size else np.float32(0)
    high = np.float32(max(0.0, values.max())) if values.size else np.float32(0)
    scale = np.float32((high - low) / np.float32(255)) or np.float32(1)
    zero = np.uint8(np.clip(np.rint((0 - low) / scale), 0, 255))
    found = np.clip(np.rint(values / scale) + zero, 0, 255).astype(np.uint8)
    return made_of(found), made_of(np.array(scale)), made_of(np.array(zero))


def centred(x: Any, zero: Any, axis: int) -> Any:
    """x - zero point in int32; zero points of one axis, or one for all."""
    values = array_of(x).astype(np.int32)
    if zero is None:
        return values
    offset = array_of(zero).astype(np.int32)
    if offset.size == 1:
        return values - offset.reshape(())
    if offset.ndim == 1:
        offset = offset.reshape([-1 if d == axis % values.ndim else 1 for d in range(values.ndim)])
    return values - offset


def exact_product(a: Any, b: Any) -> Any:
    """a @ b of whole numbers, exactly: through float64 where every sum fits into its 53 bits, which is much faster."""
    return np.rint(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


@operator("MatMulInteger")
def mat_mul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Tensor:
    """(a - its zero point) @ (b - its zero point) in int32."""
    return made_of(exact_product(centred(a, a_zero, -2), centred(b, b_zero, -1)).astype(np.int32))


def _scaled(found: Any, a_scale: Any, b_scale: Any, y_scale: Any, y_zero: Any, axis: int, rank: int) -> Any:
    """Whole sums → the quantised result."""

    def along(part: Any) -> Any:
        array = array_of(part).astype(np.float32)
        if array.size == 1:
            return array.reshape(())
        return array.reshape([-1 if d == axis % rank else 1 for d in range(rank)]) if array.ndim == 1 else array

    factor = along(a_scale) * along(b_scale)
    element = element_of(y_zero)
    if "float" in element:
        return cast_to(made_of(found * factor / along(y_scale)), element)
    return quantized(found * factor, along(y_scale), along(y_zero), element)


@operator("QLinearMatMul")
def q_linear_mat_mul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    rank = max(a.ndim, b.ndim)
    if "float" in element_of(a):
        plain = (array_of(a) - array_of(a_zero)) @ (array_of(b) - array_of(b_zero))
        return _scaled(plain, a_scale, b_scale, y_scale, y_zero, -1, rank)
    found = exact_product(centred(a, a_zero, -2), centred(b, b_zero, -1))
    return _scaled(found, a_scale, b_scale, y_scale, y_zero, -1, rank)


_CONVOLUTIONS = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
_EXACT = 1 << 24  # float32 has every whole number up to here


def _convolved(x: Any, w: Any, auto_pad: bytes, dilations: Any, group: int, pads: Any, strides: Any) -> Any:
    """The convolution of whole numbers (zero points taken off), exactly: by convolutions in float32 of as many channels
    as have sums that float32 holds."""
    dims = x.ndim - 2
    steps, apart = settings(dims, strides, dilations)
    widths = sides(x.shape[2:], w.shape[2:], steps, apart, pads, auto_pad)
    convolution = _CONVOLUTIONS.get(dims)
    if convolution is None:
        raise ValueError(f"takes 1 to 3 dims beside those of texts and channels, got {dims}")
    largest = max(int(np.abs(x).max(initial=0)), 1)
    inner = w.shape[1]
    sums = np.abs(w).astype(np.int64).sum(tuple(range(2, w.ndim))).cumsum(1)  # (outputs, inner): up to each channel
    found: Any = None
    first = 0
    while first < inner or found is None:
        before = sums[:, first - 1 : first] if first else 0
        fits = ((sums[:, first:] - before) * largest < _EXACT).all(0)
        count = max(int(fits.argmin()) if not fits.all() else inner - first, 1)
        channels = [g * inner + c for g in range(group) for c in range(first, first + count)]
        kind = np.float32 if fits.all() or count <= int(fits.argmin()) else np.float64  # one channel with many taps
        part, kernel = (np.ascontiguousarray(a, kind) for a in (x[:, channels], w[:, first : first + count]))
        y = convolution(
            made_of(part), made_of(kernel), None, tuple(steps), tuple(widths), tuple(apart), group
        ).numpy()  # fmt: skip
        found = y.astype(np.int64) if found is None else found + y.astype(np.int64)
        first += count
    return found


@operator("ConvInteger")
def conv_integer(
    x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *, auto_pad: bytes = b"NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    found = _convolved(centred(x, x_zero, 1), centred(w, w_zero, 0), auto_pad, dilations, group, pads, strides)
    return made_of(found.astype(np.int32))


@operator("QLinearConv")
def q_linear_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any, bias: Any = None,
        *,
    auto_pad: bytes = b"NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    found = _convolved(centred(x, x_zero, 1), centred(w, w_zero, 0), auto_pad, dilations, group, pads, strides)
    if bias is not None:
        found = found + array_of(bias).astype(np.int64).reshape(1, -1, *[1] * (found.ndim - 2))
    return _scaled(found, x_scale, w_scale, y_scale, y_zero, 1, found.ndim)

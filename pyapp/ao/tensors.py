"""Quantised tensors: steps, with the scale and the zero point that make them numbers."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from ..engine import Tensor, float32, float64, int64
from ..engine.ops import as_tensor
from ..engine.shape import Size
from .types import (
    QScheme,
    QuantizedType,
    bounds_of,
    per_channel_affine,
    per_tensor_affine,
    quint8,
    storage_of,
)

__all__ = ["QuantizedTensor", "choose_parameters", "quantize_per_channel", "quantize_per_tensor",
           "quantize_per_tensor_dynamic", "rounded", "steps_of"]  # fmt: skip
__top_level__ = ["quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic"]


SMALL = 6.1e-5  # the least scale of torch's kernels


def steps_of(x: Tensor, scale: Any, zero_point: Any, low: int, high: int, axis: int | None = None) -> Tensor:
    """The steps, as float32 of x's shape, that are nearest to x: scale and zero_point are numbers or tensors of one, or
    (C,) along `axis`. A zero point that is no whole number is added before the rounding."""
    between = isinstance(zero_point, Tensor) and zero_point.dtype.is_floating_point
    scale, zero = (_along(as_tensor(v, dtype=float32), x, axis) for v in (scale, zero_point))
    steps = x * scale.reciprocal()
    return ((steps + zero).round() if between else steps.round() + zero).clamp(low, high)


def rounded(x: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Tensor:
    """x on steps, as float32 of the same shape: what a quantised tensor stands for."""
    return (steps_of(x, scale, zero_point, low, high) - float(zero_point)) * float(scale)


def _along(value: Tensor, x: Tensor, axis: int | None) -> Tensor:
    if axis is None:
        return value.reshape(()) if value.numel() == 1 else value
    return value.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])


def choose_parameters(low: Any, high: Any, least: int, greatest: int, symmetric: bool = False) -> tuple[Any, Any]:
    """(scale, zero_point) that cover low .. high and 0 with the steps least .. greatest, as torch's kernels choose:
    numbers or arrays (C,) → arrays of that shape. `symmetric`: around 0, where numbers lie on both sides of it.
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    around = (low < 0) & (high > 0) & symmetric
    half = (greatest - least) // 2
    widest = np.maximum(np.abs(low / -(half + 1)), np.abs(high / half))
    low, high = np.where(around, widest * -(half + 1), low), np.where(around, widest * half, high)
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    scale = (high - low) / (greatest - least)
    scale = np.where(scale > 0, scale, 0.1)
    wider = np.maximum(SMALL / scale, 1.0)  # scales are at least SMALL
    scale, low, high = scale * wider, low * wider, high * wider
    with np.errstate(invalid="ignore"):  # of an infinite range the zero point is 0
        below, above = np.nan_to_num(low / scale), np.nan_to_num(high / scale)
    by_low, by_high = least - below, greatest - above
    error_low, error_high = abs(least) + np.abs(below), abs(greatest) + np.abs(above)
    first = np.where(error_low < error_high, by_low, by_high)
    first = np.where(around, (least + greatest) / 2, first)
    return scale, np.clip(np.rint(first), least, greatest).astype(np.int64)


class QuantizedTensor:
    """`steps` (…) of whole numbers, which stand for (steps - zero_point) * scale; per channel of `axis`, where scale
    and zero_point have its size. It computes nothing: `dequantize()` gives floats, `int_repr()` the steps.
    """

    requires_grad = False
    is_quantized = True

    def __init__(
        self, steps: Tensor, scale: Tensor, zero_point: Tensor, dtype: QuantizedType, axis: int | None = None
    ) -> None:
        self._steps, self._scale, self._zero_point, self.dtype, self._axis = steps, scale, zero_point, dtype, axis

    @property
    def shape(self) -> Any:
        return self._steps.shape

    _shape = shape  # as the engine reads it

    def size(self, dim: int | None = None) -> Any:
        return Size(self.shape) if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        return self._steps.ndim

    def dim(self) -> int:
        return self._steps.ndim

    def numel(self) -> int:
        return self._steps.numel()

    @property
    def device(self) -> Any:
        return self._steps.device

    def qscheme(self) -> QScheme:
        return per_tensor_affine if self._axis is None else per_channel_affine

    def int_repr(self) -> Tensor:
        """The steps (…), whole numbers of the type's plain dtype."""
        return self._steps.clone()

    def dequantize(self) -> Tensor:
        """The numbers (…), float32."""
        scale, zero = (_along(v.to(float32), self._steps, self._axis) for v in (self._scale, self._zero_point))
        return (self._steps.to(float32) - zero) * scale

    def q_scale(self) -> float:
        return float(self._one(self._scale))

    def q_zero_point(self) -> int:
        return int(self._one(self._zero_point))

    def _one(self, value: Tensor) -> Any:
        if self._axis is not None:
            raise RuntimeError("Expected quantizer->qscheme() == kPerTensorAffine: each channel has its own; use "
                               "q_per_channel_scales() and q_per_channel_zero_points()")  # fmt: skip
        return value.item()

    def q_per_channel_scales(self) -> Tensor:
        return self._each(self._scale)

    def q_per_channel_zero_points(self) -> Tensor:
        return self._each(self._zero_point)

    def q_per_channel_axis(self) -> int:
        self._each(self._scale)
        return self._axis  # type: ignore[return-value]

    def _each(self, value: Tensor) -> Tensor:
        if self._axis is None:
            raise RuntimeError("the tensor has one scale for all channels; use q_scale() and q_zero_point()")
        return value

    def clone(self) -> QuantizedTensor:
        return QuantizedTensor(self._steps.clone(), self._scale, self._zero_point, self.dtype, self._axis)

    def detach(self) -> QuantizedTensor:
        return self

    def reshape(self, *shape: Any) -> QuantizedTensor:
        if self._axis is not None:
            raise NotImplementedError("reshape: of a tensor with one scale for all channels; dequantize() it first")
        return QuantizedTensor(self._steps.reshape(*shape), self._scale, self._zero_point, self.dtype)

    view = reshape

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, index: Any) -> QuantizedTensor:
        if self._axis is not None:
            raise NotImplementedError("indexing a tensor with a scale for each channel: dequantize() it first")
        return QuantizedTensor(self._steps[index], self._scale, self._zero_point, self.dtype)

    def __repr__(self) -> str:
        numbers = repr(self.dequantize())[:-1]
        size, scheme = f"size={tuple(self.shape)}, dtype={self.dtype!r}", f"quantization_scheme={self.qscheme()!r}"
        if self._axis is None:
            scale = f"scale={self.q_scale()}, zero_point={self.q_zero_point()}"
        else:
            scale = f"scale={self._scale!r}, zero_point={self._zero_point!r}, axis={self._axis}"
        return f"{numbers},\n       {size},\n       {scheme}, {scale})"


def _quantized(name: str, x: Tensor, scale: Any, zero_point: Any, dtype: QuantizedType, axis: int | None) -> Tensor:
    """The steps (…) in the type's plain dtype."""
    low, high = bounds_of(dtype)
    zero = as_tensor(zero_point)
    if not zero.dtype.is_floating_point and bool((zero < low).logical_or(zero > high).any()):
        raise RuntimeError(f"{name}: zero_point {zero.tolist()} is not between {low} and {high}, the steps of {dtype}")
    steps = steps_of(x.detach().to(float32), scale, zero_point, low, high, axis)
    if high >= 1 << 24:  # float32 has no such number, but the next one, which is too large
        steps = steps.to(int64).clamp(low, high)
    return steps.to(storage_of(dtype))


def quantize_per_tensor(input: Tensor, scale: Any, zero_point: Any, dtype: QuantizedType) -> QuantizedTensor:
    """input (…) in steps of `scale` (a number, or a tensor of one), of which `zero_point` stands for 0. RuntimeError
    for a zero point that is no step.
    """
    steps = _quantized("quantize_per_tensor", input, scale, zero_point, dtype, None)
    parameters = as_tensor(scale, dtype=float64).reshape(()), as_tensor(zero_point).reshape(())
    return QuantizedTensor(steps, *parameters, dtype)


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: QuantizedType
) -> QuantizedTensor:
    """The same with scales and zero points (C,), one for each index of `axis`. ValueError for another number."""
    for name, value in (("scales", scales), ("zero_points", zero_points)):
        if value.shape != (input.shape[axis],):
            raise ValueError(f"quantize_per_channel: {name} {tuple(value.shape)} is not ({input.shape[axis]},)")
    steps = _quantized("quantize_per_channel", input, scales, zero_points, dtype, axis)
    return QuantizedTensor(steps, scales.to(float64), zero_points, dtype, axis % input.ndim)


def quantize_per_tensor_dynamic(
    input: Tensor, dtype: QuantizedType = quint8, reduce_range: bool = False
) -> QuantizedTensor:
    """input (…) in steps that its own least and greatest number give; with `reduce_range` in half as many. RuntimeError
    for NaN and infinite numbers.
    """
    low, high = bounds_of(dtype)
    if reduce_range:
        low, high = low // 2, high // 2
    values = input.detach().to(float32)
    least, greatest = float(values.amin()), float(values.amax())
    if not isfinite(least) or not isfinite(greatest):
        raise RuntimeError(f"quantize_per_tensor_dynamic: the input goes from {least} to {greatest}, and steps need "
                           "finite numbers")  # fmt: skip
    scale, zero_point = choose_parameters(least, greatest, low, high)
    return quantize_per_tensor(values, float(scale), int(zero_point), dtype)

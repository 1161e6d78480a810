"""Rounding to the steps of a quantised type and back, for training that is aware of it."""

from __future__ import annotations

from typing import Any

from ..declare import function
from ..op import op
from ..tensor import Tensor
from .create import as_tensor


@function()
def fake_quantize_per_tensor_affine(x: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    """x on the steps `scale` from quant_min to quant_max, of which `zero_point` stands for 0: (…) → (…). The gradient
    is that of x where nothing was cut off, else 0. `scale` and `zero_point` are numbers, or tensors of one.
    """
    return _rounded("fake_quantize_per_tensor_affine", x, scale, zero_point, quant_min, quant_max)


@function()
def fake_quantize_per_channel_affine(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As fake_quantize_per_tensor_affine, with a scale and a zero_point (C,) for each index of the dim `axis`. A
    zero_point of floats is any number, which is added before the rounding.
    """
    name, shape = "fake_quantize_per_channel_affine", [1] * x.ndim
    shape[axis] = x._shape[axis]
    if scale._shape != (x._shape[axis],) or zero_point._shape != scale._shape:
        given = f"scale {tuple(scale.shape)} and zero_point {tuple(zero_point.shape)}"
        raise ValueError(f"{name}: {given} are not ({x.shape[axis]},)")
    return _rounded(name, x, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)


def _rounded(name: str, x: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Tensor:
    if low > high:
        raise ValueError(f"{name}: quant_min {low} is above quant_max {high}")
    between = isinstance(zero_point, Tensor) and zero_point.dtype.is_floating_point
    scale, zero = as_tensor(scale).to(x).detach(), as_tensor(zero_point).to(x).detach()
    if not between and bool((zero < low).logical_or(zero > high).any()):
        raise ValueError(f"{name}: zero_point lies between quant_min {low} and quant_max {high}")
    return _fake_quantized(x, scale, zero, float(low), float(high), between)


@op(name="_fake_quantized")
def _fake_quantized(x: Tensor, scale: Tensor, zero: Tensor, low: float, high: float, between: bool) -> Tensor:
    return (_steps(x, scale, zero, between).clamp(low, high) - zero) * scale


def _steps(x: Tensor, scale: Tensor, zero: Tensor, between: bool) -> Tensor:
    steps = x * scale.reciprocal()
    return (steps + zero).round() if between else steps.round() + zero


@_fake_quantized.gradient
def _d_fake_quantized(
    g: Tensor, _: Any, x: Tensor, scale: Tensor, zero: Tensor, low: float, high: float, between: bool
) -> Any:
    steps = _steps(x, scale, zero, between)
    return g * (steps >= low).logical_and(steps <= high).to(g.dtype), None, None

"""Quantised weights of layers: int8 or uint8 steps, as buffers, with their scales."""

from __future__ import annotations

from typing import Any

from ....engine import Tensor, float32, no_grad
from ....engine.ops import as_tensor, tensor
from ....nn import Module
from ...tensors import QuantizedTensor, quantize_per_channel, quantize_per_tensor
from ...types import QuantizedType, qint8

__all__ = ["OutputSteps", "QuantizedWeight", "quantized_by"]


def quantized_by(observer: Any, weight: Tensor) -> QuantizedTensor:
    """The weight (O, …) in the steps that an observer (or a module that rounds) gives after it has seen it."""
    with no_grad():
        observer(weight)
        scale, zero_point = observer.calculate_qparams()
        if not observer.qscheme.is_per_channel:
            return quantize_per_tensor(weight, float(scale), int(zero_point), observer.dtype)
        return quantize_per_channel(weight, scale, zero_point, getattr(observer, "ch_axis", 0), observer.dtype)


class QuantizedWeight(Module):
    """Base of the layers that have one. `weight()` gives it as a QuantizedTensor, `bias()` the bias or None."""

    dtype: QuantizedType = qint8

    def hold(self, weight: QuantizedTensor, bias: Any) -> None:
        """Makes buffers of a weight (O, …) and a bias (O,)."""
        self.dtype, self._axis = weight.dtype, weight._axis
        self.register_buffer("steps", weight.int_repr())
        self.register_buffer("weight_scale", as_tensor(weight._scale))
        self.register_buffer("weight_zero_point", as_tensor(weight._zero_point))
        self.register_buffer("bias_values", None if bias is None else bias.detach().to(float32))

    def weight(self) -> QuantizedTensor:
        return QuantizedTensor(self.steps, self.weight_scale, self.weight_zero_point, self.dtype, self._axis)

    def bias(self) -> Tensor | None:
        return self.bias_values

    def _weight_bias(self) -> tuple[QuantizedTensor, Tensor | None]:
        return self.weight(), self.bias()


class OutputSteps(Module):
    """Base of the layers whose results lie on steps of their own: `scale` and `zero_point`."""

    low, high = 0, 255

    def give(self, scale: Any, zero_point: Any, low: int = 0, high: int = 255) -> None:
        self.low, self.high = low, high
        self.register_buffer("output_scale", tensor(float(scale)))
        self.register_buffer("output_zero_point", tensor(int(zero_point)))

    @property
    def scale(self) -> float:
        return float(self.output_scale)

    @property
    def zero_point(self) -> int:
        return int(self.output_zero_point)

"""Activations as layers."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from .. import activations
from ..activations import softmax
from ..core import Layer
from ..masking import exclude
from .weight_rules import add_weight, set_rules

__all__ = ["ELU", "Activation", "LeakyReLU", "PReLU", "ReLU", "Softmax"]


class Activation(Layer):
    """An activation function by name, or any function of a tensor."""

    probe_scale = 1

    supports_masking = True
    converted = {"activation": activations.get}

    def __init__(self, activation: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.activation = activation

    def call(self, inputs: Tensor) -> Tensor:
        return self.activation(inputs)


class ReLU(Layer):
    """max(x, 0), with a slope below the threshold and a largest value if they are given."""

    probe_scale = 1

    supports_masking = True

    def __init__(
        self, max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0, **settings: Any
    ) -> None:
        super().__init__(**settings)
        for name, value in (("max_value", max_value), ("negative_slope", negative_slope), ("threshold", threshold)):
            if not (value is None and name == "max_value") and not (isinstance(value, (int, float)) and value >= 0):
                raise ValueError(f"ReLU: {name} is a number from 0 on, not {value!r:.40}")
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold

    def call(self, inputs: Tensor) -> Tensor:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    """x, or negative_slope * x below zero."""

    supports_masking = True

    def __init__(self, negative_slope: float = 0.3, **settings: Any) -> None:
        super().__init__(**settings)
        if not isinstance(negative_slope, (int, float)) or negative_slope < 0:
            raise ValueError(f"LeakyReLU: negative_slope is a number from 0 on, not {negative_slope!r:.40}")
        self.negative_slope = negative_slope

    def call(self, inputs: Tensor) -> Tensor:
        return activations.leaky_relu(inputs, self.negative_slope)


class PReLU(Layer):
    """x, or alpha * x below zero, with an alpha for each element that is trained; shared along `shared_axes`."""

    supports_masking = True

    def __init__(
        self, alpha_initializer: Any = "zeros", alpha_regularizer: Any = None, alpha_constraint: Any = None,
        shared_axes: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        set_rules(self, "alpha", alpha_initializer, alpha_regularizer, alpha_constraint)
        given = (shared_axes,) if isinstance(shared_axes, int) else shared_axes
        self.shared_axes = None if given is None else tuple(given)

    def build(self, input_shape: Any) -> None:
        sizes = [1 if axis in (self.shared_axes or ()) else size for axis, size in enumerate(input_shape)][1:]
        self.alpha = add_weight(self, "alpha", sizes)

    def call(self, inputs: Tensor) -> Tensor:
        return inputs.relu() - self.alpha * (-inputs).relu()


class ELU(Layer):
    """x, or alpha * (exp(x) - 1) below zero."""

    supports_masking = True

    def __init__(self, alpha: float = 1.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.alpha = alpha

    def call(self, inputs: Tensor) -> Tensor:
        return activations.elu(inputs, self.alpha)


class Softmax(Layer):
    """Probabilities along `axis`; what `mask` excludes (False) gets 0."""

    supports_masking = True

    def __init__(self, axis: Any = -1, **settings: Any) -> None:
        super().__init__(**settings)
        self.axis = axis

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None and mask.dtype.name != "bool":
            mask = mask > 0.5
        found = softmax(exclude(inputs, mask), self.axis)
        return found if mask is None else ops.where(mask, found, ops.zeros_like(found))

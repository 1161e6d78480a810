"""Products with a matrix of weights, and rows of one."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from .. import activations, constraints, initializers, regularizers
from ..core import Layer
from ..masking import set_mask

__all__ = ["Dense", "Embedding"]


class Dense(Layer):
    """activation(x @ kernel + bias); the kernel is (inputs, units)."""

    supports_masking = True

    def __init__(
        self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(activity_regularizer=activity_regularizer, **settings)
        if not isinstance(units, int) or units < 1:
            raise ValueError(f"Dense: units is a positive integer, not {units!r}")
        self.units, self.activation, self.use_bias = units, activations.get(activation), use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer, self.bias_regularizer = (
            regularizers.get(kernel_regularizer),
            regularizers.get(bias_regularizer),
        )
        self.kernel_constraint, self.bias_constraint = (
            constraints.get(kernel_constraint),
            constraints.get(bias_constraint),
        )
        self.bias: Tensor | None = None

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(
            (input_shape[-1], self.units), self.kernel_initializer, name="kernel",
            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint,
        )  # fmt: skip
        if self.use_bias:
            self.bias = self.add_weight(
                (self.units,), self.bias_initializer, name="bias", regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )  # fmt: skip

    def call(self, inputs: Tensor) -> Tensor:
        if inputs.shape[-1] != self.kernel.shape[0]:
            raise ValueError(
                f"layer {self.name} (Dense) was built for inputs whose last dim is {self.kernel.shape[0]}, got shape "
                f"{inputs.shape}"
            )
        if not inputs.dtype.is_floating_point:
            inputs = inputs.to(self.dtype)
        return self.activation(ops.linear(inputs, self.kernel.T, self.bias))


class Embedding(Layer):
    """Rows of a matrix (input_dim, output_dim) by their numbers: ids (...) -> (..., output_dim)."""

    def __init__(
        self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        settings.pop("input_length", None)
        super().__init__(**settings)
        self.input_dim, self.output_dim, self.mask_zero = input_dim, output_dim, mask_zero
        chosen = "random_uniform" if embeddings_initializer == "uniform" else embeddings_initializer
        self.embeddings_initializer = initializers.get(chosen)
        self.embeddings_regularizer = regularizers.get(embeddings_regularizer)
        self.embeddings_constraint = constraints.get(embeddings_constraint)

    def build(self, input_shape: Any) -> None:
        self.embeddings = self.add_weight(
            (self.input_dim, self.output_dim), self.embeddings_initializer, name="embeddings",
            regularizer=self.embeddings_regularizer, constraint=self.embeddings_constraint,
        )  # fmt: skip

    def call(self, inputs: Tensor) -> Tensor:
        ids = inputs.to("int64") if inputs.dtype.is_floating_point else inputs
        try:
            found = ops.embedding(self.embeddings, ids)
        except IndexError as error:
            low, high = int(ids.min()), int(ids.max())
            raise IndexError(
                f"layer {self.name} (Embedding) takes ids 0 … {self.input_dim - 1}, got {low} … {high}"
            ) from error
        return set_mask(found, self.compute_mask(inputs, None))

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """With mask_zero: which ids are not 0. Then 0 stands for "no word", and input_dim counts it."""
        return inputs != 0 if self.mask_zero else None

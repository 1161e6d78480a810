"""Products with a matrix of weights, and rows of one."""

from __future__ import annotations

import re
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.dtype import as_dtype
from .. import activations, constraints, initializers, regularizers
from ..masking import set_mask
from ..weight_attributes import AdaptedWeight
from .lora import LoraLayer

__all__ = ["Dense", "EinsumDense", "Embedding", "ReversibleEmbedding"]


class Dense(LoraLayer):
    """activation(x @ kernel + bias); the kernel is (inputs, units). With LoRA, A is (inputs, rank)."""

    supports_masking = True
    converted = {"activation": activations.get}
    kernel = AdaptedWeight("kernel")

    def __init__(
        self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(activity_regularizer=activity_regularizer, **settings)
        if not isinstance(units, int) or units < 1:
            raise ValueError(f"Dense: units is a positive integer, not {units!r}")
        self.units, self.activation, self.use_bias = units, activation, use_bias
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
        self._enable_given_lora()

    def call(self, inputs: Tensor) -> Tensor:
        kernel = self.kernel
        if inputs.shape[-1] != kernel.shape[0]:
            raise ValueError(
                f"layer {self.name} (Dense) was built for inputs whose last dim is {kernel.shape[0]}, got shape "
                f"{inputs.shape}"
            )
        if not inputs.dtype.is_floating_point:
            inputs = inputs.to(self.compute_dtype)
        return self.activation(ops.linear(inputs, kernel.T, self.bias))


class EinsumDense(LoraLayer):
    """activation(einsum(equation, x, kernel) + bias), as "abc,cd->abd"; "..." stands for any dims. `output_shape` has
    the sizes of one output, None where they are those of the input; the bias differs along the letters `bias_axes`.
    With LoRA, A has the kernel's dims, its last one replaced by the rank.
    """

    converted = {"activation": activations.get}
    kernel = AdaptedWeight("kernel")

    def __init__(
        self, equation: str, output_shape: Any, activation: Any = None, bias_axes: str | None = None,
        kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
        bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
        bias_constraint: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(activity_regularizer=activity_regularizer, **settings)
        self.equation = equation.replace(" ", "")
        operand = r"((?:\.\.\.)?[a-zA-Z]+(?:\.\.\.)?)"
        parts = re.fullmatch(f"{operand},([a-zA-Z]+)->{operand}", self.equation)
        if parts is None:
            raise ValueError(f"EinsumDense: an equation has the form 'ab,bc->ac', not {equation!r}")
        self.letters = parts.groups()
        self.sizes = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.activation, self.bias_axes = activation, bias_axes
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.bias: Tensor | None = None

    def build(self, input_shape: Any) -> None:
        given, kernel, found = self.letters
        sizes = _letter_sizes(given, input_shape)
        ends = found[::-1] if "..." not in found or found.startswith("...") else found
        rest = self.sizes[::-1] if ends is not found else self.sizes
        for letter, size in zip(ends.replace("...", ""), rest, strict=False):
            if size is not None and sizes.setdefault(letter, size) != size:
                raise ValueError(f"the output has {size} of {letter!r}, the input {sizes[letter]}")
        missing = [letter for letter in kernel if letter not in sizes]
        if missing:
            raise ValueError(f"{self.equation!r}: output_shape {self.sizes} does not say the size of {missing[0]!r}")
        self.kernel = self.add_weight(
            [sizes[letter] for letter in kernel], self.kernel_initializer, name="kernel",
            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint,
        )  # fmt: skip
        if self.bias_axes:
            letters = found.replace("...", "")
            first = min(letters.index(letter) for letter in self.bias_axes)
            shape = [sizes[letter] if letter in self.bias_axes else 1 for letter in letters[first:]]
            if found.endswith("..."):
                shape += [1] * (len(input_shape) - len(given.replace("...", "")))
            self.bias = self.add_weight(
                shape, self.bias_initializer, name="bias", regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )  # fmt: skip
        self._enable_given_lora()

    def call(self, inputs: Tensor) -> Tensor:
        found = ops.einsum(self.equation, inputs, self.kernel)
        return self.activation(found if self.bias is None else found + self.bias)


def _letter_sizes(letters: str, shape: Any) -> dict[str, Any]:
    """The size of each letter of an operand; "..." takes the dims that are left."""
    before, dots, after = letters.partition("...")
    if len(before + after) > len(shape) or (not dots and len(before) != len(shape)):
        raise ValueError(f"inputs of {letters!r} have other dims than {tuple(shape)}")
    tail = shape[len(shape) - len(after) :] if after else ()
    return dict(zip(before + after, (*shape[: len(before)], *tail), strict=True))


class Embedding(LoraLayer):
    """Rows of a matrix (input_dim, output_dim) by their numbers: ids (...) -> (..., output_dim)."""

    adapts = "embeddings"
    embeddings = AdaptedWeight("embeddings")

    def __init__(
        self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False,
        weights: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        settings.pop("input_length", None)
        super().__init__(**settings)
        self.autocast = False  # ids stay exact
        self._first_rows = weights  # a matrix, or a list with it, that the weights begin with
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
        if self._first_rows is not None:
            given = self._first_rows
            rows = ops.as_tensor(given[0] if isinstance(given, (list, tuple)) and len(given) == 1 else given)
            if rows.shape != self.embeddings.shape:
                raise ValueError(f"weights have the shape {tuple(rows.shape)}, not {tuple(self.embeddings.shape)}")
            with no_grad():
                self.embeddings.copy_(rows)
            self._first_rows = None
        self._enable_given_lora()

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, without the weights."""
        self.__dict__["_arguments"].pop("weights", None)
        return super().get_config()

    def call(self, inputs: Tensor) -> Tensor:
        ids = inputs.to("int64") if inputs.dtype.is_floating_point else inputs
        try:
            found = self._as_output(ops.embedding(self.embeddings, ids))
        except IndexError as error:
            low, high = int(ids.min()), int(ids.max())
            raise IndexError(
                f"layer {self.name} (Embedding) takes ids 0 … {self.input_dim - 1}, got {low} … {high}"
            ) from error
        return set_mask(found, self.compute_mask(inputs, None))

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """With mask_zero: which ids are not 0. Then 0 stands for "no word", and input_dim counts it."""
        return inputs != 0 if self.mask_zero else None


class ReversibleEmbedding(Embedding):
    """An Embedding that goes back: `layer(x, reverse=True)` gives logits (..., input_dim) of vectors (..., output_dim),
    by the same matrix, or by one of its own without `tie_weights`. `logit_soft_cap` keeps them within ±cap by a tanh.
    """

    def __init__(
        self, input_dim: int, output_dim: int, tie_weights: bool = True, embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False,
        reverse_dtype: Any = None, logit_soft_cap: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            input_dim, output_dim, embeddings_initializer, embeddings_regularizer, embeddings_constraint, mask_zero,
            **settings,
        )  # fmt: skip
        self.tie_weights, self.reverse_dtype, self.logit_soft_cap = tie_weights, reverse_dtype, logit_soft_cap

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        if not self.tie_weights:
            self.reverse_embeddings = self.add_weight(
                (self.output_dim, self.input_dim), self.embeddings_initializer, name="reverse_embeddings"
            )

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        if not reverse:
            return super().call(inputs)
        kernel = self.embeddings.T if self.tie_weights else self.reverse_embeddings
        wanted = as_dtype(self.compute_dtype if self.reverse_dtype is None else self.reverse_dtype)
        inputs, kernel = inputs.to(wanted), kernel.to(wanted)
        found = inputs @ kernel
        cap = self.logit_soft_cap
        return found if cap is None else (found / cap).tanh() * cap

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        ids = isinstance(inputs, Tensor) and not inputs.dtype.is_floating_point
        return super().compute_mask(inputs, previous_mask) if ids else None

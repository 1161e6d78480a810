"""Products with a matrix of weights, and rows of one. The weights may be quantised (`layers.quantized`)."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.dtype import as_dtype
from .. import activations, initializers, quantizers
from ..arguments import positive_integer
from ..masking import set_mask
from ..quantizers import AbsMaxQuantizer
from ..weight_attributes import AdaptedWeight
from .quantized import QuantizedLayer, WithInputsGradient
from .weight_rules import add_weight, set_rules

__all__ = ["Dense", "EinsumDense", "Embedding", "ReversibleEmbedding"]


class Dense(QuantizedLayer):
    """activation(x @ kernel + bias); the kernel is (inputs, units). With LoRA, A is (inputs, rank)."""

    unwritten = ("activity_regularizer",)
    probe_scale = 1

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
            raise ValueError(
                "Dense: Received an invalid value for `units`, expected a positive integer: units is a positive "
                f"integer, not {units!r}"
            )
        self.units, self.activation, self.use_bias = units, activation, use_bias
        set_rules(self, "kernel", kernel_initializer, kernel_regularizer, kernel_constraint)
        set_rules(self, "bias", bias_initializer, bias_regularizer, bias_constraint)
        self.bias: Tensor | None = None

    def build(self, input_shape: Any) -> None:
        self.add_adapted(
            (input_shape[-1], self.units), self.kernel_initializer, self.kernel_regularizer, self.kernel_constraint
        )
        if self.use_bias:
            self.bias = add_weight(self, "bias", (self.units,))
        self._enable_given_lora()

    def symbolic_outputs(self, *args: Any, **kwargs: Any) -> Any:
        shape = getattr(args[0] if args else kwargs.get("inputs"), "shape", ())
        if not self.built and shape[-1:] == (None,):
            raise ValueError(
                f"layer {self.name} (Dense) has a weight for each of the inputs' last dim, which must be known, got "
                f"shape {tuple(shape)}"
            )
        return super().symbolic_outputs(*args, **kwargs)

    def call(self, inputs: Tensor) -> Tensor:
        if self.packed_mode is not None or self.is_float8:
            return self._quantized_call(inputs)
        kernel = self.kernel
        if inputs.shape[-1] != kernel.shape[0]:
            self._refuse_inputs(inputs, kernel.shape[0])
        if not inputs.dtype.is_floating_point:
            inputs = inputs.to(self.compute_dtype)
        return self.activation(ops.linear(inputs, kernel.T, self.bias))

    def _refuse_inputs(self, inputs: Tensor, size: int) -> None:
        raise ValueError(
            f"layer {self.name} (Dense) is incompatible with the input: expected axis -1 of input shape to have value "
            f"{size}: it was built for inputs whose last dim is {size}, got shape {inputs.shape}"
        )

    def _quantized_call(self, inputs: Tensor) -> Tensor:
        rows = self._base().shape[0]
        if inputs.shape[-1] != rows:
            self._refuse_inputs(inputs, rows)
        inputs, bias = inputs if inputs.dtype.is_floating_point else inputs.to(self.compute_dtype), self.bias
        if self.is_float8:
            y = self.float8_product(inputs, self.kernel, ops.matmul)
            bias = None if bias is None else self.float8_bias(bias)
        elif self.inputs_quantizer is None:
            y = ops.matmul(inputs, self.floats())
        else:
            y = WithInputsGradient.apply(inputs, self._of_whole_numbers, lambda g: g @ self.floats().T)
        if self.lora_enabled:
            y = self.lora_product(lambda a: ops.matmul(inputs, a), y)
        return self.activation(y if bias is None else y + bias)

    def _of_whole_numbers(self, inputs: Tensor) -> Tensor:
        """The product of quantised inputs."""
        numbers, scale = self.inputs_quantizer(inputs, axis=-1)
        if self.block_size is not None:
            return (numbers.to(inputs.dtype) @ self.floats()) / scale
        found = self.exact_product(numbers, "kernel", lambda: self.whole_numbers().T)
        return found.to(inputs.dtype) / (self.kernel_scale * scale)


class EinsumDense(QuantizedLayer):
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
        set_rules(self, "kernel", kernel_initializer, kernel_regularizer, kernel_constraint)
        set_rules(self, "bias", bias_initializer, bias_regularizer, bias_constraint)
        self.bias: Tensor | None = None

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "output_shape": self.sizes}

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
        self._einsum = Einsum(self.letters, len(input_shape))
        initializer = self.kernel_initializer
        if isinstance(initializer, initializers.VarianceScaling) and None in initializer.axes:
            made = [k for k, letter in enumerate(kernel) if letter in found]
            summed = [k for k, letter in enumerate(kernel) if letter not in found]
            initializer = initializer.with_axes(summed, made)
        self.add_adapted(
            [sizes[letter] for letter in kernel], initializer, self.kernel_regularizer, self.kernel_constraint
        )
        if self.bias_axes:
            letters = found.replace("...", "")
            first = min(letters.index(letter) for letter in self.bias_axes)
            shape = [sizes[letter] if letter in self.bias_axes else 1 for letter in letters[first:]]
            if found.endswith("..."):
                shape += [1] * (len(input_shape) - len(given.replace("...", "")))
            self.bias = add_weight(self, "bias", shape)
        self._enable_given_lora()

    def call(self, inputs: Tensor) -> Tensor:
        if self.packed_mode is not None or self.is_float8:
            return self._quantized_call(inputs)
        found = ops.einsum(self.equation, inputs, self.kernel)
        return self.activation(found if self.bias is None else found + self.bias)

    def matrix_shape(self, shape: tuple[int, ...]) -> tuple[int, int]:
        summed = self._einsum.kernel_summed
        rows = prod(shape[k] for k in summed)
        return rows, prod(shape) // rows if rows else 0

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        kept = [1 if k in self._einsum.kernel_summed else size for k, size in enumerate(shape)]
        return self._einsum.like_outputs(kept, self._einsum.kernel)[1]

    def _int8_of(self, weight: Tensor, quantizer: Any) -> tuple[Tensor, Tensor]:
        numbers, scale = (quantizer or AbsMaxQuantizer(axis=self._einsum.kernel_summed))(weight, to_numpy=True)
        return numbers, self._einsum.laid_like_outputs(scale, self._einsum.kernel)

    def _int8_floats(self, numbers: Tensor, scale: Tensor) -> Tensor:
        return numbers.to(scale.dtype) / self._einsum.laid_like_kernel(scale)

    def _quantized_call(self, inputs: Tensor) -> Tensor:
        inputs, bias = inputs if inputs.dtype.is_floating_point else inputs.to(self.compute_dtype), self.bias
        if self.is_float8:
            y = self.float8_product(inputs, self.kernel, lambda x, kernel: ops.einsum(self.equation, x, kernel))
            bias = None if bias is None else self.float8_bias(bias)
        elif self.inputs_quantizer is None:
            y = ops.einsum(self.equation, inputs, self.floats())
        else:
            given, kernel, found = self.letters
            y = WithInputsGradient.apply(
                inputs, self._of_whole_numbers, lambda g: ops.einsum(f"{found},{kernel}->{given}", g, self.floats())
            )
        if self.lora_enabled:
            y = self.lora_product(lambda a: ops.einsum(self.equation, inputs, a), y)
        return self.activation(y if bias is None else y + bias)

    def _of_whole_numbers(self, inputs: Tensor) -> Tensor:
        """The product of quantised inputs."""
        numbers, scale = self.inputs_quantizer(inputs, axis=self._einsum.inputs_summed)
        scale = self._einsum.laid_like_outputs(scale, self._einsum.inputs)
        if self.packed_mode == "int4":
            return ops.einsum(self.equation, numbers.to(inputs.dtype), self.floats()) / scale
        if self._einsum.is_matrix_product:
            x, outputs = self._einsum.rows_of_inputs(numbers), self._einsum.columns_of(self._base().shape)
            found = self.exact_product(x, "kernel", lambda: self._einsum.rows_of_kernel(self._base()))
            found = self._einsum.in_order(found.reshape(*x.shape[:-1], *outputs))
        else:
            found = ops.einsum(self.equation, numbers.to("float32"), self._base().to("float32"))
        return found.to(inputs.dtype) / (scale * self.kernel_scale)


class Einsum:
    """Which dims of inputs, kernel and outputs an equation names: letters, and "0", "1", … for those of "...", of
    inputs of `ndim` dims."""

    def __init__(self, operands: tuple[str, ...], ndim: int) -> None:
        given, kernel, found = operands
        hidden = [str(k) for k in range(ndim - len(given.replace("...", "")))]
        self.inputs, self.outputs = (_labels(part, hidden) for part in (given, found))
        self.kernel = list(kernel)
        self.inputs_summed = [k for k, label in enumerate(self.inputs) if label not in self.outputs]
        self.kernel_summed = [k for k, label in enumerate(self.kernel) if label not in self.outputs]
        self._summed = [self.kernel[k] for k in self.kernel_summed]
        self._rows = [label for label in self.inputs if label in self.outputs]
        self._columns = [label for label in self.kernel if label in self.outputs]
        alike = sorted(self.inputs[k] for k in self.inputs_summed) == sorted(self._summed)
        self.is_matrix_product = alike and not set(self._rows) & set(self._columns)

    def like_outputs(self, shape: Any, labels: list[str]) -> tuple[list[int], tuple[int, ...]]:
        """(the dims that outputs have, in their order; the shape with a dim of 1 for each other dim of the outputs)
        of a tensor with these labels, whose other dims are 1."""
        order = [labels.index(label) for label in self.outputs if label in labels]
        sizes = (shape[labels.index(label)] if label in labels else 1 for label in self.outputs)
        return order, tuple(sizes)

    def laid_like_outputs(self, scale: Tensor, labels: list[str]) -> Tensor:
        """A scale with the dims of inputs or kernel, where the summed ones are 1 → with those of the outputs."""
        order, shape = self.like_outputs(scale.shape, labels)
        others = [k for k in range(scale.ndim) if k not in order]
        return scale.permute(*order, *others).reshape(shape)

    def laid_like_kernel(self, scale: Tensor) -> Tensor:
        """The way back, for the kernel's."""
        known = [label for label in self.outputs if label in self.kernel]
        sizes = [size for label, size in zip(self.outputs, scale.shape, strict=True) if label in self.kernel]
        found = scale.reshape(sizes).permute(*(known.index(label) for label in self._columns))
        shape = [found.shape[self._columns.index(one)] if one in self._columns else 1 for one in self.kernel]
        return found.reshape(shape)

    def rows_of_inputs(self, x: Tensor) -> Tensor:
        """Inputs as (rows…, summed)."""
        order = [self.inputs.index(label) for label in (*self._rows, *self._summed)]
        moved = x.permute(*order)
        return moved.reshape(*moved.shape[: len(self._rows)], -1)

    def rows_of_kernel(self, kernel: Tensor) -> Tensor:
        """The kernel as (columns, summed)."""
        moved = kernel.permute(*(self.kernel.index(label) for label in (*self._columns, *self._summed)))
        return moved.reshape(prod(moved.shape[: len(self._columns)]), -1)

    def columns_of(self, shape: Any) -> list[int]:
        """The sizes of the kernel's dims that outputs have."""
        return [shape[self.kernel.index(label)] for label in self._columns]

    def in_order(self, found: Tensor) -> Tensor:
        """(rows…, columns…) with the dims of the outputs."""
        labels = [*self._rows, *self._columns]
        return found.permute(*(labels.index(label) for label in self.outputs))


def _labels(part: str, hidden: list[str]) -> list[str]:
    before, dots, after = part.partition("...")
    return [*before, *(hidden if dots else []), *after]


def _letter_sizes(letters: str, shape: Any) -> dict[str, Any]:
    """The size of each letter of an operand; "..." takes the dims that are left."""
    before, dots, after = letters.partition("...")
    if len(before + after) > len(shape) or (not dots and len(before) != len(shape)):
        raise ValueError(f"inputs of {letters!r} have other dims than {tuple(shape)}")
    tail = shape[len(shape) - len(after) :] if after else ()
    return dict(zip(before + after, (*shape[: len(before)], *tail), strict=True))


class Embedding(QuantizedLayer):
    """Rows of a matrix (input_dim, output_dim) by their numbers: ids (...) -> (..., output_dim)."""

    adapts = "embeddings"
    quantization_modes = ("int8", "int4")
    summed_dim = 1
    embeddings = AdaptedWeight("embeddings")

    def __init__(
        self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False,
        weights: Any = None, *, activity_regularizer: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        settings.pop("input_length", None)
        super().__init__(activity_regularizer=activity_regularizer, **settings)
        self.autocast = False  # ids stay exact
        for argument, size in (("input_dim", input_dim), ("output_dim", output_dim)):
            positive_integer(f"{type(self).__name__}: {argument}", size)
        self._first_rows = weights  # a matrix, or a list with it, that the weights begin with
        self.input_dim, self.output_dim, self.mask_zero = input_dim, output_dim, mask_zero
        chosen = "random_uniform" if embeddings_initializer == "uniform" else embeddings_initializer
        set_rules(self, "embeddings", chosen, embeddings_regularizer, embeddings_constraint)

    def build(self, input_shape: Any = None) -> None:
        self.add_adapted(
            (self.input_dim, self.output_dim), self.embeddings_initializer, self.embeddings_regularizer,
            self.embeddings_constraint,
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
            if self.packed_mode is not None:
                found = self._as_output(self._quantized_rows(ids))
            else:
                found = self._as_output(ops.embedding(self.embeddings, ids))
        except IndexError as error:
            low, high = int(ids.min()), int(ids.max())
            raise IndexError(
                f"layer {self.name} (Embedding) takes ids 0 … {self.input_dim - 1}, got {low} … {high}"
            ) from error
        return set_mask(found, self.compute_mask(inputs, None))

    def _quantized_rows(self, ids: Tensor) -> Tensor:
        """The rows that the numbers of the ids' rows stand for."""
        found = ops.embedding(self._base(), ids)  # (..., output_dim), or half of it
        scale = self._rows("embeddings_scale", ids)
        kind = as_dtype(self.compute_dtype)
        if self.packed_mode == "int4":
            found = quantizers.unpack_int4(found, self.output_dim, axis=-1)
        if self.block_size is None:
            found = found.to(kind) / scale.unsqueeze(-1)
        else:
            zero = self._rows("embeddings_zero", ids)
            found = quantizers.dequantize_grouped(found, scale, zero, self.g_idx, scale.ndim - 1)
        if self.lora_enabled:
            found = self.lora_product(lambda a: ops.embedding(a, ids), found)
        return found

    def _rows(self, name: str, ids: Tensor) -> Tensor:
        """The numbers of a vector, or the rows of a matrix, that ids have."""
        values = getattr(self, name)
        return values[ids.to("int64")]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """With mask_zero: which ids are not 0. Then 0 stands for "no word", and input_dim counts it."""
        return ops.as_tensor(inputs) != 0 if self.mask_zero else None


class ReversibleEmbedding(Embedding):
    """An Embedding that goes back: `layer(x, reverse=True)` gives logits (..., input_dim) of vectors (..., output_dim),
    by the same matrix, or by one of its own without `tie_weights`. `logit_soft_cap` keeps them within ±cap by a tanh.
    """

    def __init__(
        self, input_dim: int, output_dim: int, tie_weights: bool = True, embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False,
        reverse_dtype: Any = None, logit_soft_cap: float | None = None, *, activity_regularizer: Any = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            input_dim, output_dim, embeddings_initializer, embeddings_regularizer, embeddings_constraint, mask_zero,
            activity_regularizer=activity_regularizer, **settings,
        )  # fmt: skip
        self.tie_weights, self.reverse_dtype, self.logit_soft_cap = tie_weights, reverse_dtype, logit_soft_cap

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        if not self.tie_weights and self.packed_mode is None:
            self.reverse_embeddings = self.add_weight(
                (self.output_dim, self.input_dim), self.embeddings_initializer, name="reverse_embeddings"
            )

    def _add_packed(self, shape: tuple[int, ...], mode: str, block_size: int | None) -> None:
        super()._add_packed(shape, mode, block_size)
        if self.quantization_config is None:
            self.inputs_quantizer = AbsMaxQuantizer(axis=-1)
        if self.tie_weights:
            return
        (outputs, size), name = shape, "reverse_embeddings"  # (size, outputs)
        rows = size if mode == "int8" else -(-size // 2)
        scales = (outputs,) if self.block_size is None else (-(-size // self.block_size), outputs)
        self.add_weight((rows, outputs), "zeros", "int8", trainable=False, name=name)
        self.add_weight(scales, "ones", trainable=False, name=f"{name}_scale")
        if self.block_size is not None:
            self.add_weight(scales, "zeros", trainable=False, name=f"{name}_zero")

    def _quantize_weights(self, mode: str) -> None:
        if self.tie_weights:
            super()._quantize_weights(mode)
            return
        given, name = getattr(self.quantization_config, "weight_quantizer", None), "reverse_embeddings"
        with no_grad():
            weight = self.__dict__[name].detach()
            if mode == "int8":
                numbers, scale = (given or AbsMaxQuantizer(axis=0))(weight, to_numpy=True)
                values = {name: numbers, f"{name}_scale": scale.squeeze(0)}
            else:
                values = self._int4_of(name, weight, 0, self._policy_block(), given, packed_dim=0)
        self._remove_weight(name)
        super()._quantize_weights(mode)
        self._write(values)

    def file_names(self) -> list[str]:
        own = [f"reverse_embeddings{part}" for part in ("", "_scale", "_zero")]
        return [*super().file_names(), *(one for one in own if isinstance(self.__dict__.get(one), Tensor))]

    def _quantized_logits(self, inputs: Tensor) -> Tensor:
        """(..., output_dim) → (..., input_dim)."""
        tied = self.tie_weights
        if self.inputs_quantizer is None:
            return ops.matmul(inputs, self._reverse_floats())
        numbers, scale = self.inputs_quantizer(inputs)
        if self.block_size is not None:
            return ops.matmul(numbers.to(inputs.dtype), self._reverse_floats()) / scale
        name = "embeddings" if tied else "reverse_embeddings"
        found = self.exact_product(numbers, name, self.whole_numbers if tied else lambda: self._reverse_numbers().T)
        return found.to(inputs.dtype) / (scale * getattr(self, f"{name}_scale"))

    def _reverse_numbers(self) -> Tensor:
        """The numbers of the matrix of its own, (output_dim, input_dim)."""
        held: Tensor = self.reverse_embeddings
        return held if self.packed_mode == "int8" else quantizers.unpack_int4(held, self.output_dim, axis=0)

    def _reverse_floats(self) -> Tensor:
        """(output_dim, input_dim)."""
        if self.tie_weights:
            return self.floats().T
        numbers = self._reverse_numbers()
        if self.packed_mode == "int4":
            return self._int4_floats("reverse_embeddings", numbers, 0)
        return numbers.to(self.reverse_embeddings_scale.dtype) / self.reverse_embeddings_scale

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        if not reverse:
            return super().call(inputs)
        if self.packed_mode is not None:
            found = WithInputsGradient.apply(
                inputs.to(self.compute_dtype), self._quantized_logits, lambda g: g @ self._reverse_floats().T
            )
        else:
            kernel = self.embeddings.T if self.tie_weights else self.reverse_embeddings
            wanted = as_dtype(self.compute_dtype if self.reverse_dtype is None else self.reverse_dtype)
            found = inputs.to(wanted) @ kernel.to(wanted)
        cap = self.logit_soft_cap
        return found if cap is None else (found / cap).tanh() * cap

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        ids = isinstance(inputs, Tensor) and not inputs.dtype.is_floating_point
        return super().compute_mask(inputs, mask) if ids else None

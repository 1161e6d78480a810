"""Linear and bilinear maps, and the layers that only change the shape: Identity, Flatten, Unflatten."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ...engine import Tensor, no_grad, ops, quant
from ...engine.ops import empty, zeros
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..module import Module
from ..parameter import Initialization, new_parameter
from .from_function import function_layer, torch_function
from .lazy import lazy_layer

__all__ = [
    "Bilinear",
    "Flatten",
    "Identity",
    "LazyLinear",
    "Linear",
    "ResidualLinear",
    "TransposedLinear",
    "Unflatten",
    "bilinear",
    "linear",
]
__top_level__ = ["bilinear"]

linear = torch_function(ops.linear, "linear")


class Linear(Module):
    """x (..., in) → (..., out): x @ weight.T + bias. The weight (out, in) may have any format, block formats
    included.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter(empty, out_features, in_features, **made)
        self.bias = new_parameter(zeros, out_features, **made) if bias else None
        if Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in ±1 / sqrt(in), as in torch.nn.Linear."""
        bound = 1 / sqrt(self.in_features) if self.in_features else 0.0
        with no_grad():
            self.weight.uniform_(-bound, bound)
            if self.bias is not None:
                self.bias.uniform_(-bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return ops.linear(input, self.weight, self.bias)

    def dense_weight(self) -> Tensor:
        """The weight (out, in) in floating point, with what adapters add: for models that multiply by it themselves."""
        weight: Tensor = self.weight
        return quant.dequantize(weight) if weight.dtype.is_quantized else weight

    def extra_repr(self) -> str:
        kind = f", dtype={self.weight.dtype.name}" if self.weight.dtype.is_quantized else ""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}{kind}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear by torch's name for the last projection of MultiheadAttention."""


class ResidualLinear(Linear):
    """A Linear layer whose result is added to a residual stream, in the same kernel."""

    def forward(self, input: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., in_features), residual (..., out_features) → residual + input weightᵀ + bias."""
        return ops.linear(input, self.weight, self.bias, residual)


class TransposedLinear(Module):
    """x (..., in) → (..., out): x @ weight + bias, with a weight (in, out) as GPT-2 stores it. The weight may be a
    transposed view of a matrix (out, in), which is faster, in any format.
    """

    def __init__(
        self, in_features: int, out_features: int, device: Any = None, dtype: Any = None, bias: bool = True
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter(empty, in_features, out_features, **made)
        self.bias = new_parameter(zeros, out_features, **made) if bias else None
        if Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal with the deviation 0.02, and no bias, as in GPT-2."""
        with no_grad():
            self.weight.normal_(0.0, 0.02)
            if self.bias is not None:
                self.bias.zero_()

    def forward(self, input: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., in_features), residual (..., out_features) → residual + input weight + bias."""
        return ops.linear(input, self.weight.T, self.bias, residual)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


LazyLinear = lazy_layer(Linear, "in_features")


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 (..., I) and input2 (..., J) with weight (O, I, J) → (..., O)."""
    outputs, first, second = weight.shape
    half = (input1 @ weight.permute(1, 0, 2).reshape(first, -1)).reshape((*input1.shape[:-1], outputs, second))
    y = (half * input2.unsqueeze(-2)).sum(-1)
    return y if bias is None else y + bias


class Bilinear(Module):
    """x1 (..., in1), x2 (..., in2) → (..., out): x1 @ weight[o] @ x2 + bias[o] for each o; weight (out, in1, in2)."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features < 1:
            raise ArgumentError(f"Bilinear: in1_features must be at least 1, got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        made = {"device": device, "dtype": dtype}
        self.weight = new_parameter(empty, out_features, in1_features, in2_features, **made)
        self.bias = new_parameter(empty, out_features, **made) if bias else None
        if Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in ±1 / sqrt(in1), as in torch.nn.Bilinear."""
        bound = 1 / sqrt(self.in1_features)
        with no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        sizes = (self.in1_features, self.in2_features)
        if input1.shape[:-1] != input2.shape[:-1] or (input1.shape[-1], input2.shape[-1]) != sizes:
            raise ArgumentError(
                f"Bilinear: takes (..., {sizes[0]}) and (..., {sizes[1]}), got {describe(input1)}, {describe(input2)}"
            )
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Identity(Module):
    """Returns its input. The constructor accepts and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Flatten(Module):
    """Flattens start_dim .. end_dim into one dim."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return ops.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


def _unflatten(input: Tensor, dim: int, unflattened_size: Any) -> Tensor:
    """Splits a dim into several; see unflatten."""
    return ops.unflatten(input, dim, unflattened_size)


Unflatten = function_layer("Unflatten", _unflatten)

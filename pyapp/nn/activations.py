"""Activations as modules; those of torch with their functions' settings."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.op import describe
from ..errors import ArgumentError
from . import activation_functions as functions
from .function_layers import function_layer
from .layers import _parameter
from .module import Module


class PReLU(Module):
    """See prelu; the weight is trained: one, or one for each channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = _parameter(ops.empty, num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All `init`."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return functions.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ArgumentError(f"Softmax2d: takes (N, C, H, W) or (C, H, W), got {describe(input)}")
        return ops.softmax(input, -3)


for _name, _function in (
    ("CELU", "celu"), ("ELU", "elu"), ("GELU", "gelu"), ("GLU", "glu"), ("Hardshrink", "hardshrink"),
    ("Hardsigmoid", "hardsigmoid"), ("Hardswish", "hardswish"), ("Hardtanh", "hardtanh"), ("LeakyReLU", "leaky_relu"),
    ("LogSigmoid", "logsigmoid"), ("Mish", "mish"), ("ReLU", "relu"), ("ReLU6", "relu6"), ("SELU", "selu"),
    ("SiLU", "silu"), ("Sigmoid", "sigmoid"), ("Softplus", "softplus"), ("Softshrink", "softshrink"),
    ("Softsign", "softsign"), ("Tanh", "tanh"), ("Tanhshrink", "tanhshrink"), ("Threshold", "threshold"),
):  # fmt: skip
    globals()[_name] = function_layer(_name, getattr(functions, _function))
for _name in ("Softmax", "LogSoftmax", "Softmin"):
    _function = {"LogSoftmax": "log_softmax"}.get(_name, _name.lower())
    globals()[_name] = function_layer(_name, getattr(functions, _function), "dim")
RReLU = function_layer("RReLU", functions.rrelu, "lower upper inplace")

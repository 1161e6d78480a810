"""Activations: functions with torch.nn.functional's arguments, and the same as modules.

With `inplace` the result overwrites the input, and autograd follows the write. RuntimeError for a leaf that requires a
gradient.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.in_place import tracked, write_tracked
from ...engine.ops import activation as more
from ...engine.ops import empty
from ...engine.ops.index import copy_
from ...engine.ops.softmaxes import gumbel_softmax as _gumbel_softmax
from ...engine.user_errors import describe, warn
from ...errors import ArgumentError
from ..module import Module
from ..parameter import new_parameter
from .from_function import FunctionLayer, function_layer

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold", "celu", "celu_", "elu", "elu_",
    "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "leaky_relu",
    "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu",
    "selu_", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold", "threshold_",
]  # fmt: skip
__top_level__ = ["celu_", "relu_", "rrelu_", "selu_", "threshold_"]


def written(input: Tensor, inplace: bool, function: Callable[..., Any], *settings: Any, **named: Any) -> Tensor:
    """function(input, ...), in the input's memory if `inplace`."""
    call = partial(function, **named) if named else function
    if not inplace:
        return call(input, *settings)
    method = getattr(Tensor, f"{function.__name__}_", None)
    if method is not None and not named:
        return method(input, *settings)
    if tracked(input):
        return write_tracked(input, f"{function.__name__}_", lambda old: call(old, *settings))
    with no_grad():
        return copy_(input, call(input, *settings))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return written(input, inplace, ops.relu)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return written(input, inplace, more.relu6)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha (exp(x) - 1) below zero (Clevert et al. 2015, arXiv 1511.07289)."""
    return written(input, inplace, ops.elu, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)) (Barron 2017, arXiv 1704.07483)."""
    return written(input, inplace, more.celu, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled elu that keeps mean and variance (Klambauer et al. 2017, arXiv 1706.02515)."""
    return written(input, inplace, more.selu)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, or negative_slope x below zero."""
    return written(input, inplace, ops.leaky_relu, negative_slope)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to min_val .. max_val."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    return written(input, inplace, ops.hardtanh, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x / 6 + ½, 0), 1)."""
    return written(input, inplace, more.hardsigmoid)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x) (Howard et al. 2019, arXiv 1905.02244)."""
    return written(input, inplace, more.hardswish)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x)."""
    return written(input, inplace, ops.silu)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)) (Misra 2019, arXiv 1908.08681)."""
    return written(input, inplace, ops.mish)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value."""
    return written(input, inplace, ops.threshold, threshold, value)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Any = None,
) -> Tensor:
    """x, or a * x below zero. `a` is uniform in lower .. upper in training, else their mean (Xu et al. 2015, arXiv
    1505.00853).
    """
    if lower > upper:
        raise ValueError(f"rrelu: lower {lower} is above upper {upper}")
    return written(input, inplace, ops.rrelu, lower, upper, training, generator=generator)


relu_, elu_, celu_, selu_, leaky_relu_, hardtanh_, threshold_, rrelu_ = (
    partial(function, inplace=True)
    for function in (relu, elu, celu, selu, leaky_relu, hardtanh, threshold, rrelu)
)  # fmt: skip


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return ops.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return ops.tanh(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Φ(x), exactly ("none") or by "tanh" (Hendrycks and Gimpel 2016, arXiv 1606.08415)."""
    return ops.gelu(input, approximate)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
    return ops.softplus(input, beta, threshold)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return more.softsign(input)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return more.tanhshrink(input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """sign(x) max(|x| - lambd, 0)."""
    return ops.softshrink(input, lambd)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| > lambd, else 0."""
    return ops.hardshrink(input, lambd)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), numerically stable."""
    found: Tensor = more.logsigmoid(input)
    return found


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a sigmoid(b) for the halves a, b of a dim (Dauphin et al. 2016, arXiv 1612.08083)."""
    return more.glu(input, dim)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, or weight x below zero: one weight, or one for each channel (dim 1) (He et al. 2015, arXiv 1502.01852)."""
    return ops.prelu(input, weight)


def _dim(name: str, input: Tensor, dim: int | None) -> int:
    """torch's default dim: the first of 0, 1 or 3 dims, else the second."""
    if dim is not None:
        return dim
    warn(f"{name}: say along which dim; without one it is 0 for 0, 1 or 3 dims, else 1")
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`. The input is converted to `dtype` first, if one is given."""
    return ops.softmax(input if dtype is None else input.to(dtype), _dim("softmax", input, dim))


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """log of softmax, numerically stable."""
    return ops.log_softmax(input if dtype is None else input.to(dtype), _dim("log_softmax", input, dim))


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-x)."""
    return ops.softmax(-(input if dtype is None else input.to(dtype)), _dim("softmin", input, dim))


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1, *, generator: Any = None
) -> Tensor:
    """Samples of softmax((logits + Gumbel noise) / tau). With `hard` the result is one-hot, with the gradient of the
    soft sample (Jang et al. 2016, arXiv 1611.01144). `eps` has no effect, as in torch.
    """
    return _gumbel_softmax(logits, tau, hard, dim, generator=generator)


class PReLU(Module):
    """prelu with a trained weight: one, or one for each channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = new_parameter(empty, num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets every weight to `init`."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ArgumentError(f"Softmax2d: takes (N, C, H, W) or (C, H, W), got {describe(input)}")
        return ops.softmax(input, -3)


class _Hardtanh(FunctionLayer):
    """Takes `min_value` and `max_value`, torch's old names of `min_val` and `max_val`, with torch's FutureWarning."""

    def __init__(
        self, *args: Any, min_value: float | None = None, max_value: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        for old, new, value in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if value is not None:
                warnings.warn(f"Hardtanh: {old} is an old name: use {new}", FutureWarning, stacklevel=2)
                setattr(self, new, value)
        if not self.max_val > self.min_val:
            raise ValueError(f"Hardtanh: max_val {self.max_val} is not above min_val {self.min_val}")


CELU = function_layer("CELU", celu)
ELU = function_layer("ELU", elu)
GELU = function_layer("GELU", gelu)
GLU = function_layer("GLU", glu)
Hardshrink = function_layer("Hardshrink", hardshrink, shown="=lambd")
Hardsigmoid = function_layer("Hardsigmoid", hardsigmoid)
Hardswish = function_layer("Hardswish", hardswish, shown="")
Hardtanh = function_layer("Hardtanh", hardtanh, base=_Hardtanh)
LeakyReLU = function_layer("LeakyReLU", leaky_relu)
LogSigmoid = function_layer("LogSigmoid", logsigmoid)
Mish = function_layer("Mish", mish)
ReLU = function_layer("ReLU", relu)
ReLU6 = function_layer("ReLU6", relu6)
ReLU6.min_val, ReLU6.max_val = 0.0, 6.0
SELU = function_layer("SELU", selu)
SiLU = function_layer("SiLU", silu)
Sigmoid = function_layer("Sigmoid", sigmoid)
Softplus = function_layer("Softplus", softplus)
Softshrink = function_layer("Softshrink", softshrink, shown="=lambd")
Softsign = function_layer("Softsign", softsign)
Tanh = function_layer("Tanh", tanh)
Tanhshrink = function_layer("Tanhshrink", tanhshrink)
Threshold = function_layer("Threshold", threshold)
Softmax = function_layer("Softmax", softmax, "dim")
LogSoftmax = function_layer("LogSoftmax", log_softmax, "dim")
Softmin = function_layer("Softmin", softmin, "dim", shown="dim")
RReLU = function_layer("RReLU", rrelu, "lower upper inplace")

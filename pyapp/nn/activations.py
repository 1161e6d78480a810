"""Activations as modules."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, ops
from ..engine.ops import activations as more
from .module import Module, Parameter


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(x)


class SiLU(Module):
    """x * sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.silu(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.sigmoid(x)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.tanh(x)


class Softmax(Module):
    """exp(x) / sum(exp(x)) along `dim`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return ops.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class PReLU(Module):
    """See prelu; the weight is trained: one, or one for each channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = Parameter(ops.full((num_parameters,), init, dtype="float32"))

    def forward(self, x: Tensor) -> Tensor:
        return more.prelu(x, self.weight)


def _layer(name: str, function: Any, **settings: Any) -> Any:
    """A layer that gives its settings to a function; the defaults are those of torch."""

    def __init__(self: Any, *given: Any, inplace: bool = False, **named: Any) -> None:
        Module.__init__(self)
        if len(given) > len(settings) or named.keys() - settings.keys():
            raise TypeError(f"{name} takes {', '.join(settings) or 'no settings'}, got {given}, {named}")
        self.settings = {**settings, **dict(zip(settings, given, strict=False)), **named}

    def forward(self: Any, x: Tensor) -> Any:
        return function(x, **self.settings)

    def extra_repr(self: Any) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.settings.items())

    body = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": function.__doc__}
    return type(name, (Module,), {**body, "__module__": __name__})


CELU = _layer("CELU", more.celu, alpha=1.0)
ELU = _layer("ELU", ops.elu, alpha=1.0)
GELU = _layer("GELU", ops.gelu, approximate="none")
GLU = _layer("GLU", more.glu, dim=-1)
Hardshrink = _layer("Hardshrink", more.hardshrink, lambd=0.5)
Hardsigmoid = _layer("Hardsigmoid", more.hardsigmoid)
Hardswish = _layer("Hardswish", more.hardswish)
Hardtanh = _layer("Hardtanh", ops.hardtanh, min_val=-1.0, max_val=1.0)
LeakyReLU = _layer("LeakyReLU", ops.leaky_relu, negative_slope=0.01)
LogSigmoid = _layer("LogSigmoid", more.logsigmoid)
LogSoftmax = _layer("LogSoftmax", ops.log_softmax, dim=-1)
Mish = _layer("Mish", ops.mish)
ReLU6 = _layer("ReLU6", more.relu6)
SELU = _layer("SELU", more.selu)
Softmin = _layer("Softmin", more.softmin, dim=-1)
Softplus = _layer("Softplus", ops.softplus, beta=1.0, threshold=20.0)
Softshrink = _layer("Softshrink", more.softshrink, lambd=0.5)
Softsign = _layer("Softsign", more.softsign)
Tanhshrink = _layer("Tanhshrink", more.tanhshrink)
Threshold = _layer("Threshold", more.threshold, threshold=0.0, value=0.0)

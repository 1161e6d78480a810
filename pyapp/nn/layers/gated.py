"""Gated feed-forward layers (Shazeer 2020, arXiv 2002.05202), and activations by the names of configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...engine import Tensor, ops
from ...errors import ModelError
from ..module import Module
from .joined import JoinedLinear
from .linear import Linear, ResidualLinear, TransposedLinear

__all__ = ["GatedFeedForward", "JoinedGatedFeedForward"]


def _gelu_tanh(x: Tensor) -> Tensor:
    return ops.gelu(x, "tanh")


def _quick_gelu(x: Tensor) -> Tensor:
    return x * (x * 1.702).sigmoid()


def _clipped_gelu(x: Tensor) -> Tensor:
    return ops.gelu(x).clamp(-10.0, 10.0)


def _identity(x: Tensor) -> Tensor:
    return x


def _squared_relu(x: Tensor) -> Tensor:
    y = ops.relu(x)
    return y * y


# The names that Hugging Face's configurations use.
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": ops.silu, "swish": ops.silu, "relu": ops.relu, "tanh": ops.tanh, "sigmoid": ops.sigmoid, "gelu": ops.gelu,
    "gelu_new": _gelu_tanh, "gelu_fast": _gelu_tanh, "gelu_pytorch_tanh": _gelu_tanh, "quick_gelu": _quick_gelu,
    "relu2": _squared_relu, "relu6": ops.relu6, "leaky_relu": ops.leaky_relu, "mish": ops.mish, "linear": _identity,
    "hardswish": ops.hardswish, "gelu_python": ops.gelu, "gelu_python_tanh": _gelu_tanh, "gelu_accurate": _gelu_tanh,
    "gelu_10": _clipped_gelu,
}  # fmt: skip


def activation_named(name: str) -> Callable[[Tensor], Tensor]:
    """The activation that a configuration names ("silu", "gelu_new" …). ModelError for an unknown one."""
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise ModelError(f"the activation {name!r:.50} is not known", hint=f"Known: {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


# Of them, those that ops.linear_activated has.
_WITH_LINEAR: dict[Callable[[Tensor], Tensor], str] = {ops.relu: "relu", _gelu_tanh: "gelu_tanh"}


def activated(layer: Module, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """activation(layer(x)) for a linear layer x (..., K) → (..., N), which some devices compute in one step."""
    name = _WITH_LINEAR.get(activation)
    if name is None or type(layer) not in (Linear, TransposedLinear) or layer._hooks is not None:
        return activation(layer(x))
    weight: Tensor = layer.weight.T if type(layer) is TransposedLinear else layer.weight
    return ops.linear_activated(x, weight, layer.bias, name)


def gated(x: Tensor, activation: str) -> Tensor:
    """activation(gate) * up of x (..., 2 F) = [gate, up] → (..., F)."""
    if activation in ("silu", "swish"):
        return ops.silu_mul(x)
    width = x.shape[-1] // 2
    return activation_named(activation)(x.narrow(-1, 0, width)) * x.narrow(-1, width, width)


class GatedFeedForward(Module):
    """down_proj(activation(gate_proj x) * up_proj x), added to a residual stream. `names` are those of the three in
    files.
    """

    def __init__(
        self, hidden_size: int, intermediate_size: int, activation: str = "silu", bias: bool = False,
        names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    ) -> None:  # fmt: skip
        super().__init__()
        activation_named(activation)
        self.activation, self.names = activation, names
        gate, up, down = names
        self.add_module(gate, Linear(hidden_size, intermediate_size, bias=bias))
        self.add_module(up, Linear(hidden_size, intermediate_size, bias=bias))
        self.add_module(down, ResidualLinear(intermediate_size, hidden_size, bias=bias))
        self.gate_up = JoinedLinear(gate, up)

    @property
    def tensor_parallel(self) -> Mapping[str, tuple[str, ...]]:
        """How several processes divide the layers (nn/tensor_parallel.py)."""
        gate, up, down = self.names
        return {gate: ("outputs", "inner"), up: ("outputs", "inner"), down: ("inputs", "inner")}

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., hidden_size) → residual + feed-forward, or the feed-forward alone (..., hidden_size)."""
        y: Tensor = self._modules[self.names[2]](gated(self.gate_up(self, x), self.activation), residual)
        return y


class JoinedGatedFeedForward(Module):
    """As GatedFeedForward, from one projection gate_up_proj of gate and values."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {
        "gate_up_proj": ("outputs", "inner", "inner"), "down_proj": ("inputs", "inner"),
    }  # fmt: skip

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str = "silu") -> None:
        super().__init__()
        activation_named(activation)  # an unknown one is refused here
        self.activation = activation
        self.gate_up_proj = Linear(hidden_size, 2 * intermediate_size, bias=False)
        self.down_proj = ResidualLinear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., hidden_size) → residual + feed-forward, or the feed-forward alone (..., hidden_size)."""
        return self.down_proj(gated(self.gate_up_proj(x), self.activation), residual)

"""The mixer of Mamba 2 (Dao and Gu 2024, arXiv 2405.21060), which decoders with attention have too."""

from __future__ import annotations

from functools import partial

from ...dataclass import dataclass
from ...engine import Tensor, no_grad
from ...engine.ops import arange, cat, empty, full, ones
from ..layers.convolution import Conv1d
from ..layers.gated import activation_named
from ..layers.linear import Linear, ResidualLinear
from ..module import Module
from ..parameter import Initialization, Parameter, new_parameter
from .recurrent import StateText
from .state_space import causal_convolution, chunked_scan, draw_steps


@dataclass(frozen=True)
class Mamba2Settings:
    """The sizes of a mixer. limits: of the steps; the second None: without a limit. factors: of the gate, the channels,
    what goes into the state and out of it, and the steps, where these are scaled. norm: whether the gated result is
    normalised; gate_last: by a norm before the gate.
    """

    heads: int
    head_dim: int
    state_size: int
    groups: int
    kernel: int
    epsilon: float
    activation: str = "silu"
    bias: bool = False
    output_bias: bool = False
    convolution_bias: bool = True
    limits: tuple[float, float | None] = (0.0, None)
    factors: tuple[float, ...] | None = None
    norm: bool = True
    gate_last: bool = False

    @property
    def inner(self) -> int:
        """The channels of all heads."""
        return self.heads * self.head_dim

    @property
    def shared(self) -> int:
        """The numbers that go into the states of all groups, or out of them."""
        return self.groups * self.state_size

    @property
    def states(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the states of a layer, for nn/recurrent/recurrent.py."""
        return (self.kernel - 1, self.inner + 2 * self.shared), (self.heads, self.head_dim, self.state_size)


class GatedNorm(Module):
    """The root mean square norm, group by group, of x times silu(gate); or of x, then times silu(gate)."""

    def __init__(self, size: int, groups: int, epsilon: float, gate_last: bool = False) -> None:
        super().__init__()
        self.groups, self.epsilon, self.gate_last = groups, epsilon, gate_last
        self.weight = Parameter(ones(size))

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        """x and gate (..., size) → (..., size)."""
        y = x if self.gate_last else x * gate.silu()
        parts = y.reshape(*y.shape[:-1], self.groups, y.shape[-1] // self.groups)
        parts = parts * (parts.square().mean(-1, True) + self.epsilon).rsqrt()
        y = parts.reshape(y.shape) * self.weight
        return y * gate.silu() if self.gate_last else y


class Mamba2Mixer(Module):
    """Projects to heads, mixes each channel with its last tokens and each head with its state, and gates the result."""

    def __init__(self, hidden_size: int, settings: Mamba2Settings, layer: int) -> None:
        super().__init__()
        inner, heads, shared = settings.inner, settings.heads, settings.shared
        width = inner + 2 * shared
        self.layer, self.groups, self.head_dim = layer, settings.groups, settings.head_dim
        self.limits = settings.limits
        self.sizes, self.parts = (inner, width, heads), (inner, shared, shared)
        self.activation = activation_named(settings.activation)
        self.in_proj = Linear(hidden_size, inner + width + heads, bias=settings.bias)
        self.conv1d = Conv1d(width, width, settings.kernel, groups=width, bias=settings.convolution_bias)
        self.dt_bias = new_parameter(empty, heads)
        self.A_log = new_parameter(empty, heads)
        self.D = Parameter(ones(heads))
        self.norm = (
            GatedNorm(inner, settings.groups, settings.epsilon, settings.gate_last) if settings.norm else None
        )  # fmt: skip
        self.out_proj = ResidualLinear(inner, hidden_size, bias=settings.output_bias)
        if settings.factors is None:
            self.register_buffer("factors", None, persistent=False)
        else:
            rows = zip(settings.factors, (inner, *self.parts, heads), strict=True)
            self.register_buffer("factors", cat([full((size,), float(x)) for x, size in rows]), persistent=False)
        if Initialization.on:
            with no_grad():
                self.A_log.copy_(arange(1, heads + 1, dtype="float32").log())
            draw_steps(self.dt_bias)

    def forward(self, x: Tensor, text: StateText, residual: Tensor | None = None) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens, or these alone (..., T, hidden_size)."""
        projected = self.in_proj(text.masked(x))  # (..., T, inner + width + H)
        gate, mixed, steps = (projected if self.factors is None else projected * self.factors).split(self.sizes, -1)
        convolve = partial(causal_convolution, weight=self.conv1d.weight, bias=self.conv1d.bias)
        mixed = text.masked(self.activation(text.carry(self.layer, 0, convolve, mixed)))
        x, inward, outward = mixed.split(self.parts, -1)
        steps = (steps + self.dt_bias).softplus()  # (..., T, H)
        if self.limits != (0.0, None):
            steps = steps.clamp(*self.limits)
        scan = partial(chunked_scan, decay=-self.A_log.exp(), groups=self.groups)
        y = text.carry(self.layer, 1, scan, x, steps, inward, outward)  # (..., T, inner)
        heads = (*x.shape[:-1], self.D.shape[0], self.head_dim)
        y = (y.reshape(heads) + x.reshape(heads) * self.D.unsqueeze(-1)).reshape(y.shape)
        y = y * gate.silu() if self.norm is None else self.norm(y, gate)
        return self.out_proj(y, residual)

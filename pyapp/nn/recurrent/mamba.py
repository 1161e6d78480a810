"""The mixer of Mamba (Gu and Dao 2023, arXiv 2312.00752), which decoders with attention have too."""

from __future__ import annotations

from functools import partial

from ...dataclass import dataclass
from ...engine import Tensor, no_grad
from ...engine.ops import arange, empty, ones
from ..layers.convolution import Conv1d
from ..layers.gated import activation_named
from ..layers.linear import Linear, ResidualLinear
from ..module import Module
from ..parameter import Initialization, Parameter, new_parameter
from .recurrent import StateText
from .state_space import causal_convolution, draw_steps, selective_scan


@dataclass(frozen=True)
class MambaSettings:
    """The sizes of a mixer of `inner` channels; `rank` is that of the steps."""

    inner: int
    state_size: int
    kernel: int
    rank: int
    activation: str = "silu"
    bias: bool = False
    convolution_bias: bool = True

    @property
    def states(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the states of a layer, for nn/recurrent/recurrent.py."""
        return (self.kernel - 1, self.inner), (self.inner, self.state_size)


class MambaMixer(Module):
    """Projects to channels, mixes each with its last tokens and with its state, and gates the result."""

    def __init__(self, hidden_size: int, settings: MambaSettings, layer: int) -> None:
        super().__init__()
        inner, rank, size = settings.inner, settings.rank, settings.state_size
        self.layer, self.sizes = layer, (rank, size, size)
        self.activation = activation_named(settings.activation)
        self.in_proj = Linear(hidden_size, 2 * inner, bias=settings.bias)
        self.conv1d = Conv1d(inner, inner, settings.kernel, groups=inner, bias=settings.convolution_bias)
        self.x_proj = Linear(inner, rank + 2 * size, bias=False)
        self.dt_proj = Linear(rank, inner)
        self.A_log = new_parameter(empty, inner, size)
        self.D = Parameter(ones(inner))
        self.out_proj = ResidualLinear(inner, hidden_size, bias=settings.bias)
        if Initialization.on:
            with no_grad():
                self.A_log.copy_(arange(1, size + 1, dtype="float32").log())
            draw_steps(self.dt_proj.get_parameter("bias"))

    def normalized(self, part: int, x: Tensor) -> Tensor:
        """The steps (part 0), what goes into the states (1) and out of them (2), x (..., T, F), in models that have
        norms there → (..., T, F).
        """
        return x

    def forward(self, x: Tensor, text: StateText, residual: Tensor | None = None) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens, or these alone (..., T, hidden_size)."""
        inner = self.D.shape[0]
        both = self.in_proj(text.masked(x))  # (..., T, 2 inner)
        convolve = partial(causal_convolution, weight=self.conv1d.weight, bias=self.conv1d.bias)
        x = text.masked(self.activation(text.carry(self.layer, 0, convolve, both.narrow(-1, 0, inner))))
        parts = self.x_proj(x).split(self.sizes, -1)
        steps, inward, outward = (self.normalized(i, part) for i, part in enumerate(parts))
        scan = partial(selective_scan, decay=-self.A_log.exp())
        y = text.carry(self.layer, 1, scan, x, self.dt_proj(steps).softplus(), inward, outward)
        y = (y + x * self.D) * both.narrow(-1, inner, inner).silu()
        return self.out_proj(y, residual)

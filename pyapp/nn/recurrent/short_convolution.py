"""The gated convolution over a few tokens that most layers of LFM2 and LFM3 have (Liquid AI 2025, arXiv 2511.23404)."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...engine import Tensor
from ..layers.convolution import Conv1d
from ..layers.linear import Linear, ResidualLinear
from ..module import Module
from .state_space import causal_convolution


class ShortConvolution(Module):
    """Each channel's convolution over the token and those before it, between two gates. `kernel`: how many tokens."""

    def __init__(self, hidden_size: int, kernel: int, layer: int, bias: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.conv = Conv1d(hidden_size, hidden_size, kernel, groups=hidden_size, bias=bias)
        self.in_proj = Linear(hidden_size, 3 * hidden_size, bias=bias)
        self.out_proj = ResidualLinear(hidden_size, hidden_size, bias=bias)

    def forward(self, x: Tensor, text: Any, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + the mixed tokens, or these alone (..., T, hidden_size)."""
        before, after, x = self.in_proj(text.masked(x)).chunk(3, -1)
        step = partial(causal_convolution, weight=self.conv.weight, bias=self.conv.bias)
        return self.out_proj(after * text.carry(self.layer, 0, step, before * x), residual)

"""What stages of attention to a coarser picture have in common (PVT v2, SegFormer).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from ...engine import Tensor
from ..encoders.encoders import attend
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from .vision import as_map, as_sequence


class OverlappingPatches(Module):
    """Patches that overlap, and their norm."""

    def __init__(self, before: int, width: int, kernel: int, stride: int, epsilon: float) -> None:
        super().__init__()
        self.proj = Conv2d(before, width, kernel, stride, kernel // 2)
        self.layer_norm = LayerNorm(width, epsilon)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """x (B, C, H, W) → (B, H' * W', D), and (H', W')."""
        x = self.proj(x)
        return self.layer_norm(as_sequence(x)), (int(x.shape[2]), int(x.shape[3]))


class CoarserAttention(Module):
    """Attention of each place to the places of another, coarser picture."""

    def __init__(self, width: int, heads: int, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(width, width, bias)
        self.key = Linear(width, width, bias)
        self.value = Linear(width, width, bias)

    def attend_to(self, source: Tensor, x: Tensor) -> Tensor:
        """source (B, S, D), x (B, T, D) → (B, T, D)."""
        q, k, v = (
            layer(y).reshape(*y.shape[:2], self.heads, -1)
            for layer, y in ((self.query, x), (self.key, source), (self.value, source))
        )
        return attend(q, k, v, None)


class NeighbourFeedForward(Module):
    """A feed-forward part in which each place sees the 3 x 3 places around it. `rectified`: a ReLU is before that."""

    def __init__(self, width: int, inner: int, activation: str, rectified: bool = False) -> None:
        super().__init__()
        self.dense1 = Linear(width, inner)
        self.dwconv = Module()
        self.dwconv.dwconv = Conv2d(inner, inner, 3, padding=1, groups=inner)
        self.dense2 = ResidualLinear(inner, width)
        self.activation, self.rectified = activation_named(activation), rectified

    def forward(self, x: Tensor, residual: Tensor, size: tuple[int, int]) -> Tensor:
        """x and residual (B, H * W, D), size (H, W) → (B, H * W, D)."""
        y = self.dense1(x)
        y = self.dwconv.dwconv(as_map(y.relu() if self.rectified else y, *size))
        return self.dense2(self.activation(as_sequence(y)), residual)

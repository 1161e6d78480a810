"""The plain feed-forward layer of transformers (Vaswani et al. 2017, arXiv 1706.03762)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...engine import Tensor
from ..module import Module
from .gated import activated, activation_named
from .linear import Linear, ResidualLinear, TransposedLinear


class FeedForward(Module):
    """Two linear layers with an activation between them, added to a residual stream. `names` are those of the layers in
    files; `transposed`: files have the weights as (in, out).
    """

    def __init__(
        self, width: int, inner: int, activation: str, *, bias: bool = True, names: tuple[str, str] = ("fc1", "fc2"),
        transposed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.names, self.activation = names, activation_named(activation)
        if transposed:
            layers: tuple[Any, Any] = TransposedLinear(width, inner), TransposedLinear(inner, width)
        else:
            layers = Linear(width, inner, bias), ResidualLinear(inner, width, bias)
        for name, layer in zip(names, layers, strict=True):
            self.add_module(name, layer)

    @property
    def tensor_parallel(self) -> Mapping[str, tuple[str, ...]]:
        """How several processes divide the layers (nn/tensor_parallel.py)."""
        first, last = self.names
        return {first: ("outputs", "inner"), last: ("inputs", "inner")}

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x and residual (..., width) → residual + feed-forward, or the feed-forward alone (..., width)."""
        first, last = (self._modules[name] for name in self.names)
        y: Tensor = last(activated(first, x, self.activation), residual)
        return y

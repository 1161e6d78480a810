"""Mixtures of experts: feed-forward layers of which a router chooses a few for each token (Shazeer et al. 2017, arXiv
1701.06538; Jiang et al. 2024, arXiv 2401.04088).
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.launch import capturing
from ...engine.ops import empty
from ..module import Module
from ..parameter import Initialization, new_parameter
from .gated import gated

__all__ = ["Experts", "Router"]

GATHERED = 8  # tokens up to which the weights of their experts are gathered; more are sorted by expert


class Router(Module):
    """Chooses `count` of E experts for each token: softmax(x weightᵀ), of which the largest remain; `normalized`: their
    sum is 1 again. The weight is (E, D).
    """

    def __init__(self, hidden_size: int, experts: int, count: int, normalized: bool = True) -> None:
        super().__init__()
        self.count, self.normalized = count, normalized
        self.weight = new_parameter(empty, experts, hidden_size)
        if Initialization.on:
            bound = 1 / sqrt(hidden_size)
            with no_grad():
                self.weight.uniform_(-bound, bound)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (N, D) → shares (N, count) and experts (N, count) int64."""
        shares, chosen = ops.linear(x, self.weight).softmax(-1).topk(self.count, -1)
        return (shares / shares.sum(-1, True) if self.normalized else shares), chosen


class Experts(Module):
    """E gated feed-forward layers in two stacks: gate_up_proj (E, 2 F, D) and down_proj (E, D, F)."""

    def __init__(self, hidden_size: int, intermediate_size: int, experts: int, activation: str = "silu") -> None:
        super().__init__()
        self.activation = activation
        self.gate_up_proj = new_parameter(empty, experts, 2 * intermediate_size, hidden_size)
        self.down_proj = new_parameter(empty, experts, hidden_size, intermediate_size)
        if Initialization.on:
            with no_grad():
                for weight in (self.gate_up_proj, self.down_proj):
                    weight.uniform_(-1 / sqrt(weight.shape[-1]), 1 / sqrt(weight.shape[-1]))

    def forward(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """x (N, D), shares and experts (N, K) → the sum of the chosen experts' outputs, by their shares (N, D)."""
        if capturing() or x.shape[0] <= GATHERED:
            return self._gathered(x, shares, chosen)
        return self._sorted(x, shares, chosen)

    def _gathered(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """With a copy of the weights of each token's experts, without reading the choice."""
        tokens, count = chosen.shape
        ids = chosen.reshape(-1)  # (N K,)
        up, down = (ops.index_select(weight, 0, ids) for weight in (self.gate_up_proj, self.down_proj))
        own = x.unsqueeze(1).expand((tokens, count, x.shape[1])).reshape(tokens * count, x.shape[1], 1)
        inner = gated((up @ own).squeeze(-1), self.activation)  # (N K, F)
        found = (down @ inner.unsqueeze(-1)).reshape(tokens, count, x.shape[1])
        return (found * shares.unsqueeze(-1)).sum(1)

    def _sorted(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """Expert by expert, with the tokens that chose it."""
        rows: list[list[int]] = [[] for _ in range(self.down_proj.shape[0])]  # (token * K + place), by expert
        for place, expert in enumerate(chosen.reshape(-1).tolist()):
            rows[expert].append(place)
        parts: list[Any] = []
        for expert, places in enumerate(rows):
            if places:
                ids = ops.tensor([place // chosen.shape[1] for place in places], device=x.device)
                inner = gated(
                    ops.linear(ops.index_select(x, 0, ids), self.gate_up_proj.select(0, expert)), self.activation
                )
                parts.append(ops.linear(inner, self.down_proj.select(0, expert)))
        order = sorted(range(chosen.numel()), key=[place for places in rows for place in places].__getitem__)
        found = ops.index_select(ops.cat(parts), 0, ops.tensor(order, device=x.device))  # (N K, D)
        return (found.reshape(*chosen.shape, x.shape[1]) * shares.unsqueeze(-1)).sum(1)

    def extra_repr(self) -> str:
        return f"{self.down_proj.shape[0]} experts, activation={self.activation}"

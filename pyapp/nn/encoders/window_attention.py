"""Attention within a window, and of and to the first tokens of a text that see everything (Longformer, Beltagy et al.
2020, arXiv 2004.05150).
"""

from __future__ import annotations

from ...engine import Tensor, ops
from ..layers.linear import Linear
from .encoders import SelfAttention, attend


class WindowAttention(SelfAttention):
    """Self-attention within a window of so many tokens, half of them before a token and half behind it, and of and to
    the tokens that see everything, with projections of their own.
    """

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__(width, heads)
        self.side = window // 2
        self.query_global, self.key_global, self.value_global = (Linear(width, width) for _ in range(3))

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, H, D / H)."""
        return x.reshape(*x.shape[:2], self.heads, x.shape[2] // self.heads)

    def forward(self, x: Tensor, mask: Tensor | None, seeing: Tensor | None = None) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T) → (B, T, D). seeing (B, T): not 0 for tokens that see, and are
        seen by, everything; None: none do.
        """
        q, k, v = (self.split(part) for part in self.joined(self, x).chunk(3, -1))
        if seeing is None:
            return attend(q, k, v, mask, window=self.side)
        places = ops.arange(x.shape[1], dtype="int32", device=x.device)
        near = (places.unsqueeze(1) - places.unsqueeze(0)).abs() <= self.side  # (T, T)
        shown = near | (seeing != 0).unsqueeze(1).unsqueeze(1)  # (B, 1, T, T)
        y = attend(q, k, v, shown if mask is None else shown & mask)
        columns = (seeing != 0).any(0).tolist()
        if True not in columns:
            return y
        first = columns.index(True)
        count = len(columns) - first - columns[::-1].index(True)
        asking = self.split(self.query_global(x.narrow(1, first, count)))  # (B, count, H, D / H)
        all_seen = attend(asking, self.split(self.key_global(x)), self.split(self.value_global(x)), mask)
        there = (seeing.narrow(1, first, count) != 0).unsqueeze(-1)  # (B, count, 1)
        found = ops.where(there, all_seen, y.narrow(1, first, count))
        end = first + count
        return ops.cat([y.narrow(1, 0, first), found, y.narrow(1, end, x.shape[1] - end)], 1)

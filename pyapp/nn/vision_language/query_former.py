"""The layers of a Q-Former (Li et al. 2023, arXiv 2301.12597): queries ask what an encoder has seen or heard.

Parameters have the names of Hugging Face's files. `config` has the fields of models/loading/query_config.py.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..encoders.encoders import Intermediate, NormedResidual
from ..layers.containers import ModuleList
from ..layers.linear import Linear
from ..module import Module


class QueryAttention(Module):
    """Attention of queries to each other, or to what an encoder gives; the residual and the norm."""

    def __init__(self, config: Any, source_width: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.attention = Module()
        self.attention.query = Linear(width, width)
        self.attention.key, self.attention.value = (Linear(source_width, width) for _ in range(2))
        self.output = NormedResidual(width, width, config.layer_norm_eps)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """x (B, N, D), source (B, S, W) → (B, N, D)."""
        parts = self.attention
        q, k, v = (
            part(y).reshape(*y.shape[:2], self.heads, -1)
            for part, y in ((parts.query, x), (parts.key, source), (parts.value, source))
        )  # (B, N or S, H, D / H)
        return self.output(ops.attention(q, k, v, causal=False).reshape(x.shape), x)


class QueryLayer(Module):
    """Queries attend to each other and, in some layers, to what an encoder gives; then a feed-forward part. `reads`:
    words stand after the queries; all attend to each other, and the words have a feed-forward part of their own.
    """

    def __init__(self, config: Any, source_width: int, asks: bool, reads: bool) -> None:
        super().__init__()
        self.attention = QueryAttention(config, config.hidden_size)
        self.crossattention = QueryAttention(config, source_width) if asks else None
        sizes = config.hidden_size, config.intermediate_size
        self.intermediate_query = Intermediate(*sizes, config.hidden_act)
        self.output_query = NormedResidual(*sizes[::-1], config.layer_norm_eps)
        self.intermediate = Intermediate(*sizes, config.hidden_act) if reads else None
        self.output = NormedResidual(*sizes[::-1], config.layer_norm_eps) if reads else None

    def forward(self, x: Tensor, source: Tensor, count: int) -> Tensor:
        """x (B, N + T, D) of `count` = N queries, source (B, S, W) → (B, N + T, D)."""
        x = self.attention(x, x)
        words = x.narrow(1, count, x.shape[1] - count)
        x = x.narrow(1, 0, count)
        x = x if self.crossattention is None else self.crossattention(x, source)
        x = self.output_query(self.intermediate_query(x), x)
        if self.intermediate is None or self.output is None:
            return x
        return ops.cat([x, self.output(self.intermediate(words), words)], 1)


def query_layers(config: Any, source_width: int, reads: bool = False) -> ModuleList:
    """The layers, for an encoder's states of this width. `reads`: as QueryLayer's."""
    return ModuleList(
        QueryLayer(config, source_width, layer % config.cross_attention_frequency == 0, reads)
        for layer in range(config.num_hidden_layers)
    )

"""DeepSeek's sparse attention (DeepSeek-AI 2025, https://github.com/deepseek-ai/DeepSeek-V3.2-Exp): an indexer chooses
the tokens to which latent attention attends.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ...engine import Tensor, no_grad, ops
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from .decoder import RotaryTable, Text, WholeText
from .latent_attention import LatentAttention

EPSILON = 1e-6  # of the norm of the indexer's keys


class Indexer(Module):
    """Scores of the tokens before each: small heads of queries of the compressed ones, one head of keys, and a weight
    for each head. `config` has index_topk, index_n_heads and index_head_dim. It gets no gradients.
    """

    def __init__(self, config: Any, rotary: RotaryTable) -> None:
        super().__init__()
        self.heads, self.head_dim, self.count = config.index_n_heads, config.index_head_dim, config.index_topk
        self.rotary, self.interleaved = rotary, config.index_interleaved
        self.wq_b = Linear(config.q_lora_rank, self.heads * self.head_dim, bias=False)
        self.wk = Linear(config.hidden_size, self.head_dim, bias=False)
        self.k_norm = LayerNorm(self.head_dim, EPSILON)
        self.weights_proj = Linear(config.hidden_size, self.heads, bias=False)

    def forward(self, x: Tensor, compressed: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, hidden_size), compressed queries (B, T, q_lora_rank), mask (B, 1, 1, T) bool of a text's tokens →
        (B, 1, T, T) bool, the tokens that each sees.
        """
        with no_grad():
            texts, tokens = x.shape[:2]
            table = self.rotary.upto(tokens, x.device)
            queries = self.wq_b(compressed).reshape(texts, tokens, self.heads, self.head_dim)
            keys = self.k_norm(self.wk(x)).unsqueeze(2)  # (B, T, 1, D)
            queries, keys = (ops.rope(part, table, interleaved=self.interleaved) for part in (queries, keys))
            scores = (queries.transpose(1, 2) @ keys.transpose(1, 2).transpose(2, 3)).relu()  # (B, H, T, T)
            weights = self.weights_proj(x) * (self.heads * self.head_dim) ** -0.5  # (B, T, H)
            total = (scores * weights.transpose(1, 2).unsqueeze(-1)).sum(1)  # (B, T, T)
            places = ops.arange(tokens, device=x.device)
            seen = places.unsqueeze(0) <= places.unsqueeze(1)  # (T, T)
            seen = seen.unsqueeze(0) if mask is None else seen & mask.squeeze(1)
            total = ops.where(seen, total, -inf)
            chosen = total.topk(min(self.count, tokens), -1)[1]  # (B, T, count)
            found = ops.scatter(ops.zeros(*total.shape, device=x.device), -1, chosen, 1.0)
            return (found > 0).unsqueeze(1) & seen.unsqueeze(1)


class SparseLatentAttention(LatentAttention):
    """Latent attention to the tokens that an indexer chooses; `indexed` False: to those of the layer before. Texts of
    index_topk tokens or fewer are seen whole, and longer ones only without a cache.
    """

    def __init__(self, config: Any, layer: int, rotary: RotaryTable, indexed: bool) -> None:
        super().__init__(config, layer, rotary)
        self.count = config.index_topk
        self.indexer = Indexer(config, rotary) if indexed else None

    def narrowed(self, x: Tensor, compressed: Tensor | None, text: Text) -> Text:
        if not isinstance(text, WholeText) or text.length <= self.count:
            return text
        if self.indexer is not None:
            text.chosen = self.indexer(x, compressed, text.mask)
        assert text.chosen is not None
        return text.narrowed(text.chosen)

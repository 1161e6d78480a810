"""Multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434)."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ...engine.ops import cat, zeros
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import RMSNorm
from .decoder import RotaryTable, SelfAttention, Text
from .decoder_blocks import grown

LATENT_EPSILON = 1e-6  # of the norms of latent vectors


class LatentAttention(SelfAttention):
    """Attention whose keys and values are projections of one latent vector for each token. The queries go through the
    keys' projection instead, and the sums of latent vectors through the values': so the cache holds latent vectors, and
    they are read once for all heads. Beside them is one key with rotary positions (`rotary` None: without). `config` is
    a LatentConfig of models/loading/latent.py, whose `growth` says how queries grow with their positions.
    """

    def __init__(self, config: Any, layer: int, rotary: RotaryTable | None) -> None:
        heads, rank, rotated = config.num_attention_heads, config.kv_lora_rank, config.qk_rope_head_dim
        super().__init__(
            layer, config.heads(scale=config.score_scale, interleaved=getattr(config, "rope_interleave", False)), rotary
        )  # fmt: skip
        self.growth, self.period = config.growth
        self.rank, self.rotated, self.plain, self.value_dim = rank, rotated, config.qk_nope_head_dim, config.v_head_dim
        size, width, bias = config.hidden_size, heads * (config.qk_nope_head_dim + rotated), config.attention_bias
        if config.q_lora_rank is None:
            self.q_proj = Linear(size, width, bias=False)
        else:
            self.q_a_proj = Linear(size, config.q_lora_rank, bias=bias)
            self.q_a_layernorm = RMSNorm(config.q_lora_rank, LATENT_EPSILON)
            self.q_b_proj = Linear(config.q_lora_rank, width, bias=False)
        self.kv_a_proj_with_mqa = Linear(size, rank + rotated, bias=bias)
        self.kv_a_layernorm = RMSNorm(rank, LATENT_EPSILON)
        self.kv_b_proj = Linear(rank, heads * (config.qk_nope_head_dim + config.v_head_dim), bias=False)
        self.o_proj = ResidualLinear(heads * config.v_head_dim, size, bias=bias)

    def gated(self, x: Tensor, y: Tensor) -> Tensor:
        """What each head found (M, H, value_dim), as the last projection reads it: x (..., T, hidden_size)."""
        return y

    def narrowed(self, x: Tensor, compressed: Tensor | None, text: Text) -> Text:
        """The text as this layer sees it: x (..., T, hidden_size), the compressed queries (..., T, q_lora_rank)."""
        return text

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        heads, size, before = self.heads.heads, self.heads.head_dim, x.shape[:-1]
        compressed = None if "q_proj" in self._modules else self.q_a_layernorm(self.q_a_proj(x))
        text = self.narrowed(x, compressed, text)
        q = self.q_proj(x) if compressed is None else self.q_b_proj(compressed)
        if self.growth:
            q = q * grown(text.positions(x.select(-1, 0)), self.growth, self.period).to(q.dtype).unsqueeze(-1)
        q = q.reshape(-1, heads, self.plain + self.rotated)  # (M, H, plain + rotated)
        weight = self.kv_b_proj.dense_weight().to(x.dtype).reshape(heads, self.plain + self.value_dim, self.rank)
        keys, values = weight.narrow(1, 0, self.plain), weight.narrow(1, self.plain, self.value_dim)
        latent_q = (q.narrow(2, 0, self.plain).transpose(0, 1) @ keys).transpose(0, 1)  # (M, H, rank)
        query = cat([q.narrow(2, self.plain, self.rotated), latent_q], -1).reshape(*before, heads * size)
        both = self.kv_a_proj_with_mqa(x)
        latent = self.kv_a_layernorm(both.narrow(-1, 0, self.rank))
        place = both.narrow(-1, self.rank, self.rotated)
        nothing = zeros(*before, self.rotated, dtype=x.dtype, device=x.device)
        y = self.attend(cat([query, place, latent, nothing, latent], -1), text)  # (..., T, H * size)
        y = y.reshape(-1, heads, size).narrow(2, self.rotated, self.rank).transpose(0, 1)  # (H, M, rank)
        y = self.gated(x, (y @ values.transpose(1, 2)).transpose(0, 1))  # (M, H, value_dim)
        out: Tensor = self.o_proj(y.reshape(*before, heads * self.value_dim), residual)
        return out

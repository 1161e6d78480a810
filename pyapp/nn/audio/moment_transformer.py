"""The transformer between the convolutions of a codec and its codes, which adds to a moment what was heard before, as
Mimi (Défossez et al. 2024, arXiv 2410.00037) has it. `config` has the fields of Mimi's config.json, and `head_size`;
`gated`: the feed-forward parts are gated, the norms are RMS norms, and there is one behind the last layer.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..decoders.decoder import RotaryTable
from ..encoders.encoders import attend
from ..layers.containers import ModuleList
from ..layers.feed_forward import FeedForward
from ..layers.gated import GatedFeedForward
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm, RMSNorm
from ..module import Module
from ..parameter import new_parameter


class Scale(Module):
    """x times a vector (Touvron et al. 2021, arXiv 2103.17239)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = new_parameter(ops.ones, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return x * self.scale


class Attention(Module):
    """Attention to the last moments, with rotary positions."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, bias = config.hidden_size, config.attention_bias
        self.heads, self.size = config.num_attention_heads, config.head_size
        inner = self.heads * self.size
        self.q_proj = Linear(width, inner, bias)
        self.k_proj = Linear(width, inner, bias)
        self.v_proj = Linear(width, inner, bias)
        self.o_proj = Linear(inner, width, bias)

    def forward(self, x: Tensor, mask: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D), mask (1, 1, T, T) bool → (B, T, D)."""
        parts = (
            part(x).reshape(*x.shape[:2], self.heads, self.size) for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k, v = parts  # (B, T, H, size)
        return self.o_proj(
            attend(ops.rope(q, table, interleaved=False), ops.rope(k, table, interleaved=False), v, mask)
        )


class Layer(Module):
    """Attention and a feed-forward part, each after a norm, times a vector and with a residual."""

    def __init__(self, config: Any, gated: bool = False) -> None:
        super().__init__()
        width, inner, norm = config.hidden_size, config.intermediate_size, RMSNorm if gated else LayerNorm
        self.self_attn = Attention(config)
        self.mlp: Module = (
            GatedFeedForward(width, inner, config.hidden_act)
            if gated
            else FeedForward(width, inner, config.hidden_act, bias=False)
        )
        self.input_layernorm, self.post_attention_layernorm = (norm(width, config.norm_eps) for _ in range(2))
        self.self_attn_layer_scale, self.mlp_layer_scale = Scale(width), Scale(width)

    def forward(self, x: Tensor, mask: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), mask, table))
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))


class MomentTransformer(Module):
    """The layers between convolutions and codes."""

    def __init__(self, config: Any, gated: bool = False) -> None:
        super().__init__()
        self.window = config.sliding_window
        self.layers = ModuleList(Layer(config, gated) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps) if gated else None
        self.rotary = RotaryTable.of_heads(config.head_size, config.max_position_embeddings, config.rope_parameters)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, T) → (B, D, T)."""
        x, table = x.transpose(1, 2), self.rotary.upto(x.shape[2], x.device)
        places = ops.arange(x.shape[1], dtype="int32", device=x.device)
        back = places.unsqueeze(1) - places.unsqueeze(0)
        mask = (back >= 0).logical_and(back < self.window).reshape(1, 1, *back.shape)
        for layer in self.layers:
            x = layer(x, mask, table)
        return (x if self.norm is None else self.norm(x)).transpose(1, 2)

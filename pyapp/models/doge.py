"""Doge (SmallDoge 2025, https://huggingface.co/SmallDoge/Doge-320M): Llama's blocks with factors for the features of
residuals, normalised queries and keys, and a number for each key and value that is added to all scores of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat, full, ones, zeros
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.decoders.caches import decoder_cache
from pyapp.nn.decoders.decoder import RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, RotaryLanguageModel
from pyapp.nn.heads import Heads, split_heads
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import new_parameter

from .loading.config import DecoderConfig, require

MODEL_TYPES = ("doge",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. keep_window_size: tokens up to which each sees all."""

    model_type = "doge"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int | None = None
    keep_window_size: int = 2048
    is_moe: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            not self.is_moe, "Doge with experts (is_moe) is not supported: its router mixes the tokens of a text",
            "Load a Doge without experts, such as SmallDoge/Doge-320M",
        )  # fmt: skip

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read: of longer texts each would see a choice."""
        return min(super().max_seq_len, self.keep_window_size)

    @property
    def wide(self) -> int:
        """Features of a head in the cache: those of keys, and one for what is added to the scores; in whole blocks."""
        return self.head_dim + (32 if self.head_dim % 32 == 0 else 2)


class Attention(HeadNormAttention):
    """Self-attention with normalised queries and keys. What is added to the scores of a key is a feature of the key,
    which a constant of the queries meets; behind it zeros fill up the head.
    """

    tensor_parallel: Mapping[str, tuple[str, ...]] = {}  # every process has the whole of it: dt_proj reads all values

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, bias = config.heads(window=config.sliding_window), config.attention_bias
        super().__init__(layer, config.hidden_size, heads, rotary, config.rms_norm_eps, bias=bias)
        scale = 1 / sqrt(heads.head_dim)
        self.wide = Heads(heads.heads, heads.kv_heads, config.wide, scale=scale, window=heads.window)
        self.A = new_parameter(zeros, heads.kv_heads)
        self.dt_proj = Linear(heads.kv_heads * heads.head_dim, heads.kv_heads, bias=bias)

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        heads, before, more = self.heads, x.shape[:-1], self.wide.head_dim - self.heads.head_dim
        q, k, v = split_heads(self.normalized(self.qkv(self, x)), heads)
        added = (self.A * self.dt_proj(v.reshape(*before, -1)).softplus()).exp().unsqueeze(-1)  # (..., KV, 1)
        like: Any = {"dtype": x.dtype, "device": x.device}
        constant = full((*before, heads.heads, 1), sqrt(heads.head_dim), **like)
        rest = zeros(*before, 2 * heads.kv_heads + heads.heads, more, **like)
        rest = cat([cat([constant, added, rest.narrow(-2, 0, heads.kv_heads).narrow(-1, 0, 1)], -2),
                    rest.narrow(-1, 0, more - 1)], -1)  # (..., H + 2 KV, more)  # fmt: skip
        qkv = cat([cat([q, k, v], -2), rest], -1).reshape(*before, self.wide.width)
        y = text.attention(self.layer, qkv, self.wide, self.rotary)  # (..., T, H * wide)
        y = y.reshape(*before, heads.heads, self.wide.head_dim).narrow(-1, 0, heads.head_dim)
        return self.o_proj(y.reshape(*before, heads.heads * heads.head_dim), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it, times a factor."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, layer, rotary)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)
        self.input_residual = new_parameter(ones, size)
        self.post_attention_residual = new_parameter(ones, size)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, self.input_residual * x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), self.post_attention_residual * x)
        return y


class DogeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        config = self.config
        return decoder_cache(
            texts, config.num_hidden_layers, self.kv_heads, capacity, config.wide, self.device, dtype
        )  # fmt: skip


TASKS = {"causal-lm": DogeForCausalLM}

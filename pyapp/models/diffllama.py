"""DiffLlama (2025, https://huggingface.co/kajuma/DiffLlama-0.3B-handcut): Llama's blocks with differential attention
(Ye et al. 2024, arXiv 2410.05258): half of the heads attend, and what the other half finds is taken away from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat, zeros
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.caches import decoder_cache
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.heads import Heads, split_heads
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import new_parameter

from .loading.config import DecoderConfig, require

MODEL_TYPES = ("diffllama",)
FACTORS = "lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "diffllama"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        keys = self.num_key_value_heads
        require(keys % 2 == 0, f"num_key_value_heads is {keys}, expected an even number: half of them are taken away")


class DifferentialAttention(GroupedQueryAttention):
    """Self-attention whose heads h and H / 2 + h read the same two heads of values. Keys are filled up with zeros to
    the size of both, so that the cache has heads of one size.
    """

    tensor_parallel: Mapping[str, tuple[str, ...]] = {}  # every process has the whole of it: heads are paired

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size = config.head_dim
        super().__init__(layer, config.hidden_size, config.heads(), rotary, bias=config.attention_bias)
        self.wide = Heads(config.num_attention_heads, config.num_key_value_heads, 2 * size, scale=1 / sqrt(size))
        self.first = 0.8 - 0.6 * exp(-0.3 * layer)  # of the factor, before it is trained
        for name in FACTORS:
            self.register_parameter(name, new_parameter(zeros, size))
        self.groupnorm = RMSNorm(2 * size, config.rms_norm_eps, elementwise_affine=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        heads, before, half = self.heads, x.shape[:-1], self.heads.kv_heads // 2
        q, k, v = split_heads(self.qkv(self, x), heads)
        values = [v.narrow(-2, 0, half), v.narrow(-2, half, half)]  # (..., KV / 2, D) each
        both = cat([cat([one, one], -2) for one in values], -1)  # (..., KV, 2 D)
        qk = cat([q, k], -2)
        qkv = cat([cat([qk, zeros(*qk.shape, dtype=x.dtype, device=x.device)], -1), both], -2)
        y = text.attention(self.layer, qkv.reshape(*before, self.wide.width), self.wide, self.rotary)
        found, other = y.chunk(2, -1)  # (..., H * D) each
        one, two = ((self._parameters[a] * self._parameters[b]).sum().exp() for a, b in (FACTORS[:2], FACTORS[2:]))
        y = (found - (one - two + self.first) * other).reshape(*before, heads.heads // 2, 2 * heads.head_dim)
        y = self.groupnorm(y) * (1 - self.first)
        return self.o_proj(y.reshape(*before, heads.heads * heads.head_dim), residual)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        attention = DifferentialAttention(config, layer, rotary)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class DiffLlamaForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        config = self.config
        return decoder_cache(
            texts, config.num_hidden_layers, self.kv_heads, capacity, 2 * config.head_dim, self.device, dtype
        )


TASKS = {"causal-lm": DiffLlamaForCausalLM}

"""Persimmon (Adept 2023): layer norms, also of each head's queries and keys, squared ReLU, and rotary positions of half
of each head.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, normalized_heads
from pyapp.nn.decoders.decoder_blocks import HeadByHeadAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import DecoderConfig

MODEL_TYPES = ("persimmon",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "persimmon"
    defaults = {"max_position_embeddings": 16384, "partial_rotary_factor": 0.5}
    ignored = ("num_key_value_heads",)

    intermediate_size: int
    layer_norm_eps: float = 1e-5
    hidden_act: str = "relu2"
    qk_layernorm: bool = True


class Attention(HeadByHeadAttention):
    """Self-attention with normalised queries and keys."""

    tensor_parallel = {**HeadByHeadAttention.tensor_parallel, "q_layernorm": ("between",), "k_layernorm": ("between",)}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, epsilon = config.heads(), config.layer_norm_eps
        super().__init__(layer, config.hidden_size, heads, rotary)
        self.q_layernorm = LayerNorm(heads.head_dim, epsilon) if config.qk_layernorm else None
        self.k_layernorm = LayerNorm(heads.head_dim, epsilon) if config.qk_layernorm else None

    def normalized(self, qkv: Tensor) -> Tensor:
        if self.q_layernorm is None or self.k_layernorm is None:
            return qkv
        return normalized_heads(qkv, self.heads, self.q_layernorm, self.k_layernorm)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, names = config.hidden_size, config.layer_norm_eps, ("dense_h_to_4h", "dense_4h_to_h")
        feed_forward = FeedForward(size, config.intermediate_size, config.hidden_act, names=names)
        attention = Attention(config, layer, rotary)
        super().__init__(attention, feed_forward, LayerNorm(size, epsilon), LayerNorm(size, epsilon))


class PersimmonStack(DecoderStack):
    """The decoder."""

    last_norm = "final_layernorm"


class PersimmonForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.layer_norm_eps), stack=PersimmonStack)


TASKS = {"causal-lm": PersimmonForCausalLM}

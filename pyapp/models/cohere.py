"""Command R and Aya 23 (Cohere 2024): attention and a gated feed-forward layer side by side, layer norms without
biases, rotary positions in neighbouring pairs, and a factor of the logits.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable, normalized_heads
from pyapp.nn.decoders.decoder_blocks import HeadNorm, ParallelBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import HEAD_NORMS, KEYS, NAMES, Gguf, tied

MODEL_TYPES = ("cohere",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "cohere"
    defaults = {"max_position_embeddings": 8192, "tie_word_embeddings": True, "rope_theta": 500000.0}

    intermediate_size: int
    layer_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    use_qk_norm: bool = False
    logit_scale: float = 0.0625


class Attention(GroupedQueryAttention):
    """Self-attention; in the largest models the queries and keys are normalised."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, epsilon = config.heads(interleaved=True), config.layer_norm_eps
        super().__init__(layer, config.hidden_size, heads, rotary, bias=config.attention_bias)
        self.q_norm = HeadNorm(heads.heads, heads.head_dim, epsilon) if config.use_qk_norm else None
        self.k_norm = HeadNorm(heads.kv_heads, heads.head_dim, epsilon) if config.use_qk_norm else None

    def normalized(self, qkv: Tensor) -> Tensor:
        if self.q_norm is None or self.k_norm is None:
            return qkv
        return normalized_heads(qkv, self.heads, self.q_norm, self.k_norm)


class Block(ParallelBlock):
    """Attention and feed-forward of the same norm, both added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size = config.hidden_size
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        norm = LayerNorm(size, config.layer_norm_eps, bias=False)
        super().__init__(Attention(config, layer, rotary), feed_forward, norm)


class CohereForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.layer_norm_eps, bias=False))

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return super().head(x) * self.config.logit_scale


GGUF = Gguf(
    "command-r", names=NAMES | HEAD_NORMS, write=tied,
    keys=KEYS | {"layer_norm_eps": "attention.layer_norm_epsilon", "logit_scale": "logit_scale"},
    read=lambda found, values: found | {
        "attention_bias": "blk.0.attn_q.bias" in values["tensors"],
        "use_qk_norm": "blk.0.attn_q_norm.weight" in values["tensors"],
    },
)  # fmt: skip
TASKS = {"causal-lm": CohereForCausalLM}

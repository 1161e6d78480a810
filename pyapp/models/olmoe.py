"""OLMoE (Muennighoff et al. 2024, arXiv 2409.02060): Llama's blocks with a mixture of experts, whose queries and keys
are normalised, all heads together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.layers.experts import Experts, Router

from .loading.config import DecoderConfig, require
from .loading.gguf import EXPERTS, HEAD_NORMS, KEYS, NAMES, Gguf
from .loading.weights import Stored, experts_apart

MODEL_TYPES = ("olmoe",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `intermediate_size` is that of an expert; queries, keys and values are clipped to
    ±`clip_qkv`.
    """

    model_type = "olmoe"
    defaults = {"max_position_embeddings": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    clip_qkv: float | None = None
    num_experts: int = 64
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        count = self.num_experts_per_tok
        require(count <= self.num_experts, f"num_experts_per_tok is {count}, of {self.num_experts} experts")


class Attention(GroupedQueryAttention):
    """Self-attention whose queries and keys are normalised, all heads together."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads = config.heads()
        super().__init__(layer, config.hidden_size, heads, rotary, bias=config.attention_bias)
        self.clip = config.clip_qkv
        self.q_norm = RMSNorm(heads.heads * heads.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(heads.kv_heads * heads.head_dim, config.rms_norm_eps)

    def normalized(self, qkv: Tensor) -> Tensor:
        inner, kv = self.q_proj.out_features, self.k_proj.out_features
        q, k = self.q_norm(qkv.narrow(-1, 0, inner)), self.k_norm(qkv.narrow(-1, inner, kv))
        y = cat([q, k, qkv.narrow(-1, inner + kv, kv)], -1)
        return y if self.clip is None else y.clamp(-self.clip, self.clip)


class SparseFeedForward(Module):
    """A mixture of experts, added to the residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate = Router(config.hidden_size, config.num_experts, config.num_experts_per_tok, config.norm_topk_prob)
        self.experts = Experts(config.hidden_size, config.intermediate_size, config.num_experts, config.hidden_act)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + experts (..., hidden_size)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        return residual + self.experts(flat, *self.gate(flat)).reshape(x.shape)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, layer, rotary)
        self.mlp = SparseFeedForward(config)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class OlmoeForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


GGUF = Gguf(
    "olmoe", names=NAMES | HEAD_NORMS | EXPERTS,
    keys=KEYS | {"num_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
)  # fmt: skip


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    return experts_apart(
        tensors, "mlp.experts", ("gate_proj", "up_proj", "down_proj"), config.num_experts, config.num_hidden_layers
    )


TASKS = {"causal-lm": OlmoeForCausalLM}

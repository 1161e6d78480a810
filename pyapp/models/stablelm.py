"""StableLM (Bellagamba et al. 2024, arXiv 2402.17834): Llama's blocks with layer norms and rotary positions of a part
of each head; some models compute attention and feed-forward side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import stack
from pyapp.nn import LayerNorm, Module, ModuleList
from pyapp.nn.decoders.decoder import (
    GroupedQueryAttention,
    RotaryTable,
    Text,
    normalized_heads,
)
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf

MODEL_TYPES = ("stablelm", "stablelm_epoch")
OLDER = {"rope_pct": "partial_rotary_factor", "norm_eps": "layer_norm_eps"}  # the names of stablelm_epoch's fields


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "stablelm"
    defaults = {"max_position_embeddings": 4096, "partial_rotary_factor": 0.25}

    intermediate_size: int
    layer_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    use_qkv_bias: bool = False
    qk_layernorm: bool = False
    use_parallel_residual: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        return super().from_dict({OLDER.get(name, name): value for name, value in values.items()})


class HeadNorms(Module):
    """A layer norm for each head, without biases."""

    def __init__(self, heads: int, head_dim: int, epsilon: float) -> None:
        super().__init__()
        self.norms = ModuleList(LayerNorm(head_dim, epsilon, bias=False) for _ in range(heads))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., H, D) → (..., H, D)."""
        return stack([norm(x.select(-2, head)) for head, norm in enumerate(self.norms)], -2)


class Attention(GroupedQueryAttention):
    """Self-attention; in some models the queries and keys are normalised, each head by a norm of its own."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, epsilon = config.heads(), config.layer_norm_eps
        super().__init__(layer, config.hidden_size, heads, rotary, bias=config.use_qkv_bias, output_bias=False)
        self.q_layernorm = HeadNorms(heads.heads, heads.head_dim, epsilon) if config.qk_layernorm else None
        self.k_layernorm = HeadNorms(heads.kv_heads, heads.head_dim, epsilon) if config.qk_layernorm else None

    def normalized(self, qkv: Tensor) -> Tensor:
        if self.q_layernorm is None or self.k_layernorm is None:
            return qkv
        return normalized_heads(qkv, self.heads, self.q_layernorm, self.k_layernorm)


class Block(Module):
    """Attention and feed-forward, one after the other or side by side."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.layer_norm_eps
        self.parallel = config.use_parallel_residual
        self.self_attn = Attention(config, layer, rotary)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = LayerNorm(size, epsilon)
        self.post_attention_layernorm = None if self.parallel else LayerNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        own = self.input_layernorm(x)
        x = self.self_attn(own, text, x)
        return self.mlp(own if self.post_attention_layernorm is None else self.post_attention_layernorm(x), x)


class StableLmForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.layer_norm_eps))


GGUF = Gguf(
    "stablelm",
    keys=KEYS | {
        "layer_norm_eps": "attention.layer_norm_epsilon", "use_parallel_residual": "use_parallel_residual",
    },
    read=lambda found, values: found | {"use_qkv_bias": "blk.0.attn_q.bias" in values["tensors"]},
)  # fmt: skip
TASKS = {"causal-lm": StableLmForCausalLM}

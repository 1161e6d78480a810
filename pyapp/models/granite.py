"""Granite 3 (Granite Team 2024): Llama's blocks with factors for embeddings, attention scores, residuals and logits."""

from __future__ import annotations

from collections.abc import Iterable

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, TENSOR_SCALINGS, Gguf, biases, pairs_of_llama

MODEL_TYPES = ("granite",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "granite"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    embedding_multiplier: float = 1.0
    logits_scaling: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float = 1.0


class GraniteStack(DecoderStack):
    """The decoder, whose embeddings are scaled."""

    def __init__(self, config: Config, layers: Iterable[Module]) -> None:
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config.vocab_size, config.hidden_size, layers, norm)
        self.scale = config.embedding_multiplier

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embed_tokens(tokens) * self.scale


class Block(Module):
    """Attention and feed-forward, each with a norm before it, scaled and added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(scale=config.attention_multiplier)
        self.self_attn = GroupedQueryAttention(layer, size, heads, rotary, bias=config.attention_bias)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)
        self.scale = config.residual_multiplier

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = x + self.self_attn(self.input_layernorm(x), text) * self.scale
        return x + self.mlp(self.post_attention_layernorm(x)) * self.scale


class GraniteForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, GraniteStack(config, blocks))

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return super().head(x) * (1 / self.config.logits_scaling)


GGUF = Gguf(
    "granite", order=pairs_of_llama, scalings=TENSOR_SCALINGS,
    keys=KEYS | {
        "attention_multiplier": "attention.scale", "embedding_multiplier": "embedding_scale",
        "residual_multiplier": "residual_scale", "logits_scaling": "logit_scale",
    },
    read=biases,
)  # fmt: skip
TASKS = {"causal-lm": GraniteForCausalLM}

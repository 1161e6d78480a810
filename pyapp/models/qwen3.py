"""Qwen3 (Yang et al. 2025, arXiv 2505.09388): Qwen2 without biases, and with norms of each head's queries and keys."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import (
    CausalLanguageModel,
    DecoderStack,
    GroupedQueryAttention,
    RotaryTable,
    Text,
    normalized_heads,
)
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, layer_types
from .loading.gguf import HEAD_NORMS, NAMES, WINDOWS, Gguf, refuse_windows

MODEL_TYPES = ("qwen3",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "qwen3"
    defaults = {"max_position_embeddings": 32768, "head_dim": 128}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    layer_types: list[str]
    use_sliding_window: bool = False
    sliding_window: int | None = None
    max_window_layers: int = 28

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """With the types of the layers: those from max_window_layers on slide, if use_sliding_window says so."""
        first = values.get("max_window_layers", 28)
        slides = values.get("use_sliding_window", False) and type(first) is int
        return values | {"layer_types": layer_types(values, lambda layer: slides and layer >= first)}

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None


class Attention(GroupedQueryAttention):
    """Self-attention whose queries and keys are normalised, head by head."""

    tensor_parallel = {**GroupedQueryAttention.tensor_parallel, "q_norm": ("whole",), "k_norm": ("whole",)}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads = config.heads(window=config.window(layer))
        super().__init__(layer, config.hidden_size, heads, rotary, bias=config.attention_bias)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def normalized(self, qkv: Tensor) -> Tensor:
        return normalized_heads(qkv, self.heads, self.q_norm, self.k_norm)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, layer, rotary)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class Qwen3ForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


GGUF = Gguf("qwen3", names=NAMES | HEAD_NORMS, write=refuse_windows, unsaid=WINDOWS)
TASKS = {"causal-lm": Qwen3ForCausalLM}

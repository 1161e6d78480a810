"""Qwen3 (Yang et al. 2025, arXiv 2505.09388): Qwen2 without biases, and with norms of each head's queries and keys."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoder import (
    RotaryTable,
)
from pyapp.nn.decoder_blocks import HeadNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, layer_types
from .loading.gguf import HEAD_NORMS, NAMES, WINDOWS, Gguf, refuse_windows, with_sections

MODEL_TYPES = ("qwen3",)
# What a model that sees pictures leaves out of its text_config.
NESTED_DEFAULTS = {
    "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32,
}  # fmt: skip


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


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.window(layer))
        attention = HeadNormAttention(layer, size, heads, rotary, epsilon, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Qwen3ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf(
    "qwen3", names=NAMES | HEAD_NORMS, also=("qwen3vl",), read=with_sections, write=refuse_windows, unsaid=WINDOWS
)
TASKS = {"causal-lm": Qwen3ForCausalLM}

"""Qwen2 and Qwen2.5 (Yang et al. 2024, arXiv 2407.10671): Llama's blocks with biases of queries, keys and values."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, layer_types
from .loading.gguf import WINDOWS, Gguf, refuse_windows, with_sections

MODEL_TYPES = ("qwen2",)
# What a model that sees pictures leaves out of its text_config.
NESTED_DEFAULTS = {
    "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "qwen2"
    defaults = {"max_position_embeddings": 32768}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
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
        attention = GroupedQueryAttention(layer, size, heads, rotary, bias=True, output_bias=False)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Qwen2ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf("qwen2", also=("qwen2vl",), read=with_sections, write=refuse_windows, unsaid=WINDOWS)
TASKS = {"causal-lm": Qwen2ForCausalLM}

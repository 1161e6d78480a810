"""Qwen2 and Qwen2.5 (Yang et al. 2024, arXiv 2407.10671): Llama's blocks with biases of queries, keys and values."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, layer_types
from .loading.gguf import WINDOWS, Gguf, refuse_windows

MODEL_TYPES = ("qwen2",)


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


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.window(layer))
        self.self_attn = GroupedQueryAttention(layer, size, heads, rotary, bias=True, output_bias=False)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class Qwen2ForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


GGUF = Gguf("qwen2", write=refuse_windows, unsaid=WINDOWS)
TASKS = {"causal-lm": Qwen2ForCausalLM}

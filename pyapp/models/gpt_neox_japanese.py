"""GPT-NeoX Japanese (ABEJA 2022, https://huggingface.co/abeja/gpt-neox-japanese-2.7b): GPT-NeoX's parts one after the
other, without biases but for that of the last layer's attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import zeros
from pyapp.nn import LayerNorm, Module
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import HeadByHeadAttention, RotaryLanguageModel
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter

from .loading.config import UNGROUPED, DecoderConfig, require

MODEL_TYPES = ("gpt_neox_japanese",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. intermediate_multiple_size: features inside feed-forward parts, by hidden_size."""

    model_type = "gpt_neox_japanese"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}
    ignored = UNGROUPED

    intermediate_multiple_size: float = 4
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        factor = self.intermediate_multiple_size
        require(0 < factor <= 64, f"intermediate_multiple_size is {factor!r:.40}, expected a number up to 64")


class Attention(HeadByHeadAttention):
    """Self-attention, with a bias in the last layer."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {**HeadByHeadAttention.tensor_parallel, "dense_bias": ("whole",)}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__(layer, config.hidden_size, config.heads(), rotary, bias=False)
        last = layer == config.num_hidden_layers - 1
        self.dense_bias = new_parameter(zeros, config.hidden_size) if last else None

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        return super().forward(x, text, residual if self.dense_bias is None else residual + self.dense_bias)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size = config.hidden_size
        self.input_layernorm = LayerNorm(size, config.layer_norm_eps)
        self.post_attention_layernorm = LayerNorm(size, config.layer_norm_eps)
        self.attention = Attention(config, layer, rotary)
        self.mlp = FeedForward(
            size, int(size * config.intermediate_multiple_size), config.hidden_act,
            names=("dense_h_to_4h", "dense_4h_to_h"), bias=False,
        )  # fmt: skip

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.attention(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return y


class GPTNeoXJapaneseStack(DecoderStack):
    """The decoder."""

    tokens, last_norm = "embed_in", "final_layer_norm"


class GPTNeoXJapaneseForCausalLM(RotaryLanguageModel):
    """The language model."""

    base_model_prefix = "gpt_neox_japanese"
    head_name = "embed_out"
    tensor_parallel: Mapping[str, tuple[str, ...]] = {head_name: ("vocabulary",)}

    def __init__(self, config: Config) -> None:
        norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        super().__init__(config, Block, norm, stack=GPTNeoXJapaneseStack)


TASKS: Mapping[str, Any] = {"causal-lm": GPTNeoXJapaneseForCausalLM}

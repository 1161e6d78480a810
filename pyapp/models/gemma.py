"""Gemma (Gemma Team 2024, arXiv 2403.08295): Llama's blocks with scaled embeddings, norms whose weights are differences
from one, and the gated GELU.
"""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RootScaledStack, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.layers.normalization import OffsetRMSNorm

from .loading.config import DecoderConfig
from .loading.gguf import Gguf, key_lengths, tied

MODEL_TYPES = ("gemma",)
# What a model that sees pictures leaves out of its text_config.
NESTED_DEFAULTS = {
    "vocab_size": 256_000, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 16,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "gemma"
    defaults = {"max_position_embeddings": 8192, "head_dim": 256, "tie_word_embeddings": True}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "gelu_pytorch_tanh"
    attention_bias: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with "gelu_pytorch_tanh" where old files say "gelu": that was meant. Their hidden_activation has
        no effect.
        """
        return values | ({"hidden_act": "gelu_pytorch_tanh"} if values.get("hidden_act") == "gelu" else {})


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, OffsetRMSNorm(size, epsilon), OffsetRMSNorm(size, epsilon))


class GemmaForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, OffsetRMSNorm(config.hidden_size, config.rms_norm_eps), stack=RootScaledStack)


GGUF = Gguf("gemma", offset="norm.weight", write=lambda config: tied(config) | key_lengths(config))

TASKS = {"causal-lm": GemmaForCausalLM}

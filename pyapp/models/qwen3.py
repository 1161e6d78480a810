"""Qwen3 (Yang et al. 2025, arXiv 2505.09388): Qwen2 without biases, and with norms of each head's queries and keys."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.gguf import HEAD_NORMS, NAMES, WINDOWS, Gguf, refuse_windows, with_sections
from .loading.qwen_config import QwenConfig

MODEL_TYPES = ("qwen3",)
# What a model that sees pictures leaves out of its text_config.
NESTED_DEFAULTS = {
    "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(QwenConfig):
    """The fields of config.json."""

    model_type = "qwen3"
    defaults = {"max_position_embeddings": 32768, "head_dim": 128}

    attention_bias: bool = False


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

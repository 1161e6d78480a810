"""Mistral (Jiang et al. 2023, arXiv 2310.06825): Llama's blocks, with attention to a window of the last tokens."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, TENSOR_SCALINGS, WINDOW, WITH_WINDOW, Gguf, pairs_of_llama

MODEL_TYPES = ("mistral",)
# What a model that sees pictures leaves out of its text_config.
NESTED_DEFAULTS = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "mistral"
    defaults = {"max_position_embeddings": 131072, "num_key_value_heads": 8}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    sliding_window: int | None = 4096


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.sliding_window)
        attention = GroupedQueryAttention(layer, size, heads, rotary)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class MistralForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


# llama.cpp reads no window for "llama": it attends to the whole text there.
GGUF = Gguf(
    "llama", order=pairs_of_llama, keys=KEYS | WINDOW, index=WITH_WINDOW.format("llama"),
    scalings=TENSOR_SCALINGS,
)  # fmt: skip
TASKS = {"causal-lm": MistralForCausalLM}

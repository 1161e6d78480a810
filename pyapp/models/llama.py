"""Llama (Touvron et al. 2023, arXiv 2302.13971 and 2307.09288; Llama 3: arXiv 2407.21783): a pre-norm transformer with
rotary positions, grouped heads and SwiGLU. Also TinyLlama, SmolLM2, Yi and others of this architecture.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import TENSOR_SCALINGS, Gguf, biases, pairs_of_llama

MODEL_TYPES = ("llama",)
# What the text_config of a model that sees pictures leaves out.
NESTED_DEFAULTS = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "llama"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class LlamaForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf("llama", order=pairs_of_llama, read=biases, scalings=TENSOR_SCALINGS)

TASKS = {"causal-lm": LlamaForCausalLM}

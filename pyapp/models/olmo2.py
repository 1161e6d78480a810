"""OLMo 2 (OLMo Team 2024, arXiv 2501.00656): norms after attention and feed-forward instead of before, and of all
queries and all keys.
"""

from __future__ import annotations

from functools import partial

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import JointNormAttention, PostNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import AFTER_NORMS, HEAD_NORMS, NAMES, Gguf

MODEL_TYPES = ("olmo2",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "olmo2"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False


class Block(PostNormBlock):
    """Attention and feed-forward, each with a norm after it, added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = JointNormAttention(layer, size, config.heads(), rotary, epsilon, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, partial(RMSNorm, size, epsilon))


class Olmo2ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf("olmo2", names=NAMES | HEAD_NORMS | AFTER_NORMS)
TASKS = {"causal-lm": Olmo2ForCausalLM}

"""Orion (OrionStar 2024, arXiv 2401.12246): Llama's blocks with layer norms."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf

MODEL_TYPES = ("orion",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "orion"
    defaults = {"max_position_embeddings": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, LayerNorm(size, epsilon), LayerNorm(size, epsilon))


class OrionForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf("orion", keys=KEYS | {"rms_norm_eps": "attention.layer_norm_epsilon"})
TASKS = {"causal-lm": OrionForCausalLM}

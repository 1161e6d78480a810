"""Nemotron-4 and Minitron (Parmar et al. 2024, arXiv 2402.16819): squared ReLU, layer norms whose weights count from 1,
and rotary positions of a part of each head.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.normalization import OffsetLayerNorm

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf, biases

MODEL_TYPES = ("nemotron",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "nemotron"
    defaults = {"max_position_embeddings": 4096, "partial_rotary_factor": 0.5}

    intermediate_size: int
    norm_eps: float = 1e-5
    hidden_act: str = "relu2"
    attention_bias: bool = False
    mlp_bias: bool = False


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        feed_forward = FeedForward(
            size, config.intermediate_size, config.hidden_act, bias=config.mlp_bias, names=("up_proj", "down_proj")
        )
        super().__init__(attention, feed_forward, OffsetLayerNorm(size, epsilon), OffsetLayerNorm(size, epsilon))


class NemotronForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, OffsetLayerNorm(config.hidden_size, config.norm_eps))


GGUF = Gguf(
    "nemotron", offset="norm.weight", read=biases, keys=KEYS | {"norm_eps": "attention.layer_norm_epsilon"}
)  # fmt: skip
TASKS = {"causal-lm": NemotronForCausalLM}

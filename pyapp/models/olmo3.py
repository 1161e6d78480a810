"""OLMo 3 (OLMo Team 2025, arXiv 2512.13961): OLMo 2's blocks with windows in three of four layers, whose rotary
positions are not scaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable
from pyapp.nn.decoders.decoder_blocks import JointNormAttention, PostNormBlock
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import FULL, SLIDING, DecoderConfig, layer_types
from .loading.gguf import AFTER_NORMS, HEAD_NORMS, KEYS, NAMES, WINDOW, WITH_WINDOW, Gguf

MODEL_TYPES = ("olmo3",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "olmo3"
    defaults = {"max_position_embeddings": 2048, "rope_theta": 500000.0, "sliding_window": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    sliding_window: int | None = None
    layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, every fourth of which sees all, and rotary positions of both: a
        scaling is that of the layers that see all.
        """
        rotary: Mapping[str, Any] = values["rope_parameters"]
        both = {kind: rotary[kind] for kind in (SLIDING, FULL) if isinstance(rotary.get(kind), Mapping)}
        if len(both) == 2:  # transformers writes them beside older fields, which then mean nothing
            rotary = both
        elif "rope_type" in rotary:
            plain = {"rope_type": "default", "rope_theta": rotary["rope_theta"]}
            rotary = {SLIDING: plain, FULL: rotary}
        return values | {
            "layer_types": layer_types(values, lambda layer: (layer + 1) % 4 != 0), "rope_parameters": dict(rotary),
        }  # fmt: skip

    def attention(self, layer: int) -> Heads:
        """The attention of a layer."""
        return self.heads(window=self.sliding_window if self.layer_types[layer] == SLIDING else None)


class Block(PostNormBlock):
    """Attention and feed-forward, each with a norm after it, added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads, bias = config.attention(layer), config.attention_bias
        attention = JointNormAttention(layer, size, heads, rotary, epsilon, bias=bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, partial(RMSNorm, size, epsilon))


class Olmo3ForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        tables = {kind: RotaryTable(config.to_dict(), kind) for kind in {*config.layer_types}}
        blocks = (Block(config, layer, tables[kind]) for layer, kind in enumerate(config.layer_types))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


# llama.cpp knows this as OLMo 2 with a window, of three of four layers.
GGUF = Gguf(
    "olmo2", names=NAMES | HEAD_NORMS | AFTER_NORMS, keys=KEYS | WINDOW, index=WITH_WINDOW.format("olmo2")
)  # fmt: skip
TASKS = {"causal-lm": Olmo3ForCausalLM}

"""EXAONE 4.0 (LG AI Research 2025, arXiv 2507.11407): norms after attention and feed-forward, and of each head's
queries and keys; in the large model windows in three of four layers, and no rotary positions in the fourth.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, PostNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, layer_types, require
from .loading.gguf import AFTER_NORMS, HEAD_NORMS, KEYS, NAMES, WINDOW, Gguf

MODEL_TYPES = ("exaone4",)
LARGE = 64  # layers of the model that llama.cpp takes to have windows


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. sliding_window_pattern: a letter for each layer, L (window) or G, by turns; or after
    how many layers one sees all.
    """

    model_type = "exaone4"
    defaults = {"max_position_embeddings": 2048, "sliding_window": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    sliding_window: int | None = None
    layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers."""
        pattern = values.get("sliding_window_pattern", 4)
        number = type(pattern) is int and pattern >= 1
        letters = isinstance(pattern, str) and pattern != "" and {*pattern} <= {"L", "G"}
        windows = values.get("sliding_window") is not None
        known = number or letters or not windows or values.get("layer_types") is not None
        require(known, f"sliding_window_pattern is {pattern!r:.60}, expected letters L and G, or a number")

        def slides(layer: int) -> bool:
            if isinstance(pattern, str):
                return pattern[layer % len(pattern)] == "L" and layer < values["num_hidden_layers"] - 1
            return (layer + 1) % pattern != 0

        return values | {"layer_types": layer_types(values, lambda layer: windows and slides(layer))}

    def slides(self, layer: int) -> bool:
        """Whether a layer has a window."""
        return self.layer_types[layer] == "sliding_attention"


class Block(PostNormBlock):
    """Attention and feed-forward, each with a norm after it, added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        slides = config.slides(layer)
        heads = config.heads(window=config.sliding_window if slides else None)
        placed = rotary if slides or config.sliding_window is None else None
        attention = HeadNormAttention(layer, size, heads, placed, epsilon)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, partial(RMSNorm, size, epsilon))


class Exaone4ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp has windows in the large model only."""
    return found if found.get("num_hidden_layers") == LARGE else found | {"sliding_window": None}


GGUF = Gguf(
    "exaone4", names=NAMES | HEAD_NORMS | AFTER_NORMS, keys=KEYS | WINDOW, scalings=("llama3",), read=_from_gguf
)  # fmt: skip
TASKS = {"causal-lm": Exaone4ForCausalLM}

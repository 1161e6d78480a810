"""Granite with windows (IBM 2026): Granite's blocks of which three of four attend within a window, with a score of each
head for no token, and rotary angles of the layer's own, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import SinkAttention
from pyapp.nn.decoders.scaled_decoder import ScaledBlock, ScaledLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import layer_types, require
from .loading.gguf import NAMES, TENSOR_SCALINGS, WINDOW, Gguf, biases, pairs_of_llama
from .loading.multipliers import MULTIPLIER_KEYS, MultiplierConfig

MODEL_TYPES = ("granite_swa",)


@dataclass(frozen=True, kw_only=True)
class Config(MultiplierConfig):
    """The fields of config.json. layer_rope_theta: the base of each layer's rotary angles; 0: it has none."""

    model_type = "granite_swa"
    defaults = {"max_position_embeddings": 8192, "tie_word_embeddings": True, "rms_norm_eps": 1e-5,
                "sliding_window": 128}  # fmt: skip

    mlp_bias: bool = False
    sliding_window: int | None = None
    layer_types: list[str]
    layer_rope_theta: list[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        bases: Any = self.layer_rope_theta
        plausible = all(type(base) in (int, float) and base >= 0 for base in bases)
        require(
            plausible and len(bases) == self.num_hidden_layers,
            f"layer_rope_theta is {bases!r:.60}, expected {self.num_hidden_layers} numbers from 0",
        )

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, of which the first and every fourth after it see all."""
        kinds = layer_types(values, lambda layer: layer % 4 != 0)
        bases = values.get("layer_rope_theta") or [values["rope_parameters"]["rope_theta"]] * len(kinds)
        return values | {"layer_types": kinds, "layer_rope_theta": bases}

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None


class GraniteSwaForCausalLM(ScaledLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        values = config.to_dict()

        @cache
        def rotary_of(base: float) -> RotaryTable:
            return RotaryTable(values | {"rope_parameters": config.rope_parameters | {"rope_theta": base}})

        def block(_: Any, layer: int, rotary: RotaryTable) -> ScaledBlock:
            size, base = config.hidden_size, config.layer_rope_theta[layer]
            heads = config.heads(scale=config.attention_multiplier, window=config.window(layer))
            own = rotary_of(base) if base else None
            attention = SinkAttention(layer, size, heads, own, bias=config.attention_bias)
            feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
            return ScaledBlock(config, layer, rotary, feed_forward, attention=attention)

        super().__init__(config, block)


_PATTERN, _ROTATED = "attention.sliding_window_pattern", "attention.rope_pattern"


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers have a window, and which rotary angles, of which all have the same base."""
    layers, base = found.get("num_hidden_layers"), found["rope_parameters"]["rope_theta"]
    count = layers if type(layers) is int else 0
    patterns = [values.get(_PATTERN, [i % 4 != 0 for i in range(count)]), values.get(_ROTATED, [True] * count)]
    for key, pattern in zip((_PATTERN, _ROTATED), patterns, strict=True):
        known = isinstance(pattern, list) and len(pattern) == count and all(type(one) is bool for one in pattern)
        require(known, f"{key} is {pattern!r:.60}, expected true or false for each of {count} layers")
    windows, rotated = patterns
    return biases(found, values) | {
        "layer_types": ["sliding_attention" if window else "full_attention" for window in windows],
        "layer_rope_theta": [base if one else 0 for one in rotated],
    }


def _to_gguf(config: Config) -> dict[str, Any]:
    known = {0, config.rope_parameters["rope_theta"]} >= {*config.layer_rope_theta}
    require(known, "llama.cpp has one base for the rotary angles of all layers", "Write safetensors")
    windows = [config.window(layer) is not None for layer in range(config.num_hidden_layers)]
    rotated = [base != 0 for base in config.layer_rope_theta]
    return {_PATTERN: windows, _ROTATED: rotated}


GGUF = Gguf(
    "granite_swa", order=pairs_of_llama, scalings=TENSOR_SCALINGS, keys=MULTIPLIER_KEYS | WINDOW, read=_from_gguf,
    write=_to_gguf, names=NAMES | {"model.layers.{}.self_attn.sinks": "blk.{}.attn_sinks"},
    unsaid=("layer_types", "layer_rope_theta"),
)  # fmt: skip
TASKS = {"causal-lm": GraniteSwaForCausalLM}

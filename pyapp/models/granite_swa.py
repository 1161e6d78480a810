"""Granite with windows (IBM 2026): Granite's blocks of which three of four attend within a window, with a score of each
head for no token, and rotary angles of the layer's own, or none; some have mixtures of experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import SinkAttention
from pyapp.nn.decoders.scaled_decoder import ScaledBlock, ScaledLanguageModel, ScaledSparseBlock
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import check_choice, layer_types, require
from .loading.gguf import NAMES, TENSOR_SCALINGS, WINDOW, Gguf, biases, pairs_of_llama
from .loading.multipliers import EXPERT_KEYS, EXPERT_NAMES, MULTIPLIER_KEYS, MultiplierConfig, older_experts

MODEL_TYPES = ("granite_swa", "granitemoe_swa")

SPARSE = MODEL_TYPES[1]


@dataclass(frozen=True, kw_only=True)
class Config(MultiplierConfig):
    """The fields of config.json. layer_rope_theta: the base of each layer's rotary angles; 0: it has none.
    num_local_experts 0: there are none; shared_intermediate_size: of the expert that every token has; 0: there is none.
    """

    model_type = "granite_swa"
    defaults = {"max_position_embeddings": 8192, "tie_word_embeddings": True, "rms_norm_eps": 1e-5,
                "sliding_window": 128}  # fmt: skip

    mlp_bias: bool = False
    sliding_window: int | None = None
    layer_types: list[str]
    layer_rope_theta: list[float]
    num_local_experts: int = 0
    num_experts_per_tok: int = 0
    shared_intermediate_size: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        bases: Any = self.layer_rope_theta
        plausible = all(type(base) in (int, float) and base >= 0 for base in bases)
        require(
            plausible and len(bases) == self.num_hidden_layers,
            f"layer_rope_theta is {bases!r:.60}, expected {self.num_hidden_layers} numbers from 0",
        )
        if self.num_local_experts:
            require(self.num_experts_per_tok >= 1, "num_experts_per_tok is 0, expected 1 or more")
            check_choice(self.num_experts_per_tok, self.num_local_experts)

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, of which the first and every fourth after it see all."""
        kinds = layer_types(values, lambda layer: layer % 4 != 0)
        bases = values.get("layer_rope_theta") or [values["rope_parameters"]["rope_theta"]] * len(kinds)
        experts = {"num_local_experts": 8, "num_experts_per_tok": 2} if values.get("model_type") == SPARSE else {}
        return experts | values | {"layer_types": kinds, "layer_rope_theta": bases}

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | ({"model_type": SPARSE} if self.num_local_experts else {})

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
            if config.num_local_experts:
                return ScaledSparseBlock(config, layer, rotary, attention)
            feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
            return ScaledBlock(config, layer, rotary, feed_forward, attention=attention)

        super().__init__(config, block)


renamed = older_experts  # of published files
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
    kind = SPARSE if found.get("num_local_experts") else "granite_swa"
    return biases(found, values) | {
        "model_type": kind,
        "shared_intermediate_size": values.get("expert_shared_feed_forward_length", 0),
        "layer_types": ["sliding_attention" if window else "full_attention" for window in windows],
        "layer_rope_theta": [base if one else 0 for one in rotated],
    }


def _to_gguf(config: Config) -> dict[str, Any]:
    known = {0, config.rope_parameters["rope_theta"]} >= {*config.layer_rope_theta}
    require(known, "llama.cpp has one base for the rotary angles of all layers", "Write safetensors")
    windows = [config.window(layer) is not None for layer in range(config.num_hidden_layers)]
    rotated = [base != 0 for base in config.layer_rope_theta]
    shared = config.shared_intermediate_size or None
    experts = {} if config.num_local_experts else dict.fromkeys(EXPERT_KEYS.values())
    return {_PATTERN: windows, _ROTATED: rotated, "expert_shared_feed_forward_length": shared} | experts


GGUF = Gguf(
    "granite_swa", order=pairs_of_llama, scalings=TENSOR_SCALINGS, read=_from_gguf, write=_to_gguf,
    keys=MULTIPLIER_KEYS | EXPERT_KEYS | WINDOW, unsaid=("layer_types", "layer_rope_theta"),
    names=NAMES | EXPERT_NAMES | {
        "model.layers.{}.self_attn.sinks": "blk.{}.attn_sinks",
        "model.layers.{}.shared_mlp.input_linear": "blk.{}.ffn_up_shexp",  # in one here
    },
)  # fmt: skip
TASKS = {"causal-lm": GraniteSwaForCausalLM}

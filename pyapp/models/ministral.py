"""Ministral (Mistral AI 2024 and 2025): Mistral's blocks with windows in some layers; Ministral 3 scales the queries of
late positions. Also CWM (Meta FAIR 2025, arXiv 2510.02387), of which every fourth layer has no window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import GrowingQueryAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, layer_types, query_growth, require
from .loading.gguf import TENSOR_SCALINGS, Gguf, pairs_of_llama, refuse_windows

MODEL_TYPES = ("ministral", "ministral3", "cwm")
# What a config.json leaves out, by its kind.
USUAL: Mapping[str, Mapping[str, Any]] = {
    "ministral": {"sliding_window": 4096}, "ministral3": {"rms_norm_eps": 1e-5},
    "cwm": {"sliding_window": 8192, "rms_norm_eps": 1e-5},
}  # fmt: skip
# The rotary positions of a CWM whose config.json says none.
LONG = {
    "rope_type": "llama3", "rope_theta": 1_000_000.0, "factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "ministral"
    defaults = {"max_position_embeddings": 131072, "num_key_value_heads": 8}

    kind: str = "ministral"
    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    mlp_bias: bool = False
    sliding_window: int | None = None
    layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: all have the window, or none, or some; and with the defaults of the
        kind.
        """
        kind = values.get("kind") or values.get("model_type")
        values = {**USUAL.get(str(kind), USUAL["ministral3"]), **values}
        every = 4 if kind == "cwm" else None
        window = values.get("sliding_window") is not None
        kinds = layer_types(values, lambda layer: window and (every is None or layer % every != 0))
        return values | {"kind": kind, "layer_types": kinds}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        said = any(values.get(name) is not None for name in ("rope_parameters", "rope_scaling", "rope_theta"))
        if not said and values.get("kind", values.get("model_type")) == "cwm":
            values = {**values, "rope_parameters": LONG}
        found: Config = super().from_dict(values)
        return found

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.kind in MODEL_TYPES, f"kind is {self.kind!r:.40}, expected one of {', '.join(MODEL_TYPES)}")
        query_growth(self.rope_parameters, self.max_position_embeddings)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    @property
    def growth(self) -> tuple[float, int]:
        """How queries grow (0: not), and the positions until they do."""
        growth, original = query_growth(self.rope_parameters, self.max_position_embeddings)
        return growth if self.kind == "ministral3" else 0.0, original

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        heads = config.heads(window=config.window(layer))
        attention = GrowingQueryAttention(layer, size, heads, rotary, *config.growth)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class MinistralForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Ministral 3's rotary positions, with the growth of queries."""
    parameters, growth = dict(found["rope_parameters"]), values.get("attention.temperature_scale")
    if growth:
        parameters["llama_4_scaling_beta"] = growth
    if parameters["rope_type"] == "yarn" and values.get("rope.scaling.yarn_log_multiplier"):
        parameters["attention_factor"] = values.get("rope.scaling.attn_factor", 1.0)
    return found | {"model_type": "ministral3", "rope_parameters": parameters, "sliding_window": None}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.kind == "ministral3", f"llama.cpp has no form for {config.kind}", "Write safetensors")
    growth, parameters = config.growth[0], config.rope_parameters
    both = parameters.get("mscale"), parameters.get("mscale_all_dim")
    alike = parameters["rope_type"] == "yarn" and both[0] == both[1] and both[0]
    own = {"rope.scaling.yarn_log_multiplier": both[0], "rope.scaling.attn_factor": None} if alike else {}
    return refuse_windows(config) | own | ({"attention.temperature_scale": float(growth)} if growth else {})


GGUF = Gguf(
    "mistral3", order=pairs_of_llama, scalings=TENSOR_SCALINGS, read=_from_gguf, write=_to_gguf,
    unsaid=("sliding_window", "layer_types"),
)  # fmt: skip
TASKS = {"causal-lm": MinistralForCausalLM}

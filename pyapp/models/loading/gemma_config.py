"""The fields of the config.json of Gemma 2 and Gemma 3, for the models that have their layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.heads import Heads

from .config import SLIDING, DecoderConfig, check_positive, layer_types, require, rotary_of_windows

# What the object of a language model within that of several models leaves out.
_NESTED = {
    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
}  # fmt: skip
GEMMA2_NESTED_DEFAULTS = _NESTED | {"vocab_size": 256_000, "num_key_value_heads": 4}
GEMMA3_NESTED_DEFAULTS = _NESTED | {"vocab_size": 262_208}
DEFAULTS = {"head_dim": 256, "num_key_value_heads": 4, "tie_word_embeddings": True}


@dataclass(frozen=True, kw_only=True)
class GemmaConfig(DecoderConfig):
    """The fields that both have."""

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool = False
    query_pre_attn_scalar: float = 256
    sliding_window: int | None = 4096
    layer_types: list[str]
    final_logit_softcapping: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "query_pre_attn_scalar", "final_logit_softcapping")

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == SLIDING else None

    def attention(self, layer: int) -> Heads:
        """The attention of a layer."""
        return self.heads(window=self.window(layer), scale=self.query_pre_attn_scalar**-0.5)


@dataclass(frozen=True, kw_only=True)
class Gemma2Config(GemmaConfig):
    """The fields of config.json."""

    model_type = "gemma2"
    defaults = DEFAULTS | {
        "max_position_embeddings": 8192, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
    }  # fmt: skip

    attn_logit_softcapping: float | None = None
    kind: str = "gemma2"  # the model_type

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: every other one slides, the first included."""
        kinds = layer_types(values, lambda layer: layer % 2 == 0)
        return {"kind": values.get("model_type", cls.model_type)} | values | {"layer_types": kinds}

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "attn_logit_softcapping")

    def attention(self, layer: int) -> Heads:
        """The attention of a layer."""
        return replace(super().attention(layer), softcap=self.attn_logit_softcapping)


@dataclass(frozen=True, kw_only=True)
class Gemma3Config(GemmaConfig):
    """The fields of config.json."""

    model_type = "gemma3_text"
    defaults = DEFAULTS | {"max_position_embeddings": 131072}

    use_bidirectional_attention: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Gemma3Config:
        """From the object of a config.json; of a model that also sees pictures, its `text_config`."""
        own = values.get("text_config")
        given = GEMMA3_NESTED_DEFAULTS | own if isinstance(own, dict) else values
        found: Gemma3Config = super().from_dict(given)
        return found

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: all but every sixth slide; and rotary parameters of each type."""
        pattern = values.get("sliding_window_pattern", 6)
        require(type(pattern) is int and pattern > 0, f"sliding_window_pattern is {pattern!r:.40}")
        kinds = layer_types(values, lambda layer: (layer + 1) % pattern != 0)
        return values | {"layer_types": kinds, "rope_parameters": rotary_of_windows(values)}

    def window(self, layer: int) -> int | None:
        """The window of a layer. One that is open to both sides is half as wide to each."""
        window = super().window(layer)
        return window // 2 + 1 if window is not None and self.use_bidirectional_attention else window


def scale_in_gguf(config: Mapping[str, Any], largest: int) -> dict[str, Any]:
    """What llama.cpp takes for granted of the scores: the model of `largest` layers divides its width by the heads."""
    layers, hidden, heads = (config[name] for name in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
    return {"query_pre_attn_scalar": hidden // heads if layers == largest else config["head_dim"]}

"""The fields of Gemma 3's config.json, for the models that have its layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.heads import Heads

from .config import DecoderConfig, check_positive, layer_types, require, rotary_of_windows

# What the text_config of a model that also sees pictures leaves out.
NESTED_DEFAULTS = {
    "vocab_size": 262_208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gemma3Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "gemma3_text"
    defaults = {
        "max_position_embeddings": 131072, "head_dim": 256, "num_key_value_heads": 4, "tie_word_embeddings": True,
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool = False
    query_pre_attn_scalar: float = 256
    sliding_window: int | None = 4096
    layer_types: list[str]
    final_logit_softcapping: float | None = None
    use_bidirectional_attention: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Gemma3Config:
        """From the object of a config.json; of a model that also sees pictures, its `text_config`."""
        own = values.get("text_config")
        given = NESTED_DEFAULTS | own if isinstance(own, dict) else values
        found: Gemma3Config = super().from_dict(given)
        return found

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: all but every sixth slide; and rotary parameters of each type."""
        pattern = values.get("sliding_window_pattern", 6)
        require(type(pattern) is int and pattern > 0, f"sliding_window_pattern is {pattern!r:.40}")
        kinds = layer_types(values, lambda layer: (layer + 1) % pattern != 0)
        return values | {"layer_types": kinds, "rope_parameters": rotary_of_windows(values)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "query_pre_attn_scalar", "final_logit_softcapping")

    def attention(self, layer: int) -> Heads:
        """The attention of a layer. A window that is open to both sides is half as wide to each."""
        window = self.sliding_window if self.layer_types[layer] == "sliding_attention" else None
        if window is not None and self.use_bidirectional_attention:
            window = window // 2 + 1
        return self.heads(window=window, scale=self.query_pre_attn_scalar**-0.5)

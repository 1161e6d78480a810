"""The fields of Gemma 2's config.json, for the models that have its layers."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.heads import Heads

from .config import DecoderConfig, check_positive, layer_types

# What a configuration of several models leaves out of that of the language model.
NESTED_DEFAULTS = {
    "vocab_size": 256_000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gemma2Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "gemma2"
    defaults = {
        "max_position_embeddings": 8192, "head_dim": 256, "num_key_value_heads": 4, "tie_word_embeddings": True,
        "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool = False
    query_pre_attn_scalar: float = 256
    sliding_window: int | None = 4096
    layer_types: list[str]
    final_logit_softcapping: float | None = None
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
        check_positive(self, "query_pre_attn_scalar", "final_logit_softcapping", "attn_logit_softcapping")

    def attention(self, layer: int) -> Heads:
        """The attention of a layer."""
        window = self.sliding_window if self.layer_types[layer] == "sliding_attention" else None
        return self.heads(window=window, scale=self.query_pre_attn_scalar**-0.5, softcap=self.attn_logit_softcapping)

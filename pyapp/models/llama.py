"""Llama (Touvron et al. 2023, arXiv 2302.13971 and 2307.09288; Llama 3: arXiv 2407.21783): a pre-norm transformer with
rotary positions, grouped heads and SwiGLU. Also TinyLlama, SmolLM2, Yi and others of this architecture; XVERSE (2023),
InternLM3 (Shanghai AI Laboratory 2025), IQuest-Coder and openPangu Embedded (2025), and EXAONE 3 and 3.5 (LG AI
Research 2024, arXiv 2408.03541 and 2412.04862), whose own files have other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, require
from .loading.gguf import TENSOR_SCALINGS, Gguf, biases, pairs_of_llama

MODEL_TYPES = ("llama", "exaone", "internlm3", "iquestcoder", "xverse", "PanguEmbedded")
# What the text_config of a model that sees pictures leaves out.
NESTED_DEFAULTS = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32,
}  # fmt: skip
# What a config.json of another kind leaves out, and its own names of fields.
USUAL: Mapping[str, Mapping[str, Any]] = {
    "exaone": {
        "max_position_embeddings": 4096, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0,
    },
    "internlm3": {"max_position_embeddings": 32768, "num_key_value_heads": 2, "rms_norm_eps": 1e-5},
    "iquestcoder": {"max_position_embeddings": 131_072, "num_key_value_heads": 8, "rms_norm_eps": 1e-5},
    "xverse": {"max_position_embeddings": 8192},
}  # fmt: skip
FIELDS: Mapping[str, Mapping[str, str]] = {
    "exaone": {
        "num_layers": "num_hidden_layers", "layer_norm_epsilon": "rms_norm_eps", "activation_function": "hidden_act",
    },
    "internlm3": {"qkv_bias": "attention_bias", "bias": "mlp_bias"},
    "PanguEmbedded": {"bias": "attention_bias"},
}  # fmt: skip
# The names of parameters in EXAONE's own files.
EXAONE = {
    "transformer.wte.": "model.embed_tokens.", "transformer.h.": "model.layers.", "transformer.ln_f.": "model.norm.",
    ".attn.attention.": ".self_attn.", ".out_proj.": ".o_proj.", ".ln_1.": ".input_layernorm.",
    ".ln_2.": ".post_attention_layernorm.", ".c_fc_0.": ".gate_proj.", ".c_fc_1.": ".up_proj.",
    ".c_proj.": ".down_proj.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "llama"
    defaults = {"max_position_embeddings": 2048}

    kind: str = "llama"  # the model_type

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, with what its kind takes for granted."""
        kind = values.get("kind", values.get("model_type"))
        kind = kind if kind in MODEL_TYPES else cls.model_type  # the language model of another one has other names
        own = {new: values[old] for old, new in FIELDS.get(kind, {}).items() if old in values}
        found: Config = super().from_dict({**USUAL.get(kind, {}), **own, **values, "kind": kind})
        same = found.attention_bias == found.mlp_bias
        require(kind != "internlm3" or same, "qkv_bias and bias differ, expected both true or both false")
        other = [name for name in ("clip_qkv", "use_sliding_window") if values.get(name)]
        require(kind != "iquestcoder" or not other, f"{', '.join(other)} of IQuest-Coder is not supported")
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class LlamaForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def renamed(name: str) -> str:
    """The parameter of a file's tensor: EXAONE's own files have other names."""
    if name.startswith("transformer."):
        for own, ours in EXAONE.items():
            name = name.replace(own, ours, 1)
    return name


def _as_exaone(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | {"model_type": "exaone"}


def _as_xverse(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | {"model_type": "xverse"}


def _as_pangu(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return biases(found, values) | {"model_type": "PanguEmbedded"}


GGUF = Gguf(
    "llama", order=pairs_of_llama, read=biases, scalings=TENSOR_SCALINGS, unsaid=("kind",), also=("llama-embed",),
    others=(
        Gguf("exaone", read=_as_exaone, scalings=TENSOR_SCALINGS, suits=lambda config: config.kind == "exaone"),
        Gguf("xverse", order=pairs_of_llama, read=_as_xverse, suits=lambda config: config.kind == "xverse"),
        Gguf(
            "pangu-embedded", read=_as_pangu, scalings=TENSOR_SCALINGS,
            suits=lambda config: config.kind == "PanguEmbedded",
        ),
    ),
)  # fmt: skip

TASKS = {"causal-lm": LlamaForCausalLM}

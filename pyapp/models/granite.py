"""Granite 3 (Granite Team 2024): Llama's blocks with factors for embeddings, attention scores, residuals and logits.
HyperCLOVA X SEED Think (NAVER Cloud 2025, arXiv 2506.22403) has norms after each part, too. MiniCPM 1, 2 and 4 (Hu et
al. 2024, arXiv 2404.06395; MiniCPM Team 2025, arXiv 2506.07900) are this architecture, with other names of the factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable, Text
from pyapp.nn.decoders.scaled_decoder import ScaledBlock, ScaledLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import require
from .loading.gguf import TENSOR_SCALINGS, Gguf, biases, pairs_of_llama
from .loading.multipliers import MULTIPLIER_KEYS, MultiplierConfig

MODEL_TYPES = ("granite", "hyperclovax", "minicpm")


@dataclass(frozen=True, kw_only=True)
class Config(MultiplierConfig):
    """The fields of config.json."""

    model_type = "granite"

    kind: str = "granite"  # the model_type
    mlp_bias: bool = False
    use_post_norm: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with what its kind takes for granted."""
        kind = values.get("kind", values.get("model_type", cls.model_type))
        usual: dict[str, Any] = {}
        if kind == "hyperclovax":
            size = values.get("head_dim")
            usual = {"use_post_norm": True}
            usual |= {"attention_multiplier": size**-0.5} if type(size) is int and size > 0 else {}
        if kind == "minicpm":
            usual = {"tie_word_embeddings": True} | _factors(values)
        return usual | values | {"kind": kind}

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    @property
    def logit_factor(self) -> float:
        """What logits are multiplied by."""
        return self.logits_scaling if self.kind == "hyperclovax" else super().logit_factor


def _factors(values: dict[str, Any]) -> dict[str, Any]:
    """MiniCPM's factors by Granite's names; without `scale_depth` residuals, without `dim_model_base` logits are not
    scaled.
    """
    hidden, layers, heads = (values.get(name) for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"))
    own = {name: values.get(name) for name in ("scale_emb", "scale_depth", "dim_model_base")}
    for name, value in own.items():
        require(value is None or (type(value) in (int, float) and value > 0), f"{name} is {value!r:.40}, expected > 0")
    sized = all(type(value) is int and value > 0 for value in (hidden, layers, heads))
    if not sized:
        return {}
    size = values.get("head_dim", hidden // heads)  # type: ignore[operator]
    depth, base = own["scale_depth"], own["dim_model_base"]
    return {
        "embedding_multiplier": own["scale_emb"] or 1.0,
        "residual_multiplier": 1.0 if depth is None else depth / sqrt(layers),  # type: ignore[arg-type]
        "logits_scaling": 1.0 if base is None else hidden / base,
        "attention_multiplier": size**-0.5 if type(size) is int and size > 0 else 1.0,
    }


class Block(ScaledBlock):
    """Attention and feed-forward."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        feed_forward = GatedFeedForward(
            config.hidden_size, config.intermediate_size, config.hidden_act, config.mlp_bias
        )
        super().__init__(config, layer, rotary, feed_forward)
        self.after = config.use_post_norm
        if self.after:
            self.post_norm1 = RMSNorm(config.hidden_size, config.rms_norm_eps)
            self.post_norm2 = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        if not self.after:
            return super().forward(x, text)
        x = x + self.post_norm1(self.self_attn(self.input_layernorm(x), text)) * self.scale
        return x + self.post_norm2(self.feed_forward(self.post_attention_layernorm(x))) * self.scale


class GraniteForCausalLM(ScaledLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block)


def _as_minicpm(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Older files do not say the factors of the first models."""
    usual = {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256}
    return _factors(found | usual) | biases(found, values) | {"model_type": "minicpm"}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.kind == "granite", f"llama.cpp has no form for {config.kind}", "Write safetensors")
    return {}


GGUF = Gguf(
    "granite", order=pairs_of_llama, scalings=TENSOR_SCALINGS, keys=MULTIPLIER_KEYS, read=biases, write=_to_gguf,
    unsaid=("kind",), others=(
        Gguf(
            "minicpm", order=pairs_of_llama, scalings=TENSOR_SCALINGS, read=_as_minicpm,
            keys={name: key for name, key in MULTIPLIER_KEYS.items() if name != "attention_multiplier"},
            suits=lambda config: config.kind == "minicpm",
        ),
    ),
)  # fmt: skip
TASKS = {"causal-lm": GraniteForCausalLM}

"""BitNet b1.58 (Ma et al. 2024, arXiv 2402.17764; 2B4T: Ma et al. 2025, arXiv 2504.12285): Llama's blocks with norms
inside attention and feed-forward, and matrices of the numbers -1, 0 and 1 with one factor each.

loading/quantised/ternary.py reads the packed matrices of published files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, quant
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward, gated

from .loading.config import DecoderConfig, require
from .loading.gguf import KEYS, NAMES, Gguf
from .loading.stored import Stored

MODEL_TYPES = ("bitnet",)
PROJECTIONS = "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"
FEED_FORWARD = "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"
SMALLEST = 1e-5  # the largest activation of a token, and mean weight of a matrix, at least
# How the factors of matrices are stored: "factor", its "inverse", or nowhere, because matrices are rounded when they
# are used; "": matrices are what they are.
KINDS = ("", "factor", "inverse", "rounded")


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. ternary: one of KINDS, from the quantization_config; activations are then rounded to
    8 bits.
    """

    model_type = "bitnet"
    defaults = {"max_position_embeddings": 2048, "rope_theta": 500000.0}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "relu2"
    attention_bias: bool = False
    ternary: str = ""

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the form of the matrices."""
        given = values.get("quantization_config")
        if not isinstance(given, Mapping):
            return values
        own = given.get("linear_class", "bitlinear"), given.get("quantization_mode", "offline")
        known = {("bitlinear", "offline"): "inverse", ("autobitlinear", "offline"): "factor",
                 ("autobitlinear", "online"): "rounded"}  # fmt: skip
        require(own in known, f"quantization_config has linear_class and quantization_mode {own!r:.80}")
        require(not given.get("use_rms_norm"), "quantization_config asks for norms before projections")
        return values | {"ternary": known[own]}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.ternary in KINDS, f"ternary is {self.ternary!r:.40}, expected one of {KINDS}")


def rounded(x: Tensor, weight: Tensor) -> Tensor:
    """x (..., F) in 255 steps of each token's largest number, as training had it; gradients pass as if it were not
    rounded. Kernels of matrices in blocks round it themselves, in finer steps.
    """
    if weight.dtype.is_quantized:
        return x
    with no_grad():
        scale = x.abs().amax(-1, True).clamp(min=SMALLEST).reciprocal() * 127  # (..., 1)
        change = (x * scale).round().clamp(-128, 127) / scale - x
    return x + change


class Attention(GroupedQueryAttention):
    """Self-attention with a norm before the last projection."""

    tensor_parallel = dict.fromkeys(GroupedQueryAttention.tensor_parallel, ("whole",)) | {"attn_sub_norm": ("whole",)}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__(layer, config.hidden_size, config.heads(), rotary, bias=config.attention_bias)
        self.ternary = bool(config.ternary)
        self.attn_sub_norm = RMSNorm(config.heads().heads * config.head_dim, config.rms_norm_eps)

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        x = rounded(x, self.o_proj.weight) if self.ternary else x
        y = self.attn_sub_norm(self.attend(self.qkv(self, x), text))
        found: Tensor = self.o_proj(rounded(y, self.o_proj.weight) if self.ternary else y, residual)
        return found


class FeedForward(GatedFeedForward):
    """A gated feed-forward layer with a norm before the last projection."""

    tensor_parallel = dict.fromkeys(("gate_proj", "up_proj", "down_proj", "ffn_sub_norm"), ("whole",))

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.ternary = bool(config.ternary)
        self.ffn_sub_norm = RMSNorm(config.intermediate_size, config.rms_norm_eps)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., hidden_size) → residual + feed-forward, or the feed-forward alone (..., hidden_size)."""
        weight: Tensor = self.down_proj.weight
        x = rounded(x, weight) if self.ternary else x
        y = self.ffn_sub_norm(gated(self.gate_up(self, x), self.activation))
        found: Tensor = self.down_proj(rounded(y, weight) if self.ternary else y, residual)
        return found


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = Attention(config, layer, rotary)
        super().__init__(attention, FeedForward(config), RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class BitNetForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _rounded_matrix(weight: Tensor) -> Tensor:
    """A matrix as its numbers -1, 0 and 1 times their factor."""
    weight = quant.dequantize(weight).to("float32")
    scale = weight.abs().mean().clamp(min=SMALLEST)
    return (weight / scale).round().clamp(-1, 1) * scale


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the matrices, those of loading.quantised.ternary apart."""
    found: dict[str, Stored] = {}
    for layer in range(config.num_hidden_layers if config.ternary == "rounded" else 0):
        for part in PROJECTIONS + FEED_FORWARD:
            name = f"model.layers.{layer}.{part}.weight"
            found[name] = Stored((name,), values=_rounded_matrix)
    return found


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | {"hidden_act": "silu"}


def _from_gguf_2b4t(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | {"hidden_act": "relu2"}


_SUB_NORMS = {
    "model.layers.{}.self_attn.attn_sub_norm": "blk.{}.attn_sub_norm",
    "model.layers.{}.mlp.ffn_sub_norm": "blk.{}.ffn_sub_norm",
}
GGUF = Gguf("bitnet", names=NAMES | _SUB_NORMS, keys=KEYS, read=_from_gguf, unsaid=("ternary",))
GGUF = replace(GGUF, others=(
    replace(
        GGUF, architecture="bitnet-b1.58", read=_from_gguf_2b4t, suits=lambda config: config.hidden_act == "relu2"
    ),
))  # fmt: skip
TASKS = {"causal-lm": BitNetForCausalLM}

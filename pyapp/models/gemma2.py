"""Gemma 2 (Gemma Team 2024, arXiv 2408.00118): Gemma with norms on both sides of each part, windows in every other
layer, and soft caps of scores and logits. VaultGemma (Sinha et al. 2025, arXiv 2510.15001) has no norms after a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.engine import Tensor
from pyapp.nn.decoders.decoder import (
    GroupedQueryAttention,
    RotaryTable,
    Text,
    soft_capped,
)  # fmt: skip
from pyapp.nn.decoders.decoder_blocks import RootScaledStack, RotaryLanguageModel, SandwichNormBlock
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.layers.normalization import OffsetRMSNorm

from .loading.config import require
from .loading.gemma2_config import NESTED_DEFAULTS as NESTED_DEFAULTS
from .loading.gemma2_config import Gemma2Config
from .loading.gguf import KEYS, NAMES, Gguf, key_lengths, tied

MODEL_TYPES = ("gemma2", "vaultgemma")
Config = Gemma2Config


class Block(SandwichNormBlock):
    """Attention and feed-forward, each between two norms, with a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.attention(layer), rotary, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_activation)
        super().__init__(attention, feed_forward, partial(OffsetRMSNorm, size, epsilon))
        self.after = config.kind != "vaultgemma"
        if not self.after:
            del self.post_attention_layernorm, self.post_feedforward_layernorm

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        if self.after:
            return super().forward(x, text)
        x = self.self_attn(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.pre_feedforward_layernorm(x), x)
        return y


class Gemma2ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, OffsetRMSNorm(config.hidden_size, config.rms_norm_eps), stack=RootScaledStack)

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V), softly capped."""
        return soft_capped(super().head(x), self.config.final_logit_softcapping)


def _implied(config: Any) -> dict[str, Any]:
    """What llama.cpp takes for granted."""
    layers, hidden, heads = config["num_hidden_layers"], config["hidden_size"], config["num_attention_heads"]
    large = layers == 46
    return {"query_pre_attn_scalar": hidden // heads if large else config["head_dim"]}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.kind == "gemma2", f"llama.cpp has no form for {config.kind}", "Write safetensors")
    return tied(config) | key_lengths(config)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | _implied(found)


GGUF = Gguf(
    "gemma2", offset="norm.weight", read=_from_gguf, write=_to_gguf,
    names=NAMES | {
        "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
        "model.layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm",
        "model.layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
    },
    keys=KEYS | {
        "sliding_window": "attention.sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping",
    },
)  # fmt: skip

TASKS = {"causal-lm": Gemma2ForCausalLM}

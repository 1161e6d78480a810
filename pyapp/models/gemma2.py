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
from .loading.gemma_config import GEMMA2_NESTED_DEFAULTS, Gemma2Config, scale_in_gguf
from .loading.gguf import AFTER_NORMS, KEYS, NAMES, Gguf, key_lengths, tied

MODEL_TYPES = ("gemma2", "vaultgemma")
Config = Gemma2Config
NESTED_DEFAULTS = GEMMA2_NESTED_DEFAULTS


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


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.kind == "gemma2", f"llama.cpp has no form for {config.kind}", "Write safetensors")
    return tied(config) | key_lengths(config)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | scale_in_gguf(found, largest=46)


GGUF = Gguf(
    "gemma2", offset="norm.weight", read=_from_gguf, write=_to_gguf,
    names=NAMES | AFTER_NORMS | {"model.layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm"},
    keys=KEYS | {
        "sliding_window": "attention.sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping",
    },
)  # fmt: skip

TASKS = {"causal-lm": Gemma2ForCausalLM}

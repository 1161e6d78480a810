"""Gemma 3, its language model (Gemma Team 2025, arXiv 2503.19786): Gemma 2 without soft caps, with norms of each head's
queries and keys, five layers with a window for one without, and rotary angles of their own for each kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyapp.engine import Tensor
from pyapp.nn.decoders.decoder import (
    CausalLanguageModel,
    RotaryTable,
    soft_capped,
)  # fmt: skip
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, RootScaledStack, SandwichNormBlock
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.layers.normalization import OffsetRMSNorm

from .loading.config import LOCAL_BASE
from .loading.gemma_config import GEMMA3_NESTED_DEFAULTS, Gemma3Config, scale_in_gguf
from .loading.gguf import AFTER_NORMS, HEAD_NORMS, KEYS, NAMES, WINDOW, Gguf, key_lengths

MODEL_TYPES = ("gemma3_text", "gemma3")
# The tensors of a model that also sees pictures.
IGNORED = r"(model\.)?(vision_tower|multi_modal_projector)\..*"
Config = Gemma3Config
NESTED_DEFAULTS = GEMMA3_NESTED_DEFAULTS


class Block(SandwichNormBlock):
    """Attention and feed-forward, each between two norms, with a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        table = rotary[config.layer_types[layer]]
        attention = HeadNormAttention(
            layer, size, config.attention(layer), table, epsilon, bias=config.attention_bias, norm=OffsetRMSNorm
        )
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_activation)
        super().__init__(attention, feed_forward, partial(OffsetRMSNorm, size, epsilon))


class Gemma3ForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in set(config.layer_types)}
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = OffsetRMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, RootScaledStack(config.vocab_size, config.hidden_size, blocks, norm))

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V), softly capped."""
        return soft_capped(super().head(x), self.config.final_logit_softcapping)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    full = found["rope_parameters"]
    local = {"rope_type": "default", "rope_theta": values.get("rope.freq_base_swa", LOCAL_BASE)}
    found = found | {"rope_parameters": {"sliding_attention": local, "full_attention": full}}
    return found | scale_in_gguf(found, largest=62)


def _to_gguf(config: Config) -> dict[str, Any]:
    """The sizes of heads, and the base of the angles of layers with a window where it is not the usual one."""
    base = config.rope_parameters["sliding_attention"].get("rope_theta", LOCAL_BASE)
    return key_lengths(config) | ({} if base == LOCAL_BASE else {"rope.freq_base_swa": float(base)})


def _embedding_from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """EmbeddingGemma, whose tokens see those after them, too."""
    return _from_gguf(found, values) | {"query_pre_attn_scalar": found["head_dim"], "use_bidirectional_attention": True}


GGUF = Gguf(
    "gemma3", offset="norm.weight", read=_from_gguf, write=_to_gguf,
    names=NAMES | HEAD_NORMS | AFTER_NORMS | {"model.layers.{}.pre_feedforward_layernorm": "blk.{}.ffn_norm"},
    keys=KEYS | WINDOW | {"final_logit_softcapping": "final_logit_softcapping"},
)  # fmt: skip
GGUF = replace(GGUF, others=(
    replace(
        GGUF, architecture="gemma-embedding", read=_embedding_from_gguf, keys=KEYS | WINDOW,
        suits=lambda config: config.use_bidirectional_attention,
    ),
))  # fmt: skip

TASKS = {"causal-lm": Gemma3ForCausalLM}

"""Seed-OSS (ByteDance Seed 2025): Llama's blocks with biases of queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import NAMES, Gguf, biases

MODEL_TYPES = ("seed_oss",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "seed_oss"
    defaults = {"max_position_embeddings": 524288, "head_dim": 128, "num_key_value_heads": 8}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = True
    attention_out_bias: bool = False
    mlp_bias: bool = False


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(
            layer, size, config.heads(), rotary, bias=config.attention_bias, output_bias=config.attention_out_bias
        )
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class SeedOssForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which projections have biases."""
    return biases(found, values) | {"attention_out_bias": "blk.0.attn_output.bias" in values["tensors"]}


GGUF = Gguf(
    "seed_oss", read=_from_gguf,
    names=NAMES | {"model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm"},
)  # fmt: skip
TASKS = {"causal-lm": SeedOssForCausalLM}

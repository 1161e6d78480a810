"""Helium 1 (Kyutai 2025): Llama's blocks; rotary pairs are neighbours."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig

MODEL_TYPES = ("helium",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "helium"
    defaults = {"max_position_embeddings": 4096, "rope_theta": 100000.0, "head_dim": 128, "num_key_value_heads": 20}

    intermediate_size: int
    rms_norm_eps: float = 1e-8
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(interleaved=True)
        attention = GroupedQueryAttention(
            layer, size, heads, rotary, bias=config.attention_bias, output_bias=False
        )  # fmt: skip
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class HeliumForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


TASKS = {"causal-lm": HeliumForCausalLM}

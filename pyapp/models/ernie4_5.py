"""ERNIE 4.5 (Baidu 2025): Llama's blocks; rotary pairs are neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import Gguf

MODEL_TYPES = ("ernie4_5",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "ernie4_5"
    defaults = {
        "max_position_embeddings": 131072, "rope_theta": 500000.0, "head_dim": 128, "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    use_bias: bool = False


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(interleaved=True)
        attention = GroupedQueryAttention(layer, size, heads, rotary, bias=config.use_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.use_bias)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Ernie45ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | {"use_bias": "blk.0.attn_q.bias" in values["tensors"]}


GGUF = Gguf("ernie4_5", read=_from_gguf)
TASKS = {"causal-lm": Ernie45ForCausalLM}

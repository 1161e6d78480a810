"""OLMo (Groeneveld et al. 2024, arXiv 2402.00838): Llama's blocks with norms that have no weights."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf, pairs_of_llama

MODEL_TYPES = ("olmo",)
EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. Queries, keys and values are clipped to ±`clip_qkv`."""

    model_type = "olmo"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    hidden_act: str = "silu"
    attention_bias: bool = False
    clip_qkv: float | None = None


class ClippedAttention(GroupedQueryAttention):
    """Self-attention whose queries, keys and values are clipped."""

    clip: float | None = None

    def normalized(self, qkv: Tensor) -> Tensor:
        return qkv if self.clip is None else qkv.clamp(-self.clip, self.clip)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size = config.hidden_size
        attention = ClippedAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        attention.clip = config.clip_qkv
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, norm(size), norm(size))


def norm(size: int) -> LayerNorm:
    """A norm without weights."""
    return LayerNorm(size, EPSILON, elementwise_affine=False)


class OlmoForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, norm(config.hidden_size))


def _epsilon(config: Any) -> dict[str, Any]:
    return {"attention.layer_norm_epsilon": EPSILON}


GGUF = Gguf(
    "olmo", order=pairs_of_llama, write=_epsilon,
    keys={name: key for name, key in KEYS.items() if name != "rms_norm_eps"} | {"clip_qkv": "attention.clamp_kqv"},
)  # fmt: skip
TASKS = {"causal-lm": OlmoForCausalLM}

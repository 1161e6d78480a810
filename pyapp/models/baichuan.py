"""Baichuan and Baichuan 2 (Yang et al. 2023, arXiv 2309.10305): Llama's blocks. Models of 13B have linear biases of the
attention instead of rotary positions; Baichuan 2 computes logits with rows of length 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.positions.linear_biases import slopes

from .loading.config import DecoderConfig
from .loading.gguf import Gguf, pairs_of_llama
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("baichuan",)
DEEP = 40  # the layers of the models of 13B, by which llama.cpp knows them
WORDS_OF_SECOND = 125_696  # the vocabulary of Baichuan 2


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. alibi: whether there are linear biases instead of rotary positions. norm_head: whether
    the files have the rows of the head before they get the length 1. Neither is in config.json: the code beside it
    says it.
    """

    model_type = "baichuan"
    defaults = {"max_position_embeddings": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    alibi: bool = False
    norm_head: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with those that the sizes say."""
        length = values.get("model_max_length")
        more = {} if length is None else {"max_position_embeddings": length}
        deep, words = values.get("num_hidden_layers") == DEEP, values.get("vocab_size") == WORDS_OF_SECOND
        return {"alibi": deep, "norm_head": words} | values | more


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        biases = ops.tensor(slopes(config.num_attention_heads)) if config.alibi else None
        attention = GroupedQueryAttention(
            layer, size, config.heads(slopes=biases), None if config.alibi else rotary
        )  # fmt: skip
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class BaichuanForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _unit_rows(matrix: Tensor) -> Tensor:
    matrix = matrix.to("float32")
    return matrix / (matrix * matrix).sum(-1, True).sqrt().clamp(min=1e-7)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How its own files store the projections of attention, three in one, and the head."""
    found: dict[str, Stored] = {}
    for layer in range(config.num_hidden_layers):
        start = f"model.layers.{layer}.self_attn."
        if f"{start}W_pack.weight" in tensors:
            parts = [f"{start}{part}_proj.weight" for part in "qkv"]
            found |= cut_apart(f"{start}W_pack.weight", parts, config.hidden_size)
    if config.norm_head:
        found["lm_head.weight"] = Stored(("lm_head.weight",), values=_unit_rows)
    return found


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | {"norm_head": False}


GGUF = Gguf("baichuan", order=pairs_of_llama, read=_from_gguf, unsaid=("norm_head",))
TASKS = {"causal-lm": BaichuanForCausalLM}

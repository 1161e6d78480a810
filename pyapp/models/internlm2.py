"""InternLM 2 and 2.5 (Cai et al. 2024, arXiv 2403.17297): Llama's blocks. Their own files have the queries, the key and
the value of one group of heads after another in one matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import TENSOR_SCALINGS, Gguf, biases, grouped_rows, pairs_of_llama
from .loading.stored import Stored

MODEL_TYPES = ("internlm2",)
# The names of parameters in its own files.
NAMES_OF_FILES = {
    "tok_embeddings.": "embed_tokens.", ".attention.wo.": ".self_attn.o_proj.", ".feed_forward.w1.": ".mlp.gate_proj.",
    ".feed_forward.w3.": ".mlp.up_proj.", ".feed_forward.w2.": ".mlp.down_proj.",
    ".attention_norm.": ".input_layernorm.", ".ffn_norm.": ".post_attention_layernorm.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. attention_bias: `bias` there."""

    model_type = "internlm2"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the biases."""
        return {"attention_bias": values.get("bias", False)} | values


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class InternLM2ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    for theirs, ours in NAMES_OF_FILES.items() if name.startswith("model.") else ():
        name = name.replace(theirs, ours, 1)
    return name


def _picked(value: Tensor, rows: list[int]) -> Tensor:
    return ops.index_select(value, 0, ops.tensor(rows, dtype="int64", device=value.device))


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How its own files store the projections of attention, and the head."""
    heads = config.heads()
    found = {"lm_head.weight": Stored(("output.weight",))} if "output.weight" in tensors else {}
    rows = grouped_rows(heads.kv_heads, heads.heads // heads.kv_heads, heads.head_dim)
    queries, keys = heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim
    parts = {"q": rows[:queries], "k": rows[queries : queries + keys], "v": rows[queries + keys :]}
    for layer in range(config.num_hidden_layers):
        for last in ("weight", "bias"):
            name = f"model.layers.{layer}.attention.wqkv.{last}"
            for part, own in parts.items() if name in tensors else ():
                path = f"model.layers.{layer}.self_attn.{part}_proj.{last}"
                found[path] = Stored((name,), values=partial(_picked, rows=own))
    return found


GGUF = Gguf("internlm2", order=pairs_of_llama, read=biases, scalings=TENSOR_SCALINGS)
TASKS = {"causal-lm": InternLM2ForCausalLM}

"""Falcon (Almazrouei et al. 2023, arXiv 2311.16867): one head of keys and values (7B) or groups of heads (40B),
attention and feed-forward side by side, rotary positions or linear biases.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat, tensor
from pyapp.nn import LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable, SelfAttention, Text
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.positions.linear_biases import slopes

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf, grouped_rows

MODEL_TYPES = ("falcon", "RefinedWeb", "RefinedWebModel")


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "falcon"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}

    layer_norm_epsilon: float = 1e-5
    ffn_hidden_size: int
    activation: str = "gelu"
    alibi: bool = False
    new_decoder_architecture: bool = False
    multi_query: bool = True
    parallel_attn: bool = True
    bias: bool = False
    num_ln_in_parallel_attn: int | None = None

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the sizes that follow from others, and the names of the first files (n_head, n_layer)."""
        heads, hidden = values.get("num_attention_heads"), values.get("hidden_size")
        new, single = values.get("new_decoder_architecture", False), values.get("multi_query", True)
        if "ffn_hidden_size" not in values and type(hidden) is int:
            values["ffn_hidden_size"] = 4 * hidden
        if new and values.get("num_ln_in_parallel_attn") is None:
            values["num_ln_in_parallel_attn"] = 2
        kv_heads = values.get("num_kv_heads", heads) if new else 1 if single else heads
        return values | {"num_key_value_heads": kv_heads}

    @classmethod
    def from_dict(cls, values: Any) -> Any:
        """From the object of a config.json."""
        older = {"n_head": "num_attention_heads", "n_layer": "num_hidden_layers", "n_head_kv": "num_kv_heads"}
        return super().from_dict({older.get(name, name): value for name, value in values.items()})

    def saved(self) -> dict[str, Any]:
        """The fields with transformers' name of the groups, and without what follows from others."""
        values = self.to_dict()
        del values["head_dim"]
        return values | {"num_kv_heads": values.pop("num_key_value_heads")}

    @property
    def two_norms(self) -> bool:
        """Whether attention and feed-forward have a norm each, side by side."""
        return self.parallel_attn and self.num_ln_in_parallel_attn == 2


class Attention(SelfAttention):
    """Self-attention from one projection: of each group of heads its queries, its key and its value."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable | None) -> None:
        size = config.hidden_size
        biases = None
        if config.alibi:  # in bfloat16 as in training, and scaled as the scores
            rounded = tensor(slopes(config.num_attention_heads)).to("bfloat16").to("float32")
            biases = rounded * (1 / sqrt(config.head_dim))
        super().__init__(layer, config.heads(slopes=biases), rotary)
        self.grouped = config.num_key_value_heads > 1
        self.query_key_value = Linear(size, self.heads.width, bias=config.bias)
        self.dense = ResidualLinear(size, size, bias=config.bias)
        parts = ("groups",) if self.grouped else ("queries", "keys", "keys")
        self.tensor_parallel = {"query_key_value": ("outputs", *parts), "dense": ("inputs", "queries")}

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        qkv = self.query_key_value(x)
        if self.grouped:
            qkv = _groups_together(qkv, self.heads)
        return self.dense(self.attend(qkv, text), residual)


def _groups_together(qkv: Tensor, heads: Heads) -> Tensor:
    """[queries, key, value] of each group (..., KV * (G + 2) * D) → [all queries, all keys, all values]."""
    group = heads.heads // heads.kv_heads
    x = qkv.reshape(*qkv.shape[:-1], heads.kv_heads, group + 2, heads.head_dim)
    flat = (*qkv.shape[:-1], -1)
    parts = x.narrow(-2, 0, group), x.narrow(-2, group, 1), x.narrow(-2, group + 1, 1)
    return cat([part.reshape(*flat) for part in parts], -1)


class Block(Module):
    """Attention and feed-forward, side by side (with a norm together, or one each) or one after the other."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable | None) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.layer_norm_epsilon
        self.parallel, self.two_norms = config.parallel_attn, config.two_norms
        self.self_attention = Attention(config, layer, rotary)
        self.mlp = FeedForward(
            size, config.ffn_hidden_size, config.activation, bias=config.bias,
            names=("dense_h_to_4h", "dense_4h_to_h"),
        )  # fmt: skip
        if config.two_norms:
            self.ln_attn = LayerNorm(size, epsilon)
            self.ln_mlp = LayerNorm(size, epsilon)
        else:
            self.input_layernorm = LayerNorm(size, epsilon)
        self.post_attention_layernorm = None if config.parallel_attn else LayerNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        own = self.ln_attn(x) if self.two_norms else self.input_layernorm(x)
        y = self.self_attention(own, text, x)
        if self.post_attention_layernorm is not None:
            return self.mlp(self.post_attention_layernorm(y), y)
        return self.mlp(self.ln_mlp(x) if self.two_norms else own, y)


class FalconStack(DecoderStack):
    """The decoder."""

    tokens, blocks, last_norm = "word_embeddings", "h", "ln_f"


class FalconForCausalLM(CausalLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        rotary = None if config.alibi else RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = LayerNorm(config.hidden_size, config.layer_norm_epsilon)
        super().__init__(config, FalconStack(config.vocab_size, config.hidden_size, blocks, norm))


def _order(name: str, config: Config) -> list[int] | None:
    """llama.cpp stores all queries, all keys, all values."""
    if ".query_key_value." not in name or config.num_key_value_heads == 1:
        return None
    groups = config.num_key_value_heads
    return grouped_rows(groups, config.num_attention_heads // groups, config.head_dim)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The forms that llama.cpp has: with one norm (7B), or two (40B)."""
    two, heads = "blk.0.attn_norm_2.weight" in values["tensors"], found.get("num_key_value_heads")
    return found | {
        "new_decoder_architecture": two or heads not in (None, 1), "multi_query": heads in (None, 1),
        "num_ln_in_parallel_attn": 2 if two else 1, "num_kv_heads": heads,
        "bias": "blk.0.attn_qkv.bias" in values["tensors"],
    }  # fmt: skip


_LAYER = "transformer.h.{}."
_NORMS = {
    "input_layernorm": "attn_norm", "ln_mlp": "attn_norm", "ln_attn": "attn_norm_2",
    "self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
    "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
}  # fmt: skip
GGUF = Gguf(
    "falcon",
    names={
        "transformer.word_embeddings": "token_embd", "transformer.ln_f": "output_norm", "lm_head": "output",
        **{_LAYER + ours: "blk.{}." + theirs for ours, theirs in _NORMS.items()},
    },
    keys=KEYS | {"layer_norm_epsilon": "attention.layer_norm_epsilon", "ffn_hidden_size": "feed_forward_length"},
    order=_order, read=_from_gguf,
    unsaid=("new_decoder_architecture", "multi_query", "num_ln_in_parallel_attn"),
)  # fmt: skip

TASKS = {"causal-lm": FalconForCausalLM}

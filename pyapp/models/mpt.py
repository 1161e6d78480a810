"""MPT (MosaicML 2023): linear biases of the attention instead of positions, layer norms without biases before each
part, a plain feed-forward layer. Replit Code 1.5 has fewer heads of keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import tensor
from pyapp.nn import LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.positions.linear_biases import slopes

from .loading.config import FileConfig, check_divides, check_form, optional_object, read_config, require
from .loading.gguf import Gguf

MODEL_TYPES = ("mpt",)
LARGEST = 1 << 20  # of the numbers in attn_config
# Settings of other models of this family, which transformers does not read either, and what they are here.
FIXED: Mapping[str, Any] = {"alibi": True, "qk_ln": False, "prefix_lm": False}
ALL, GROUPED, ONE = "multihead_attention", "grouped_query_attention", "multiquery_attention"  # attn_type


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json. `attn_config` has `clip_qkv`, `softmax_scale`, `alibi_bias_max`, which transformers
    reads as 8 in all models (in that of long stories it is 16), and `kv_n_heads`, None: as many as there are heads.
    """

    model_type = "mpt"

    vocab_size: int
    d_model: int
    n_heads: int
    n_layers: int
    expansion_ratio: int = 4
    max_seq_len: int = 2048
    layer_norm_epsilon: float = 1e-5
    attn_config: dict[str, Any]
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides(self, "n_heads", "d_model")
        own = self.num_key_value_heads
        fits = type(own) is int and 1 <= own <= self.n_heads and self.n_heads % own == 0
        require(fits, f"attn_config has kv_n_heads {own!r:.40}, expected a divisor of n_heads {self.n_heads}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        given = optional_object(values, "attn_config")
        check_form(given, FIXED, "attn_config: ")
        check_form(values, {"no_bias": True, "logit_scale": None})
        most = given.get("alibi_bias_max")
        own: dict[str, Any] = {"alibi_bias_max": 8 if most is None else most}
        own |= {name: given.get(name) for name in ("clip_qkv", "softmax_scale")}
        for name, value in own.items():
            plausible = value is None or (type(value) in (int, float) and 0 < value <= LARGEST)
            require(plausible, f"attn_config has {name} {value!r:.40}, expected a number from 0 to {LARGEST:,}")
        kind, grouped = given.get("attn_type", ALL), given.get("kv_n_heads")
        require(
            kind in (ALL, GROUPED, ONE), f"attn_config has attn_type {kind!r:.40}, expected {ALL}, {GROUPED} or {ONE}"
        )
        own["kv_n_heads"] = 1 if kind == ONE else grouped
        return read_config(cls, {**values, "attn_config": own})

    @property
    def hidden_size(self) -> int:
        return self.d_model

    @property
    def num_hidden_layers(self) -> int:
        return self.n_layers

    @property
    def num_attention_heads(self) -> int:
        return self.n_heads

    @property
    def num_key_value_heads(self) -> int:
        own: int | None = self.attn_config.get("kv_n_heads")
        return self.n_heads if own is None else own

    @property
    def head_dim(self) -> int:
        return self.d_model // self.n_heads


class Attention(SelfAttention):
    """Self-attention from one projection, whose results may be limited."""

    tensor_parallel = {"Wqkv": ("outputs", "queries", "keys", "keys"), "out_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int) -> None:
        size, count, own = config.d_model, config.n_heads, config.attn_config
        biases, grouped = tensor(slopes(count, own["alibi_bias_max"])), config.num_key_value_heads
        heads = Heads(count, grouped, config.head_dim, scale=own["softmax_scale"], slopes=biases)
        super().__init__(layer, heads, None)
        self.limit: float | None = own["clip_qkv"]
        self.Wqkv = Linear(size, heads.width, bias=False)
        self.out_proj = ResidualLinear(size, size, bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, d_model) → residual + attention (..., T, d_model)."""
        qkv = self.Wqkv(x)
        qkv = qkv if self.limit is None else qkv.clamp(-self.limit, self.limit)
        return self.out_proj(self.attend(qkv, text), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, epsilon = config.d_model, config.layer_norm_epsilon
        self.norm_1 = LayerNorm(size, epsilon, bias=False)
        self.attn = Attention(config, layer)
        self.norm_2 = LayerNorm(size, epsilon, bias=False)
        self.ffn = FeedForward(
            size, config.expansion_ratio * size, "gelu", bias=False, names=("up_proj", "down_proj")
        )  # fmt: skip

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, d_model) → (..., T, d_model)."""
        x = self.attn(self.norm_1(x), text, x)
        return self.ffn(self.norm_2(x), x)


class MptStack(DecoderStack):
    """The decoder."""

    tokens, blocks, last_norm = "wte", "blocks", "norm_f"


class MptForCausalLM(CausalLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        blocks = (Block(config, layer) for layer in range(config.n_layers))
        norm = LayerNorm(config.d_model, config.layer_norm_epsilon, bias=False)
        super().__init__(config, MptStack(config.vocab_size, config.d_model, blocks, norm))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    inner, width = values.get("feed_forward_length"), found.get("d_model")
    own = {
        "clip_qkv": values.get("attention.clamp_kqv") or None,
        "kv_n_heads": None if (grouped := values.get("attention.head_count_kv")) == found.get("n_heads") else grouped,
        "alibi_bias_max": values.get("attention.max_alibi_bias"), "alibi": values.get("attention.max_alibi_bias") != 0,
    }  # fmt: skip
    ratio = inner // width if type(inner) is int and type(width) is int and width > 0 else 4
    return found | {"attn_config": own, "expansion_ratio": ratio}


GGUF = Gguf(
    "mpt",
    names={
        "transformer.wte": "token_embd", "transformer.norm_f": "output_norm", "lm_head": "output",
        "transformer.blocks.{}.norm_1": "blk.{}.attn_norm", "transformer.blocks.{}.norm_2": "blk.{}.ffn_norm",
        "transformer.blocks.{}.attn.Wqkv": "blk.{}.attn_qkv",
        "transformer.blocks.{}.attn.out_proj": "blk.{}.attn_output",
        "transformer.blocks.{}.ffn.up_proj": "blk.{}.ffn_up",
        "transformer.blocks.{}.ffn.down_proj": "blk.{}.ffn_down",
    },
    keys={
        "max_seq_len": "context_length", "d_model": "embedding_length", "n_layers": "block_count",
        "n_heads": "attention.head_count", "layer_norm_epsilon": "attention.layer_norm_epsilon",
    },
    write=lambda config: {
        "feed_forward_length": config.expansion_ratio * config.d_model,
        "attention.clamp_kqv": config.attn_config["clip_qkv"],
        "attention.head_count_kv": config.attn_config["kv_n_heads"],
        "attention.max_alibi_bias": float(config.attn_config["alibi_bias_max"]),
    },
    read=_from_gguf,
)  # fmt: skip
TASKS = {"causal-lm": MptForCausalLM}

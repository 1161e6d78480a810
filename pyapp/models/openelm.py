"""OpenELM (Mehta et al. 2024, arXiv 2404.14619): the number of heads and the width of the feed-forward part grow with
the layers; queries and keys are normalised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, SelfAttention, Text, normalized_heads
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import gated
from pyapp.nn.recurrent.hybrid import uneven_cache

from .loading.config import LIMITS, DecoderConfig, check_form, require
from .loading.gguf import KEYS, Gguf, key_lengths

MODEL_TYPES = ("openelm",)
EPSILON = 1e-6  # of all norms
FIELDS = {
    "model_dim": "hidden_size", "num_transformer_layers": "num_hidden_layers", "num_query_heads": "query_heads",
    "max_context_length": "max_position_embeddings", "rope_freq_constant": "rope_theta", "num_kv_heads": "kv_heads",
    "share_input_output_layers": "tie_word_embeddings", "activation_fn_name": "hidden_act",
}  # fmt: skip
# Settings of config.json that no published model has otherwise.
FIXED = {"ffn_with_glu": True, "normalize_qk_projections": True, "normalization_layer_name": "rms_norm"}


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, by Llama's names; for each layer: query_heads, kv_heads, and widths, the features of
    the feed-forward part.
    """

    model_type = "openelm"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}

    query_heads: list[int]
    kv_heads: list[int]
    widths: list[int]
    hidden_act: str = "swish"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        check_form(values, FIXED)
        own = {new: values[old] for old, new in FIELDS.items() if values.get(old) is not None}
        given = {**values, **own}
        for name, key in (("query_heads", "num_attention_heads"), ("kv_heads", "num_key_value_heads")):
            counts = given.get(name)
            known = isinstance(counts, list) and all(type(count) is int and count > 0 for count in counts) and counts
            require(bool(known), f"{name} is {counts!r:.60}, expected a number of heads for each layer")
            given[key] = max(counts)  # type: ignore[arg-type]
        if "widths" not in given:
            given["widths"] = _widths(given)
        return super().from_dict(given)

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, most = self.num_hidden_layers, LIMITS["intermediate_size"]
        fits = len(self.query_heads) == len(self.kv_heads) == layers and all(
            heads % own == 0 for heads, own in zip(self.query_heads, self.kv_heads, strict=True)
        )
        require(fits, f"kv_heads {self.kv_heads!r:.60} do not fit query_heads {self.query_heads!r:.60}")
        known = len(self.widths) == layers and all(type(n) is int and 1 <= n <= most for n in self.widths)
        require(known, f"widths is {self.widths!r:.60}, expected {layers} sizes")


def _widths(values: Mapping[str, Any]) -> list[int]:
    """The widths that ffn_multipliers say: the nearest multiple of ffn_dim_divisor, at least nine tenths of them."""
    shares, step, size = values.get("ffn_multipliers"), values.get("ffn_dim_divisor", 256), values.get("hidden_size")
    known = isinstance(shares, list) and all(type(x) in (int, float) and 0 < x < 1 << 10 for x in shares)
    require(known and type(step) is int and step > 0 and type(size) is int, f"ffn_multipliers is {shares!r:.60}")
    found = []
    for share in shares or ():
        wanted = share * (size or 0)
        width = max(step, int(wanted + step / 2) // step * step)
        found.append(width + step if width < 0.9 * wanted else width)
    return found


class Attention(SelfAttention):
    """Self-attention from one projection, with norms of queries and keys."""

    tensor_parallel = {
        "qkv_proj": ("outputs", "queries", "keys", "keys"), "out_proj": ("inputs", "queries"), "q_norm": ("between",),
        "k_norm": ("between",),
    }  # fmt: skip

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads = Heads(config.query_heads[layer], config.kv_heads[layer], config.head_dim)
        super().__init__(layer, heads, rotary)
        self.qkv_proj = Linear(config.hidden_size, heads.width, bias=False)
        self.out_proj = ResidualLinear(heads.heads * heads.head_dim, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(heads.head_dim, EPSILON)
        self.k_norm = RMSNorm(heads.head_dim, EPSILON)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        qkv = normalized_heads(self.qkv_proj(x), self.heads, self.q_norm, self.k_norm)
        return self.out_proj(self.attend(qkv, text), residual)


class FeedForward(Module):
    """A gated feed-forward part, whose gates and values are of one projection."""

    tensor_parallel = {"proj_1": ("outputs", "inner", "inner"), "proj_2": ("inputs", "inner")}

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.activation = config.hidden_act
        self.proj_1 = Linear(config.hidden_size, 2 * config.widths[layer], bias=False)
        self.proj_2 = ResidualLinear(config.widths[layer], config.hidden_size, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + feed-forward (..., hidden_size)."""
        return self.proj_2(gated(self.proj_1(x), self.activation), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        self.attn = Attention(config, layer, rotary)
        self.ffn = FeedForward(config, layer)
        self.attn_norm = RMSNorm(config.hidden_size, EPSILON)
        self.ffn_norm = RMSNorm(config.hidden_size, EPSILON)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.attn(self.attn_norm(x), text, x)
        return self.ffn(self.ffn_norm(x), x)


class OpenElmStack(DecoderStack):
    """The decoder, whose table of words has another name."""

    tokens = "token_embeddings"


class OpenElmForCausalLM(RotaryLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, EPSILON), stack=OpenElmStack)

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        """The caches of the layers."""
        sizes = [(count, self.config.head_dim) for count in self.config.kv_heads]
        return uneven_cache(sizes, texts, capacity, self.device, dtype)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    layers = found.get("num_hidden_layers", 0)
    lists = {
        "query_heads": "attention.head_count", "kv_heads": "attention.head_count_kv", "widths": "feed_forward_length",
    }  # fmt: skip
    given = {name: values.get(key) for name, key in lists.items()}
    return found | {name: own if isinstance(own, list) else [own] * layers for name, own in given.items()}


def _to_gguf(config: Config) -> dict[str, Any]:
    return key_lengths(config) | {
        "attention.head_count": config.query_heads, "attention.head_count_kv": config.kv_heads,
        "feed_forward_length": config.widths, "attention.layer_norm_rms_epsilon": EPSILON,
    }  # fmt: skip


_LAYER = "transformer.layers.{}."
GGUF = Gguf(
    "openelm", read=_from_gguf, write=_to_gguf,
    names={
        "transformer.token_embeddings": "token_embd", "transformer.norm": "output_norm", "lm_head": "output",
        _LAYER + "attn.qkv_proj": "blk.{}.attn_qkv", _LAYER + "attn.out_proj": "blk.{}.attn_output",
        _LAYER + "attn.q_norm": "blk.{}.attn_q_norm", _LAYER + "attn.k_norm": "blk.{}.attn_k_norm",
        _LAYER + "attn_norm": "blk.{}.attn_norm", _LAYER + "ffn_norm": "blk.{}.ffn_norm",
        _LAYER + "ffn.proj_1": "blk.{}.ffn_gate blk.{}.ffn_up", _LAYER + "ffn.proj_2": "blk.{}.ffn_down",
    },
    keys={name: KEYS[name] for name in ("max_position_embeddings", "hidden_size", "num_hidden_layers")},
)  # fmt: skip
TASKS = {"causal-lm": OpenElmForCausalLM}

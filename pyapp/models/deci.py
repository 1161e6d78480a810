"""Models that a search has made of Llama (Puzzle, Bercovich et al. 2024, arXiv 2411.19146): Llama-Nemotron Super and
Ultra, and DeciLM. Layers have other numbers of heads of keys and other widths, and some have no attention, a matrix
instead of it, or no feed-forward part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.recurrent.hybrid import uneven_cache

from .loading.config import LIMITS, DecoderConfig, layers_in, require
from .loading.gguf import KEYS, NAMES, TENSOR_SCALINGS, Gguf, key_lengths, neighbouring_pairs

MODEL_TYPES = ("nemotron-nas", "deci")
STEP = 256  # widths are a multiple of it


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, for each layer: kv_heads, the heads of keys (0: no attention), linear, whether a
    matrix is there instead of attention, and widths, the features of the feed-forward part (0: there is none).
    """

    model_type = "nemotron-nas"
    defaults = {"max_position_embeddings": 2048}

    kv_heads: list[int]
    linear: list[bool]
    widths: list[int]
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with what each layer has."""
        layers, heads = layers_in(values), values.get("num_attention_heads")
        if "kv_heads" in values:
            found = {}
        elif (blocks := values.get("block_configs")) is not None:
            require(isinstance(blocks, list) and len(blocks) == layers, f"block_configs is not a list of {layers}")
            found = _of_blocks(blocks, heads, values.get("hidden_size"))
        else:
            own = values.get("num_key_value_heads_per_layer", [values.get("num_key_value_heads", heads)] * layers)
            found = {
                "kv_heads": own, "linear": [False] * layers, "widths": [values.get("intermediate_size")] * layers,
            }  # fmt: skip
        values = values | found
        counts = values["kv_heads"]
        known = isinstance(counts, list) and all(type(count) is int for count in counts)
        return values | {"num_key_value_heads": max(counts, default=1) if known else 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, most = self.num_hidden_layers, LIMITS["intermediate_size"]
        heads = self.num_attention_heads
        fits = len(self.kv_heads) == layers and all(
            type(n) is int and n >= 0 and (n == 0 or heads % n == 0) for n in self.kv_heads
        )
        require(fits and any(self.kv_heads), f"kv_heads is {self.kv_heads!r:.60}, expected divisors of {heads}, or 0")
        known = len(self.widths) == layers and all(type(n) is int and 0 <= n <= most for n in self.widths)
        require(known, f"widths is {self.widths!r:.60}, expected {layers} sizes")
        plain = len(self.linear) == layers and all(type(one) is bool for one in self.linear)
        require(plain, f"linear is {self.linear!r:.60}, expected true or false for each layer")

    def place(self, layer: int) -> int:
        """The number of a layer among those that attend."""
        return sum(count > 0 for count in self.kv_heads[:layer])


def _of_blocks(blocks: list[Any], heads: Any, hidden: Any) -> dict[str, Any]:
    """The fields of block_configs."""
    found: dict[str, list[Any]] = {"kv_heads": [], "linear": [], "widths": []}
    for block in blocks:
        own: list[Any] = [block.get(name) for name in ("attention", "ffn")] if isinstance(block, Mapping) else [None]
        known = all(isinstance(part, Mapping) for part in own) and type(heads) is int and type(hidden) is int
        require(known, f"block_configs has {block!r:.80}, expected attention and ffn")
        attention, feed = own
        require(not feed.get("replace_with_linear"), "block_configs has a matrix instead of a feed-forward part")
        group, share, width = attention.get("n_heads_in_group"), feed.get("ffn_mult"), feed.get("intermediate_size")
        fits = group is None or (type(group) is int and group > 0 and heads % group == 0)
        require(fits, f"n_heads_in_group is {group!r:.40}, expected a divisor of {heads}")
        plausible = share is None or (type(share) in (int, float) and 0 < share < 1 << 10)
        require(plausible, f"ffn_mult is {share!r:.40}, expected a number above 0 and below 1,024")
        found["kv_heads"].append(0 if group is None else heads // group)
        found["linear"].append(group is None and attention.get("replace_with_linear") is True)
        if share is not None and width is None:
            width = -(-int(2 * share * hidden / 3) // STEP) * STEP
        found["widths"].append(width or 0)
    return found


class LinearAttention(Module):
    """A matrix instead of attention."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear_attn = ResidualLinear(size, size, bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the product (..., T, hidden_size)."""
        return self.linear_attn(x, residual)


class Block(Module):
    """The parts that a layer has, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon, count = config.hidden_size, config.rms_norm_eps, config.kv_heads[layer]
        attends, width = count > 0 or config.linear[layer], config.widths[layer]
        heads = Heads(config.num_attention_heads, count or 1, config.head_dim)
        own = GroupedQueryAttention(config.place(layer), size, heads, rotary, bias=config.attention_bias)
        self.self_attn: Module | None = None if not attends else own if count else LinearAttention(size)
        self.mlp = GatedFeedForward(size, width, config.hidden_act, config.mlp_bias) if width else None
        self.input_layernorm = RMSNorm(size, epsilon) if attends else None
        self.post_attention_layernorm = RMSNorm(size, epsilon) if width else None

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        if self.self_attn is not None and self.input_layernorm is not None:
            x = self.self_attn(self.input_layernorm(x), text, x)
        if self.mlp is not None and self.post_attention_layernorm is not None:
            x = self.mlp(self.post_attention_layernorm(x), x)
        return x


class DeciForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        """The caches of the layers that attend."""
        sizes = [(count, self.config.head_dim) for count in self.config.kv_heads if count]
        return uneven_cache(sizes, texts, capacity, self.device, dtype)


def _order(name: str, config: Config) -> list[int] | None:
    """Rotated pairs are neighbours in files."""
    layer = re.search(r"layers\.(\d+)\.", name)
    for part, heads in (
        ("q_proj", config.num_attention_heads),
        ("k_proj", config.kv_heads[int(layer[1])] if layer else 1),
    ):
        if f".{part}." in name:
            return neighbouring_pairs(heads * config.head_dim, heads)
    return None


def _each(value: Any, layers: Any) -> list[Any]:
    """A value for each layer."""
    return value if isinstance(value, list) else [value] * (layers if type(layers) is int and layers <= 1 << 10 else 0)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    layers, there = found.get("num_hidden_layers"), values["tensors"]
    heads, widths = _each(found.get("num_attention_heads"), layers), _each(values.get("feed_forward_length"), layers)
    counts = _each(values.get("attention.head_count_kv"), layers)
    pairs = zip(heads, counts, strict=False)
    return found | {
        "num_attention_heads": max((n for n in heads if type(n) is int), default=1), "kv_heads": counts,
        "linear": [bool(own) and not keys for own, keys in pairs], "widths": widths,
        "attention_bias": any(name.endswith("attn_q.bias") for name in there),
        "mlp_bias": any(name.endswith("ffn_up.bias") for name in there),
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    own = zip(config.kv_heads, config.linear, strict=True)
    return key_lengths(config) | {
        "attention.head_count": [config.num_attention_heads if count or linear else 0 for count, linear in own],
        "attention.head_count_kv": config.kv_heads, "feed_forward_length": config.widths,
    }  # fmt: skip


GGUF = Gguf(
    "deci", order=_order, read=_from_gguf, write=_to_gguf, scalings=TENSOR_SCALINGS,
    names=NAMES | {"model.layers.{}.self_attn.linear_attn": "blk.{}.attn_output"},
    keys={name: key for name, key in KEYS.items() if name not in ("intermediate_size", "num_key_value_heads")},
)  # fmt: skip
TASKS = {"causal-lm": DeciForCausalLM}

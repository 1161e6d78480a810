"""Dory (NVIDIA 2026, https://huggingface.co/nvidia/NVIDIA-Nemotron-Labs-Dory1.0-4B-BF16): all states are vectors of
length 1 (nGPT, Loshchilov et al. 2024, arXiv 2410.01131), and the layers in the middle are passed several times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops import cat, full
from pyapp.nn import Linear, Module, ResidualLinear
from pyapp.nn.decoders.caches import decoder_cache
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.heads import split_heads
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.parameter import Parameter

from .loading.config import FULL, SLIDING, DecoderConfig, check_positive, layer_types, layers_in, require

MODEL_TYPES = ("dory",)
EPSILON = 1e-6  # of the squares of lengths
THETA = {SLIDING: 10_000.0, FULL: 10_000_000.0}  # of the rotary positions that a config.json leaves out
PAIRED = "num_hidden_layers", "n_input_layers", "n_recurrent_layers", "n_output_layers"
MOST_LOOPS = 1 << 6
_PART = re.compile(r"layers\.(\d+)\.(mixer|attn_alpha|mlp_alpha)(?=\.|$)")


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, with attention and feed-forward as one layer. The layers after the first
    n_input_layers and before the last n_output_layers are passed n_recurrent_loops times. initializer_range: what the
    trained factors are divided by.
    """

    model_type = "dory"
    defaults = {"max_position_embeddings": 8192, "num_key_value_heads": 4, "head_dim": 256}

    intermediate_size: int
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int = 1024
    layer_types: list[str]
    initializer_range: float = 0.0177
    ngpt_alpha_init: float = 0.05
    n_input_layers: int = 8
    n_recurrent_layers: int
    n_output_layers: int = 8
    n_recurrent_loops: int = 2
    recurrent_kv_cache_mode: str = "per_loop"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, also of one that counts attention and feed-forward as two layers."""
        kinds, found = values.get("layer_types"), dict(values)
        if isinstance(kinds, list) and "mlp" in kinds:
            found["layer_types"] = kinds[::2]
            found |= {name: values[name] // 2 for name in PAIRED if type(values.get(name)) is int}
        if all(found.get(name) is None for name in ("rope_parameters", "rope_theta", "rope_scaling")):
            found["rope_parameters"] = {
                kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in THETA.items()
            }
        return super().from_dict(found)

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers, and how many are passed several times."""
        rotary, layers = values["rope_parameters"], layers_in(values)
        ends = [values.get(name, 8) for name in ("n_input_layers", "n_output_layers")]
        rest = layers - sum(ends) if all(type(end) is int for end in ends) else None
        return {"n_recurrent_layers": rest} | values | {
            "layer_types": layer_types(values, lambda layer: (layer + 1) % 4 != 0),
            "rope_parameters": {SLIDING: rotary, FULL: rotary} if "rope_type" in rotary else rotary,
        }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = self.n_input_layers + self.n_recurrent_layers + self.n_output_layers
        require(parts == self.num_hidden_layers, f"{parts} layers in three parts, of {self.num_hidden_layers} layers")
        loops, mode = self.n_recurrent_loops, self.recurrent_kv_cache_mode
        require(loops <= MOST_LOOPS, f"n_recurrent_loops is {loops}, expected at most {MOST_LOOPS}")
        require(
            mode == "per_loop", f"recurrent_kv_cache_mode {mode!r:.40} is not supported",
            "Set it to 'per_loop', which takes more memory and is more exact",
        )  # fmt: skip
        check_positive(self, "initializer_range")
        missing = {*self.layer_types} - {*self.rope_parameters}
        require(not missing, f"rope_parameters has none of {', '.join(sorted(missing))}")

    @property
    def cached_layers(self) -> int:
        """Keys and values of each pass of a layer."""
        return self.num_hidden_layers + (self.n_recurrent_loops - 1) * self.n_recurrent_layers


class UnitLength(Module):
    """Vectors of length 1."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return x * (x.square().sum(-1, True) + EPSILON).rsqrt()


def trained(size: int, config: Config) -> Parameter:
    """A trained factor of each feature, which begins at initializer_range."""
    return Parameter(full((size,), float(config.initializer_range)))


class Attention(GroupedQueryAttention):
    """Self-attention of queries and keys of length 1: rotated queries are scaled, the result is gated."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {}  # every process has the whole of it: lengths are of all heads

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        window = config.sliding_window if config.layer_types[layer] == SLIDING else None
        heads, size = config.heads(window=window), config.hidden_size
        super().__init__(layer, size, heads, rotary, bias=config.attention_bias)
        inner = heads.heads * heads.head_dim
        self.gate_proj = Linear(size, inner, bias=False)
        self.sqk, self.s_gate = trained(inner, config), trained(inner, config)
        self.query_scale = heads.head_dim**0.5 / config.initializer_range
        self.gate_scale = size**0.25 / config.initializer_range
        self.unit = UnitLength()

    def attended(self, x: Tensor, text: Text, place: int) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size). place: of the keys and values in the cache."""
        heads, before, rotary = self.heads, x.shape[:-1], self.rotary
        assert rotary is not None
        q, k, v = split_heads(self.qkv(self, x), heads)
        q, k = text.rotated(rotary, heads.interleaved, self.unit(q), self.unit(k))
        q = q * (self.sqk * self.query_scale).square().reshape(heads.heads, heads.head_dim)
        y = text.attention(place, cat([q, k, v], -2).reshape(*before, heads.width), heads, None)
        y = y * (self.gate_proj(x) * (self.s_gate * self.gate_scale).square()).sigmoid()
        found: Tensor = self.o_proj(self.unit(y))
        return found


class FeedForward(Module):
    """A gated feed-forward part whose gate and values have factors, and whose inner vectors have length 1."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj, self.up_proj = Linear(size, inner, bias=bias), Linear(size, inner, bias=bias)
        self.down_proj = ResidualLinear(inner, size, bias=bias)
        self.suv_gate, self.suv_up = Parameter(ops.ones(inner)), Parameter(ops.ones(inner))
        self.scale, self.activation, self.unit = size**0.5, activation_named(config.hidden_act), UnitLength()
        self.gate_up = JoinedLinear("gate_proj", "up_proj")

    def forward(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → (..., hidden_size)."""
        gate, up = self.gate_up(self, x).chunk(2, -1)
        gate, up = gate * (self.suv_gate * self.scale), up * (self.suv_up * self.scale)
        return self.down_proj(self.unit(self.activation(gate) * up))


class Block(Module):
    """Attention and feed-forward: the state goes towards each of their results, by a trained part of the way."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        super().__init__()
        self.self_attn = Attention(config, layer, rotary[config.layer_types[layer]])
        self.mlp, self.unit = FeedForward(config), UnitLength()
        self.lambda_1, self.lambda_2 = trained(config.hidden_size, config), trained(config.hidden_size, config)
        self.scale = config.ngpt_alpha_init / config.initializer_range

    def forward(self, x: Tensor, text: Text, place: int) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size). place: of the keys and values in the cache."""
        x = self.unit(x)
        x = x + (self.lambda_1 * self.scale).abs() * (self.unit(self.self_attn.attended(x, text, place)) - x)
        x = self.unit(x)
        return x + (self.lambda_2 * self.scale).abs() * (self.unit(self.mlp(x)) - x)


class DoryStack(DecoderStack):
    """The decoder, some of whose layers are passed several times."""

    def __init__(self, config: Config, blocks: Sequence[Module]) -> None:
        super().__init__(config.vocab_size, config.hidden_size, blocks, UnitLength())
        self.config = config

    def forward(self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()) -> Tensor:
        config = self.config
        first, last = config.n_input_layers, config.num_hidden_layers - config.n_output_layers
        x = self.embedded(tokens, text) if x is None else x  # (..., T, hidden_size)
        for layer in range(first):
            x = self.layers[layer](x, text, layer)
        entered, place = self.norm(x), config.num_hidden_layers
        for loop in range(config.n_recurrent_loops):
            x = self.norm(x) + entered
            for layer in range(first, last):
                x = self.layers[layer](x, text, place if loop else layer)
                place += 1 if loop else 0
        for layer in range(last, config.num_hidden_layers):
            x = self.layers[layer](x, text, layer)
        return x


class Head(Linear):
    """Scores of all words, each times a trained factor."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.vocab_size, bias=False)
        self.logit_scale, self.unscaled = trained(config.vocab_size, config), 1 / config.initializer_range

    def forward(self, input: Tensor) -> Tensor:
        """(..., hidden_size) → (..., V)."""
        return super().forward(input) * (self.logit_scale * self.unscaled)


class DoryForCausalLM(CausalLanguageModel):
    """The language model."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, config: Config) -> None:
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in {*config.layer_types}}
        blocks = [Block(config, layer, rotary) for layer in range(config.num_hidden_layers)]
        super().__init__(config, DoryStack(config, blocks))
        self.lm_head = Head(config)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.embedding.weight

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        config = self.config
        return decoder_cache(
            texts, config.cached_layers, self.kv_heads, capacity, config.head_dim, self.device, dtype
        )  # fmt: skip


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files have attention and feed-forward as layers of their own."""
    if (found := _PART.search(name)) is not None:
        number = int(found[1])
        part = {"attn_alpha": "lambda_1", "mlp_alpha": "lambda_2"}.get(found[2], ("self_attn", "mlp")[number % 2])
        name = f"{name[: found.start()]}layers.{number // 2}.{part}{name[found.end() :]}"
    name = f"model.{name.removeprefix('backbone.')}" if name.startswith("backbone.") else name
    return name.replace(".self_attn.g_proj.", ".self_attn.gate_proj.").replace(".embeddings.", ".embed_tokens.")


TASKS = {"causal-lm": DoryForCausalLM}

"""Ling (Ling Team 2025, arXiv 2503.05139) and Ling 2.0 (2025, arXiv 2510.22115): Llama's blocks with one projection of
queries, keys and values, and mixtures of experts beside those that every token has. Ling 2.0 has norms of each head's
queries and keys, rotary positions in half of each head, and experts chosen by sigmoids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, SelfAttention, Text, normalized_heads
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_choice, check_groups, require
from .loading.gguf import (
    BIAS_FORM,
    EXPERTS,
    KEYS,
    SHARED_EXPERTS,
    SIGMOID,
    Gguf,
    GgufForm,
    key_lengths,
    neighbouring_pairs,
    without_layers_ahead,
)
from .loading.stored import Stored
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("bailing_moe", "bailing_moe_v2")
SECOND = "bailing_moe_v2"
# What Ling 2.0 takes for granted.
USUAL_OF_SECOND = {
    "use_qk_norm": True, "score_function": "sigmoid", "partial_rotary_factor": 0.5, "routed_scaling_factor": 2.5,
    "n_group": 8, "topk_group": 4, "first_k_dense_replace": 1,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. norm_head: whether the columns of the head get the length 1."""

    model_type = "bailing_moe"
    defaults = {"max_position_embeddings": 16384}

    kind: str = "bailing_moe"  # Ling, or bailing_moe_v2: Ling 2.0
    intermediate_size: int
    moe_intermediate_size: int
    moe_shared_expert_intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    use_qkv_bias: bool = False
    use_bias: bool = False
    use_qk_norm: bool = False
    num_experts: int = 64
    num_shared_experts: int = 0
    num_experts_per_tok: int = 6
    first_k_dense_replace: int = 0
    norm_topk_prob: bool = True
    score_function: str = "softmax"
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_head: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the defaults of the kind, which files say by the name of their class, too."""
        kind, classes = values.get("kind", values.get("model_type")), values.get("architectures")
        named = isinstance(classes, list) and any("V2" in str(name) for name in classes)
        second = kind == SECOND or named or values.get("score_function") == "sigmoid"
        usual = {"moe_shared_expert_intermediate_size": values.get("moe_intermediate_size")}
        usual |= USUAL_OF_SECOND if second else {}
        rotary = dict(values["rope_parameters"])
        rotary.setdefault("partial_rotary_factor", 0.5 if second else 1.0)
        return usual | values | {"kind": SECOND if second else cls.model_type, "rope_parameters": rotary}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        check_groups(self.num_experts, self.n_group, self.topk_group)
        known = self.score_function in ("softmax", "sigmoid")
        require(known, f"score_function is {self.score_function!r:.40}, expected softmax or sigmoid")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    @property
    def router(self) -> GroupedRouter:
        """A new router of a layer."""
        return GroupedRouter(
            self.hidden_size, self.num_experts, self.num_experts_per_tok, (self.n_group, self.topk_group),
            sigmoid=self.score_function == "sigmoid", normalized=self.norm_topk_prob,
            scaling=self.routed_scaling_factor,
        )  # fmt: skip


class Attention(SelfAttention):
    """Self-attention from one projection, with norms of queries and keys in some models."""

    tensor_parallel = {
        "query_key_value": ("outputs", "queries", "keys", "keys"), "dense": ("inputs", "queries"),
        "query_layernorm": ("between",), "key_layernorm": ("between",),
    }  # fmt: skip

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, size, epsilon = config.heads(), config.hidden_size, config.rms_norm_eps
        super().__init__(layer, heads, rotary)
        self.query_key_value = Linear(size, heads.width, bias=config.use_qkv_bias)
        self.dense = ResidualLinear(heads.heads * heads.head_dim, size, bias=config.use_bias)
        self.query_layernorm = RMSNorm(heads.head_dim, epsilon) if config.use_qk_norm else None
        self.key_layernorm = RMSNorm(heads.head_dim, epsilon) if config.use_qk_norm else None

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        qkv = self.query_key_value(x)
        if self.query_layernorm is not None and self.key_layernorm is not None:
            qkv = normalized_heads(qkv, self.heads, self.query_layernorm, self.key_layernorm)
        return self.dense(self.attend(qkv, text), residual)


def feed_forward(config: Config, layer: int) -> Module:
    """The feed-forward part of a layer."""
    size, act = config.hidden_size, config.hidden_act
    if layer < config.first_k_dense_replace:
        return GatedFeedForward(size, config.intermediate_size, act)
    count = config.num_shared_experts
    width = config.moe_shared_expert_intermediate_size * count
    shared = ("shared_experts", GatedFeedForward(size, width, act)) if count else None
    experts = Experts(size, config.moe_intermediate_size, config.num_experts, act)
    return RoutedFeedForward(config.router, experts, shared=shared)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        self.attention = Attention(config, layer, rotary)
        self.mlp = feed_forward(config, layer)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.attention(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return y


class BailingStack(DecoderStack):
    """The decoder, whose table of words has another name."""

    tokens = "word_embeddings"


class BailingMoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, Block, norm, stack=BailingStack)


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    return name.replace(".mlp.gate.expert_bias", ".mlp.gate.e_score_correction_bias")


def _unit_columns(matrix: Tensor) -> Tensor:
    matrix = matrix.to("float32")
    return matrix / ((matrix * matrix).sum(0, True).sqrt() + 1e-7)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts, each matrix by itself, and the head."""
    found = gated_experts_apart(config, tensors)
    if config.norm_head:
        found["lm_head.weight"] = Stored(("lm_head.weight",), values=_unit_columns)
    return found


# -- GGUF: the first has queries, keys and values apart, with neighbouring pairs


def _sizes(config: Config) -> tuple[int, int, int]:
    queries, keys = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    return queries, keys, keys


def _order(config: Config, part: int) -> list[int]:
    """The rows of a part, in the order of files."""
    sizes, heads = _sizes(config), (config.num_attention_heads, config.num_key_value_heads)
    rows = neighbouring_pairs(sizes[part], heads[part]) if part < 2 else list(range(sizes[part]))
    return [sum(sizes[:part]) + row for row in rows]


def _part(part: int) -> GgufForm:
    def shape(config: Config, whole: tuple[int, ...]) -> tuple[int, ...]:
        return _sizes(config)[part], *whole[1:]

    def write(config: Config, value: Tensor) -> Tensor:
        return ops.index_select(value, 0, ops.tensor(_order(config, part), dtype="int64", device=value.device))

    return GgufForm(shape=shape, write=write)


def _places(config: Config) -> list[int]:
    """Where each row of the model's is among those of the three tensors."""
    order = [row for part in range(3) for row in _order(config, part)]
    places = [0] * len(order)
    for place, row in enumerate(order):
        places[row] = place
    return places


def _from_gguf(kind: str) -> Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]:
    def read(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        there, inner = values["tensors"], found.get("moe_intermediate_size")
        fused = "blk.0.attn_qkv.bias" if kind == SECOND else "blk.0.attn_q.bias"
        score = "sigmoid" if values.get("expert_gating_func") == SIGMOID else "softmax"
        return {"intermediate_size": inner, "n_group": 1, "topk_group": 1} | without_layers_ahead(found, values) | {
            "kind": kind, "model_type": kind, "use_qkv_bias": fused in there, "score_function": score,
            "use_bias": "blk.0.attn_output.bias" in there, "use_qk_norm": "blk.0.attn_q_norm.weight" in there,
            "moe_shared_expert_intermediate_size": values.get("expert_shared_feed_forward_length", inner),
        }  # fmt: skip

    return read


def _to_gguf(config: Config) -> dict[str, Any]:
    return key_lengths(config) | {"expert_weights_scale": 1.0}


def _second_to_gguf(config: Config) -> dict[str, Any]:
    sigmoid = config.score_function == "sigmoid"
    return key_lengths(config) | {
        "expert_gating_func": SIGMOID if sigmoid else 1,
        "expert_shared_feed_forward_length": config.moe_shared_expert_intermediate_size,
    }  # fmt: skip


_PARTS = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "attention.dense": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_SECOND_PARTS = {
    "attention.query_key_value": "attn_qkv", "attention.query_layernorm": "attn_q_norm",
    "attention.key_layernorm": "attn_k_norm",
}  # fmt: skip
_LAYER = "model.layers.{}."
_WORDS = {"model.word_embeddings": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_NAMES = _WORDS | EXPERTS | SHARED_EXPERTS | {_LAYER + ours: f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()}
_JOINED = GgufForm(parts=(_part(0), _part(1), _part(2)), rows=_places)
GGUF = Gguf(
    "bailingmoe", read=_from_gguf("bailing_moe"), write=_to_gguf,
    unsaid=("norm_head", "routed_scaling_factor", "score_function", "moe_shared_expert_intermediate_size"),
    names=_NAMES | {_LAYER + "attention.query_key_value": "blk.{}.attn_q blk.{}.attn_k blk.{}.attn_v"},
    forms={".query_key_value.weight": _JOINED, ".query_key_value.bias": _JOINED},
    keys=KEYS | {
        "first_k_dense_replace": "leading_dense_block_count", "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count", "num_shared_experts": "expert_shared_count",
        "moe_intermediate_size": "expert_feed_forward_length", "norm_topk_prob": "expert_weights_norm",
    },
)  # fmt: skip
GGUF = replace(GGUF, others=(
    replace(
        GGUF, architecture="bailingmoe2", read=_from_gguf(SECOND), write=_second_to_gguf, unsaid=("norm_head",),
        names=_NAMES | {_LAYER + ours: f"blk.{{}}.{theirs}" for ours, theirs in _SECOND_PARTS.items()},
        forms={"gate.e_score_correction_bias": BIAS_FORM}, suits=lambda config: config.kind == SECOND,
        keys={
            **GGUF.keys, "routed_scaling_factor": "expert_weights_scale", "n_group": "expert_group_count",
            "topk_group": "expert_group_used_count",
        },
    ),
))  # fmt: skip
TASKS = {"causal-lm": BailingMoeForCausalLM}

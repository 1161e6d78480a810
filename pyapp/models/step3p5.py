"""Step 3.5 Flash (StepFun 2026, https://huggingface.co/stepfun-ai/Step-3.5-Flash), and the language model of Step 3.7:
three layers with a window and more heads for one without, gates of the attention's heads, experts chosen by sigmoids
with a bias beside one that every token has, and limits of what passes the gates of some layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable
from pyapp.nn.decoders.decoder_blocks import GatedOutputAttention, PreNormBlock
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward
from pyapp.nn.layers.gated import GatedFeedForward, activation_named
from pyapp.nn.layers.normalization import OffsetRMSNorm

from .loading.config import (
    DENSE,
    FULL,
    SLIDING,
    SPARSE,
    DecoderConfig,
    check_choice,
    check_form,
    check_kinds,
    layer_types,
    layers_in,
    require,
)
from .loading.gguf import (
    BIAS_FORM,
    EXPERTS,
    HEAD_NORMS,
    KEYS,
    NAMES,
    PATTERN,
    SHARED_EXPERTS,
    SIGMOID,
    WINDOW,
    Gguf,
    key_lengths,
    leading,
    without_layers_ahead,
)
from .loading.stored import Stored

MODEL_TYPES = ("step3p5",)
FIELDS = {  # of the first config.json
    "num_attention_groups": "num_key_value_heads", "moe_num_experts": "n_routed_experts",
    "moe_top_k": "num_experts_per_tok", "share_expert_dims": "share_expert_dim",
}  # fmt: skip
EACH = ("layer_types", "mlp_layer_types", "swiglu_limits", "swiglu_limits_shared")  # a value for each layer
ONLY = {"moe_router_activation": "sigmoid", "norm_expert_weight": True, "use_head_wise_attn_gate": True, "sink": False}


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. swiglu_limits: of the experts of each layer, and swiglu_limits_shared of all others;
    0: none.
    """

    model_type = "step3p5"
    defaults = {"max_position_embeddings": 128000, "num_key_value_heads": 8, "head_dim": 128}

    intermediate_size: int
    moe_intermediate_size: int = 1280
    share_expert_dim: int = 1280
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    num_sliding_attention_heads: int
    sliding_window: int | None = None
    layer_types: list[str]
    mlp_layer_types: list[str]
    n_routed_experts: int = 288
    num_experts_per_tok: int = 8
    moe_router_scaling_factor: float = 1.0
    swiglu_limits: list[float]
    swiglu_limits_shared: list[float]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; in the first one lists go on to the layers that guess tokens ahead."""
        check_form(values, ONLY)
        layers = layers_in(values)
        found = {FIELDS.get(name, name): value for name, value in values.items()}
        found |= {name: found[name][:layers] for name in EACH if isinstance(found.get(name), list)}
        kinds = layer_types(found, lambda layer: False)
        other: Any = found.get("attention_other_setting") or {}
        heads = other.get("num_attention_heads", found.get("num_attention_heads"))
        found.setdefault("num_sliding_attention_heads", heads)
        given: Any = found.get("rope_parameters")
        if not (isinstance(given, dict) and {*kinds} <= {*given}):
            found["rope_parameters"] = _rotary(found, kinds)
        for name in ("rope_theta", "rope_scaling", "partial_rotary_factors"):
            found.pop(name, None)
        return super().from_dict(found | {"layer_types": kinds})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with what each layer has."""
        layers = layers_in(values)
        sparse: Any = values.get("moe_layers_enum", range(3, layers))
        if isinstance(sparse, str):
            known = re.fullmatch(r"[\d, ]*", sparse) is not None
            require(known, f"moe_layers_enum is {sparse!r:.60}, expected numbers of layers")
            sparse = [int(one) for one in re.findall(r"\d+", sparse)]
        found = {"mlp_layer_types": [SPARSE if layer in sparse else DENSE for layer in range(layers)]} | values
        for name in EACH[2:]:
            limits = values.get(name) or [0.0] * layers
            found[name] = [0.0 if one is None else one for one in limits]
        return found

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, heads, keys = self.num_hidden_layers, self.num_sliding_attention_heads, self.num_key_value_heads
        check_choice(self.num_experts_per_tok, self.n_routed_experts)
        check_kinds("mlp_layer_types", self.mlp_layer_types, layers, DENSE, SPARSE)
        require(heads >= 1 and heads % keys == 0, f"{keys} heads of keys do not divide {heads} of queries in windows")
        for name in EACH[2:]:
            limits = getattr(self, name)
            known = len(limits) == layers and all(type(one) in (int, float) and one >= 0 for one in limits)
            require(known, f"{name} is {limits!r:.60}, expected {layers} numbers of 0 or more")
        require(SLIDING not in self.layer_types or self.sliding_window is not None, "sliding_window is null")


def _rotary(values: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    """The rotary positions of each kind of layers, of a config.json with a base and a share for each layer."""
    found: dict[str, Any] = {}
    shares: Any = values.get("partial_rotary_factors")
    for kind in {*kinds}:
        at, base = kinds.index(kind), values.get("rope_theta", 10000.0)
        own = {"rope_type": "default", "rope_theta": base[at] if isinstance(base, list) and at < len(base) else base}
        if isinstance(shares, list) and at < len(shares):
            own["partial_rotary_factor"] = shares[at]
        found[kind] = own | ((values.get("rope_scaling") or {}) if kind == FULL else {})
    return found


def _limited(x: Tensor, activation: str, limit: float) -> Tensor:
    """[gate, up] (..., 2 F) → activation(gate) up, both at most `limit` (..., F)."""
    gate, up = x.chunk(2, -1)
    return activation_named(activation)(gate).clamp(max=limit) * up.clamp(-limit, limit)


class LimitedExperts(Experts):
    """Experts with a limit of gate and values."""

    limit = inf

    def gated(self, x: Tensor) -> Tensor:
        return _limited(x, self.activation, self.limit) if self.limit < inf else super().gated(x)


class LimitedFeedForward(GatedFeedForward):
    """A gated feed-forward part with a limit of gate and values."""

    limit = inf

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., hidden_size) → residual + feed-forward, or the feed-forward alone (..., hidden_size)."""
        if self.limit == inf:
            return super().forward(x, residual)
        y: Tensor = self.down_proj(_limited(self.gate_up(self, x), self.activation, self.limit), residual)
        return y


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        size, epsilon, act, kind = config.hidden_size, config.rms_norm_eps, config.hidden_act, config.layer_types[layer]
        heads = config.heads()
        if kind == SLIDING:
            heads = replace(heads, heads=config.num_sliding_attention_heads, window=config.sliding_window)
        attention = GatedOutputAttention(
            layer, size, heads, rotary[kind], epsilon, ops.sigmoid, bias=config.attention_bias, norm=OffsetRMSNorm
        )
        sparse, limit = config.mlp_layer_types[layer] == SPARSE, config.swiglu_limits_shared[layer] or inf
        inner = config.share_expert_dim if sparse else config.intermediate_size
        own = LimitedFeedForward(size, inner, act, config.mlp_bias)
        own.limit = limit
        feed_forward: Module = own
        if sparse:
            router = GroupedRouter(
                size, config.n_routed_experts, config.num_experts_per_tok, epsilon=0.0,
                scaling=config.moe_router_scaling_factor,
            )  # fmt: skip
            experts = LimitedExperts(size, config.moe_intermediate_size, config.n_routed_experts, act)
            experts.limit = config.swiglu_limits[layer] or inf
            feed_forward = RoutedFeedForward(router, experts, shared=("shared_experts", own))
        super().__init__(attention, feed_forward, OffsetRMSNorm(size, epsilon), OffsetRMSNorm(size, epsilon))


class Step3p5ForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in {*config.layer_types}}
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = OffsetRMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


# -- files

_OLDER = {
    ".moe.gate.": ".mlp.gate.", ".moe.router_bias": ".mlp.gate.e_score_correction_bias",
    ".share_expert.": ".mlp.shared_experts.",
}  # fmt: skip


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    for older, own in _OLDER.items():
        name = name.replace(older, own)
    return name


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: stacks of gates and of values apart."""
    found: dict[str, Stored] = {}
    for layer in range(config.num_hidden_layers):
        moe, experts = (f"model.layers.{layer}.{path}" for path in ("moe", "mlp.experts"))
        if f"{moe}.gate_proj.weight" in tensors:
            both = f"{moe}.gate_proj.weight", f"{moe}.up_proj.weight"
            found[f"{experts}.gate_up_proj"] = Stored(both, join=partial(ops.cat, dim=1))
            found[f"{experts}.down_proj"] = Stored((f"{moe}.down_proj.weight",))
    return found


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    found = without_layers_ahead(found, values)
    layers, there = layers_in(found), values["tensors"]
    slides: Any = values.get(PATTERN)
    known = isinstance(slides, list) and len(slides) >= layers
    require(known, f"{PATTERN} is {slides!r:.60}, expected a value for each layer")
    kinds = [SLIDING if one else FULL for one in slides[:layers]]
    heads = found.get("num_attention_heads")
    counts = {kind: heads[kinds.index(kind)] if isinstance(heads, list) else heads for kind in {*kinds}}
    full, local = (counts.get(kind, next(iter(counts.values()))) for kind in (FULL, SLIDING))
    keys: Any = found.get("num_key_value_heads")
    rotary = found["rope_parameters"]
    base = values.get("rope.freq_base_swa", rotary["rope_theta"])
    half = rotary | {"partial_rotary_factor": rotary.get("partial_rotary_factor", 1.0) / 2}
    size = values.get("attention.key_length", found.get("head_dim"))
    for name in ("short_factor", "long_factor"):  # go on with ones for layers with a window
        if name in half and type(size) is int:
            half[name] = half[name][: int(size * half["partial_rotary_factor"]) // 2]
    sparse = [f"blk.{layer}.ffn_gate_inp.weight" in there for layer in range(layers)]
    limits = {name: values.get(key, [0.0] * layers) for name, key in _LIMITS.items()}
    return found | {name: list(own)[:layers] for name, own in limits.items()} | {
        "num_attention_heads": full, "num_sliding_attention_heads": local, "layer_types": kinds,
        "num_key_value_heads": keys[0] if isinstance(keys, list) and keys else keys,
        "mlp_layer_types": [SPARSE if one else DENSE for one in sparse], "head_dim": size,
        "rope_parameters": {
            FULL: half, SLIDING: {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": 1.0},
        },
    }  # fmt: skip


_LIMITS = {"swiglu_limits": "swiglu_clamp_exp", "swiglu_limits_shared": "swiglu_clamp_shexp"}


def _to_gguf(config: Config) -> dict[str, Any]:
    full, local = (config.rope_parameters.get(kind, {}) for kind in (FULL, SLIDING))
    shares = full.get("partial_rotary_factor", 0.5), local.get("partial_rotary_factor", 1.0)
    require(shares == (0.5, 1.0), f"llama.cpp rotates half a head, and whole ones in windows, not {shares}")
    heads = [
        config.num_sliding_attention_heads if kind == SLIDING else config.num_attention_heads
        for kind in config.layer_types
    ]
    limits = {key: [float(one) for one in getattr(config, name)] for name, key in _LIMITS.items()}
    return key_lengths(config) | limits | {
        "attention.head_count": heads, "rope.dimension_count": config.head_dim,
        "attention.head_count_kv": [config.num_key_value_heads] * config.num_hidden_layers,
        PATTERN: [kind == SLIDING for kind in config.layer_types], "expert_gating_func": SIGMOID,
        "rope.freq_base_swa": float(local.get("rope_theta", 10000.0)), "expert_weights_norm": True,
        "leading_dense_block_count": leading(config.mlp_layer_types, DENSE),
    }  # fmt: skip


GGUF = Gguf(
    "step35", offset="norm.weight", read=_from_gguf, write=_to_gguf, unsaid=("mlp_bias", "attention_bias"),
    names=NAMES | HEAD_NORMS | EXPERTS | SHARED_EXPERTS | {"model.layers.{}.self_attn.g_proj": "blk.{}.attn_gate"},
    forms={"gate.e_score_correction_bias": BIAS_FORM},
    keys=KEYS | WINDOW | {
        "n_routed_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "share_expert_dim": "expert_shared_feed_forward_length", "moe_router_scaling_factor": "expert_weights_scale",
    },
)  # fmt: skip
TASKS = {"causal-lm": Step3p5ForCausalLM}

"""MiMo-V2-Flash (Xiaomi 2026, arXiv 2601.02780): five layers with a window, sinks and twice the heads of keys for one
that sees the whole text; heads of values are smaller than those of keys; experts chosen by sigmoids with a bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import PreNormBlock
from pyapp.nn.heads import Heads
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.recurrent.hybrid import uneven_cache

from .loading.config import (
    DENSE,
    FULL,
    SLIDING,
    SPARSE,
    DecoderConfig,
    check_choice,
    check_groups,
    check_kinds,
    layer_types,
    layers_in,
    require,
)
from .loading.gguf import BIAS_FORM, EXPERTS, KEYS, LENGTHS, NAMES, PATTERN, WINDOW, Gguf, without_layers_ahead
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("mimo_v2_flash",)
IGNORED = r"(model\.)?mtp\..*"  # the layers that guess tokens ahead
ROTATED = 0.334  # the share of a head


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "mimo_v2_flash"
    defaults = {
        "max_position_embeddings": 131072, "num_key_value_heads": 4, "head_dim": 192, "sliding_window": 129,
        "rope_theta": 5000000.0,
    }  # fmt: skip

    intermediate_size: int
    moe_intermediate_size: int = 2048
    v_head_dim: int = 128
    swa_num_key_value_heads: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    attention_value_scale: float = 0.707
    sliding_window: int = 129
    layer_types: list[str]
    mlp_layer_types: list[str]
    n_routed_experts: int = 256
    num_experts_per_tok: int = 8
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        neutral = {"routed_scaling_factor": 1.0, "attention_value_scale": 1.0}  # what null means
        return super().from_dict({**values, **{name: x for name, x in neutral.items() if values.get(name, x) is None}})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of layers, also of the first config.json, which says them by numbers."""
        layers, found = layers_in(values), dict(values)
        for field, older, kinds in (
            ("layer_types", "hybrid_layer_pattern", (FULL, SLIDING)),
            ("mlp_layer_types", "moe_layer_freq", (DENSE, SPARSE)),
        ):  # fmt: skip
            given = values.get(older)
            if values.get(field) is None and given is not None:
                known = isinstance(given, list) and all(one in (0, 1) for one in given)
                require(known, f"{older} is {given!r:.60}, expected 0 or 1 for each layer")
                found[field] = [kinds[one] for one in given[:layers]]
        found["layer_types"] = layer_types(found, lambda layer: layer > 0 and (layer + 1) % 6 != 0)
        found.setdefault("mlp_layer_types", [DENSE, *[SPARSE] * (layers - 1)])
        found.setdefault("swa_num_key_value_heads", 2 * values["num_key_value_heads"])
        found.setdefault("rms_norm_eps", values.get("layernorm_epsilon", 1e-5))
        if type(before := values.get("sliding_window_size")) is int:
            found["sliding_window"] = before + 1  # tokens before each
        rotary = values["rope_parameters"]
        if "rope_type" in rotary:
            local = {"rope_type": "default", "rope_theta": values.get("swa_rope_theta", 10000.0)}
            share = rotary.get("partial_rotary_factor", ROTATED)
            rotary = {FULL: rotary, SLIDING: local | {"partial_rotary_factor": share}}
        usual = {"partial_rotary_factor": ROTATED}  # of plain angles only, as in transformers
        plain = {kind: own.get("rope_type", "default") == "default" for kind, own in rotary.items()}
        own = {kind: (usual if plain[kind] else {}) | parameters for kind, parameters in rotary.items()}
        return found | {"rope_parameters": own}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.n_routed_experts)
        check_groups(self.n_routed_experts, self.n_group, self.topk_group)
        check_kinds("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers, DENSE, SPARSE)
        heads, keys = self.num_attention_heads, self.swa_num_key_value_heads
        require(keys >= 1 and heads % keys == 0, f"swa_num_key_value_heads {keys} does not divide {heads} heads")
        fits = 1 <= self.v_head_dim <= self.head_dim
        require(fits, f"v_head_dim is {self.v_head_dim}, expected 1 to head_dim {self.head_dim}")

    def kv_heads(self, layer: int) -> int:
        """The heads of keys of a layer."""
        return self.swa_num_key_value_heads if self.layer_types[layer] == SLIDING else self.num_key_value_heads

    def attention(self, layer: int) -> Heads:
        """The attention of a layer."""
        window = self.sliding_window if self.layer_types[layer] == SLIDING else None
        return replace(self.heads(window=window), kv_heads=self.kv_heads(layer))


class Attention(GroupedQueryAttention):
    """Self-attention whose heads of values have their own size, with sinks (nn.decoders.decoder_blocks.SinkAttention)
    in layers with a window. In the cache values are filled up with zeros to the size of the keys.
    """

    tensor_parallel: Mapping[str, tuple[str, ...]] = {}  # every process has the whole of it: values have another size

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, size = config.attention(layer), config.hidden_size
        super().__init__(layer, size, heads, rotary, bias=config.attention_bias, output_bias=False)
        self.value_dim, self.value_scale = config.v_head_dim, config.attention_value_scale
        self.v_proj = Linear(size, heads.kv_heads * self.value_dim, bias=config.attention_bias)
        self.o_proj = ResidualLinear(heads.heads * self.value_dim, size, bias=False)
        self.sinks = None if heads.window is None else new_parameter(ops.zeros, heads.heads)

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        heads, before, all_keys = self.heads, x.shape[:-1], (self.heads.heads + self.heads.kv_heads)
        qkv = self.qkv(self, x)
        values = qkv.narrow(-1, all_keys * heads.head_dim, heads.kv_heads * self.value_dim) * self.value_scale
        values = values.reshape(*before, heads.kv_heads, self.value_dim)
        rest = (*before, heads.kv_heads, heads.head_dim - self.value_dim)
        values = ops.cat([values, ops.zeros(*rest, dtype=x.dtype, device=x.device)], -1)
        keys = qkv.narrow(-1, 0, all_keys * heads.head_dim)
        qkv = ops.cat([keys, values.reshape(*before, heads.kv_heads * heads.head_dim)], -1)
        heads = heads if self.sinks is None else replace(heads, sinks=self.sinks)
        y = text.attention(self.layer, qkv, heads, self.rotary).reshape(*before, heads.heads, heads.head_dim)
        y = y.narrow(-1, 0, self.value_dim).reshape(*before, heads.heads * self.value_dim)
        out: Tensor = self.o_proj(y, residual)
        return out


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        size, epsilon, act = config.hidden_size, config.rms_norm_eps, config.hidden_act
        feed_forward: Module = GatedFeedForward(size, config.intermediate_size, act)
        if config.mlp_layer_types[layer] == SPARSE:
            router = GroupedRouter(
                size, config.n_routed_experts, config.num_experts_per_tok, (config.n_group, config.topk_group),
                normalized=config.norm_topk_prob, scaling=config.routed_scaling_factor,
            )  # fmt: skip
            experts = Experts(size, config.moe_intermediate_size, config.n_routed_experts, act)
            feed_forward = RoutedFeedForward(router, experts)
        attention = Attention(config, layer, rotary[config.layer_types[layer]])
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class MiMoV2FlashForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in {*config.layer_types}}
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        """The caches of both kinds of layers."""
        config = self.config
        sizes = [(layer.self_attn.heads.kv_heads, config.head_dim) for layer in self.stack.layers]
        return uneven_cache(sizes, texts, capacity, self.device, dtype)


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    return name.replace(".self_attn.attention_sink_bias", ".self_attn.sinks")


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    parts = "gate_proj", "up_proj", "down_proj"
    return experts_apart(tensors, "mlp.experts", parts, config.n_routed_experts, config.num_hidden_layers)


# -- files


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    found = without_layers_ahead(found, values)
    layers, there = layers_in(found), values["tensors"]
    slides: Any = values.get(PATTERN)
    keys: Any = values.get("attention.head_count_kv")
    known = isinstance(slides, list) and len(slides) >= layers
    require(known, f"{PATTERN} is {slides!r:.60}, expected a value for each layer")
    kinds = [SLIDING if one else FULL for one in slides[:layers]]
    counts = {kind: keys[kinds.index(kind)] if isinstance(keys, list) else keys for kind in {*kinds}}
    full, local = (counts.get(kind, max(counts.values())) for kind in (FULL, SLIDING))
    rotary = found["rope_parameters"]
    base = {"rope_theta": values.get("rope.freq_base_swa", rotary["rope_theta"])}
    sparse = [f"blk.{layer}.ffn_gate_inp.weight" in there for layer in range(layers)]
    return found | {
        "layer_types": kinds, "num_key_value_heads": full, "swa_num_key_value_heads": local,
        "mlp_layer_types": [SPARSE if one else DENSE for one in sparse],
        "rope_parameters": {FULL: rotary, SLIDING: rotary | base}, "n_group": 1, "topk_group": 1,
        "attention_value_scale": values.get("attention.value_scale", 1.0), "v_head_dim": values.get(LENGTHS[1]),
        "routed_scaling_factor": values.get("expert_weights_scale") or 1.0,
        "attention_bias": "blk.0.attn_q.bias" in there,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    slides = [kind == SLIDING for kind in config.layer_types]
    full, local = (config.rope_parameters.get(kind, {}) for kind in (FULL, SLIDING))
    same = all(
        local.get(name, full.get(name)) == full.get(name) for name in ("rope_type", "partial_rotary_factor", "factor")
    )
    plain = config.n_group == 1 and config.norm_topk_prob and config.routed_scaling_factor == 1 and same
    require(plain, "llama.cpp knows no groups and no scale of experts, and one kind of rotary positions here")
    return dict(zip(LENGTHS, (config.head_dim, config.v_head_dim), strict=True)) | {
        "attention.head_count_kv": [config.kv_heads(layer) for layer in range(config.num_hidden_layers)],
        PATTERN: slides, "rope.freq_base_swa": float(local.get("rope_theta", 10000.0)),
        "attention.value_scale": config.attention_value_scale,
    }  # fmt: skip


GGUF = Gguf(
    "mimo2", read=_from_gguf, write=_to_gguf,
    names=NAMES | EXPERTS | {
        "model.layers.{}.mlp.gate.e_score_correction_bias": "blk.{}.exp_probs_b.bias",
        "model.layers.{}.self_attn.sinks": "blk.{}.attn_sinks",
    },
    forms={"gate.e_score_correction_bias": BIAS_FORM},
    keys={name: key for name, key in (KEYS | WINDOW).items() if name != "num_key_value_heads"} | {
        "n_routed_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
    },
)  # fmt: skip
TASKS = {"causal-lm": MiMoV2FlashForCausalLM}

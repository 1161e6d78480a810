"""Laguna (Poolside 2026, https://huggingface.co/poolside/Laguna-XS.2): attention whose result gates multiply, with
other numbers of heads in layers with a window; experts chosen by sigmoids beside one that every token has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable, soft_capped
from pyapp.nn.decoders.decoder_blocks import GatedOutputAttention, PreNormBlock
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

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
)
from .loading.stored import Stored
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("laguna",)
ROTARY = {
    FULL: {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
}  # where config.json says nothing


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. gating: "per-head" or true, or "per-element"."""

    model_type = "laguna"
    defaults = {
        "max_position_embeddings": 131072, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
        "sliding_window": 512,
    }  # fmt: skip

    intermediate_size: int = 8192
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    gating: str = "per-head"
    num_attention_heads_per_layer: list[int]
    sliding_window: int | None = None
    layer_types: list[str]
    mlp_layer_types: list[str]
    num_experts: int = 256
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    moe_routed_scaling_factor: float = 1.0
    moe_router_logit_softcapping: float = 0.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        return super().from_dict(values if values.get("rope_parameters") else {**values, "rope_parameters": ROTARY})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with what each layer has."""
        check_form(values, {"moe_apply_router_weight_on_input": False})
        layers, rotary = layers_in(values), values["rope_parameters"]
        usual = {
            "mlp_layer_types": [DENSE, *[SPARSE] * (layers - 1)],
            "num_attention_heads_per_layer": [values["num_attention_heads"]] * layers,
        }
        rotary = {FULL: rotary, SLIDING: rotary} if "rope_type" in rotary else rotary
        own = {"layer_types": layer_types(values, lambda layer: False), "rope_parameters": rotary}
        return usual | values | own | ({"gating": "per-head"} if values.get("gating") is True else {})

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, counts, keys = self.num_hidden_layers, self.num_attention_heads_per_layer, self.num_key_value_heads
        check_choice(self.num_experts_per_tok, self.num_experts)
        check_kinds("mlp_layer_types", self.mlp_layer_types, layers, DENSE, SPARSE)
        known = len(counts) == layers and all(type(n) is int and n >= 1 and n % keys == 0 for n in counts)
        require(known, f"num_attention_heads_per_layer is {counts!r:.60}, expected {layers} multiples of {keys}")
        require(
            self.gating in ("per-head", "per-element"),
            f"gating is {self.gating!r:.40}, expected per-head or per-element",
        )
        require(SLIDING not in self.layer_types or self.sliding_window is not None, "sliding_window is null")

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == SLIDING else None


class CappedRouter(GroupedRouter):
    """A router whose logits are softly capped."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            config.hidden_size, config.num_experts, config.num_experts_per_tok, epsilon=0.0,
            scaling=config.moe_routed_scaling_factor,
        )  # fmt: skip
        self.cap = config.moe_router_logit_softcapping or None

    def logits(self, x: Tensor) -> Tensor:
        return soft_capped(super().logits(x), self.cap)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        size, epsilon, act = config.hidden_size, config.rms_norm_eps, config.hidden_act
        heads = replace(config.heads(window=config.window(layer)), heads=config.num_attention_heads_per_layer[layer])
        attention = GatedOutputAttention(
            layer, size, heads, rotary[config.layer_types[layer]], epsilon, ops.softplus,
            config.gating == "per-element", bias=config.attention_bias,
        )  # fmt: skip
        feed_forward: Module = GatedFeedForward(size, config.intermediate_size, act)
        if config.mlp_layer_types[layer] == SPARSE:
            experts = Experts(size, config.moe_intermediate_size, config.num_experts, act)
            shared = GatedFeedForward(size, config.shared_expert_intermediate_size, act)
            feed_forward = RoutedFeedForward(CappedRouter(config), experts, shared=("shared_experts", shared))
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class LagunaForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in {*config.layer_types}}
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    name = name.replace(".mlp.experts.e_score_correction_bias", ".mlp.gate.e_score_correction_bias")
    return name.replace(".mlp.shared_expert.", ".mlp.shared_experts.")


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    return gated_experts_apart(config, tensors)


# -- files


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    layers, there, heads = layers_in(found), values["tensors"], found.get("num_attention_heads")
    counts = heads if isinstance(heads, list) else [heads] * layers
    usual = [layer % 4 != 0 for layer in range(layers)]  # where a file says a window and nothing more
    slides: Any = values.get(PATTERN, usual)
    windows = bool(found.get("sliding_window")) and isinstance(slides, list)
    dense, gate = values.get("leading_dense_block_count", 0), there.get("blk.0.attn_gate.weight")
    full, size = found["rope_parameters"], values.get("attention.key_length", found.get("head_dim"))
    turned = values.get("rope.dimension_count_swa", values.get("rope.dimension_count", size))
    known = type(size) is int and type(turned) is int and 0 < turned <= size and all(type(n) is int for n in counts)
    require(known, f"rotary positions of {turned!r:.40} features in heads of {size!r:.40}, {counts!r:.40} of them")
    local = {
        "rope_type": "default", "rope_theta": values.get("rope.freq_base_swa", full["rope_theta"]),
        "partial_rotary_factor": turned / size,
    }  # fmt: skip
    wide = gate is not None and counts[0] * size in gate.shape and counts[0] not in gate.shape
    return found | {
        "num_attention_heads": max(counts), "num_attention_heads_per_layer": counts, "head_dim": size,
        "layer_types": [SLIDING if windows and one else FULL for one in slides[:layers]],
        "mlp_layer_types": [DENSE if layer < dense else SPARSE for layer in range(layers)],
        "rope_parameters": {FULL: full, SLIDING: local}, "gating": "per-element" if wide else "per-head",
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    slides = [kind == SLIDING for kind in config.layer_types]
    local = config.rope_parameters.get(SLIDING, {})
    plain = not any(slides) or local.get("rope_type", "default") == "default"
    require(plain and not config.moe_router_logit_softcapping, "llama.cpp knows no such positions and no soft cap here")
    windows = {
        PATTERN: slides, "rope.freq_base_swa": float(local.get("rope_theta", 10000.0)),
        "rope.dimension_count_swa": int(config.head_dim * local.get("partial_rotary_factor", 1.0)),
    }  # fmt: skip
    return key_lengths(config) | (windows if any(slides) else {"attention.sliding_window": None}) | {
        "attention.head_count": config.num_attention_heads_per_layer, "expert_gating_func": SIGMOID,
        "leading_dense_block_count": leading(config.mlp_layer_types, DENSE), "expert_weights_norm": True,
    }  # fmt: skip


GGUF = Gguf(
    "laguna", read=_from_gguf, write=_to_gguf, unsaid=("num_attention_heads", "sliding_window"),
    names=NAMES | HEAD_NORMS | EXPERTS | SHARED_EXPERTS | {"model.layers.{}.self_attn.g_proj": "blk.{}.attn_gate"},
    forms={"gate.e_score_correction_bias": BIAS_FORM},
    keys=KEYS | WINDOW | {
        "num_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
        "moe_routed_scaling_factor": "expert_weights_scale",
    },
)  # fmt: skip
TASKS = {"causal-lm": LagunaForCausalLM}

"""Hunyuan 3 (Tencent 2026, https://huggingface.co/tencent/Hy3-preview): Llama's blocks with normalised queries and
keys, and experts chosen by sigmoids with a bias, beside those that every token has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import BiasedFeedForward, Experts, GroupedRouter
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DENSE, SPARSE, DecoderConfig, check_choice, check_form, check_kinds, layers_in, require
from .loading.gguf import (
    BIAS_FORM,
    EXPERTS,
    HEAD_NORMS,
    KEYS,
    NAMES,
    SHARED_EXPERTS,
    SIGMOID,
    Gguf,
    key_lengths,
    leading,
    without_layers_ahead,
)
from .loading.stored import renaming
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("hy_v3",)
IGNORED = r"(model\.)?layers\.80\..*"  # the layer that guesses tokens ahead
RENAMES = {
    ".mlp.router.gate.": ".mlp.gate.", ".mlp.expert_bias": ".mlp.e_score_correction_bias",
    ".mlp.shared_mlp.": ".mlp.shared_experts.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "hy_v3"
    defaults = {
        "max_position_embeddings": 131072, "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 11_158_840.0,
    }  # fmt: skip

    intermediate_size: int
    moe_intermediate_size: int = 1536
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_experts: int
    num_experts_per_tok: int = 8
    num_shared_experts: int = 1
    router_scaling_factor: float = 2.826
    mlp_layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers, of which the first has no experts."""
        check_form({name: value for name, value in values.items() if value is not None}, {
            "mlp_bias": False, "route_norm": True,
        })  # fmt: skip
        count = layers_in(values)
        first = values.get("first_k_dense_replace", 1)
        require(type(first) is int and first >= 0, f"first_k_dense_replace is {first!r:.40}")
        experts = {"num_experts": values.get("num_experts", values.get("num_local_experts", 192))}
        return {"mlp_layer_types": [DENSE if i < first else SPARSE for i in range(count)]} | values | experts

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        check_kinds("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers, DENSE, SPARSE)


def feed_forward(config: Config, layer: int) -> Module:
    """The feed-forward part of a layer."""
    size, act, inner = config.hidden_size, config.hidden_act, config.moe_intermediate_size
    if config.mlp_layer_types[layer] == DENSE:
        return GatedFeedForward(size, config.intermediate_size, act)
    router = GroupedRouter(
        size, config.num_experts, config.num_experts_per_tok, scaling=config.router_scaling_factor, biased=False
    )
    shared = "shared_experts", GatedFeedForward(size, inner * config.num_shared_experts, act)
    return BiasedFeedForward(router, Experts(size, inner, config.num_experts, act), shared=shared)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = HeadNormAttention(layer, size, config.heads(), rotary, epsilon, bias=config.attention_bias)
        super().__init__(attention, feed_forward(config, layer), RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class HYV3ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


renamed = renaming(RENAMES)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers have experts."""
    found, there = without_layers_ahead(found, values), values["tensors"]
    layers = range(layers_in(found))
    inner, shared = found.get("moe_intermediate_size"), values.get("expert_shared_feed_forward_length")
    own = {"num_shared_experts": shared // inner} if type(inner) is int and type(shared) is int and inner > 0 else {}
    kinds = [SPARSE if f"blk.{i}.ffn_gate_inp.weight" in there else DENSE for i in layers]
    return {"intermediate_size": inner} | found | own | {"mlp_layer_types": kinds}


def _to_gguf(config: Config) -> dict[str, Any]:
    first = leading(config.mlp_layer_types, DENSE)
    return key_lengths(config) | {
        "leading_dense_block_count": first, "expert_gating_func": SIGMOID, "expert_weights_norm": True,
        "expert_shared_feed_forward_length": config.moe_intermediate_size * config.num_shared_experts,
    }  # fmt: skip


GGUF = Gguf(
    "hy_v3", read=_from_gguf, write=_to_gguf, forms={".e_score_correction_bias": BIAS_FORM},
    names=NAMES | HEAD_NORMS | EXPERTS | SHARED_EXPERTS | {
        "model.layers.{}.mlp.e_score_correction_bias": "blk.{}.exp_probs_b",
    },
    keys=KEYS | {
        "num_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length", "router_scaling_factor": "expert_weights_scale",
    },
)  # fmt: skip

stored = gated_experts_apart
TASKS = {"causal-lm": HYV3ForCausalLM}

"""K-EXAONE (LG AI Research 2026, arXiv 2601.01739): EXAONE 4's attention, with windows and rotary positions in three of
four layers, in blocks with norms before each part; mixtures of experts chosen by sigmoids beside one that every token
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DENSE, SPARSE, DecoderConfig, check_choice, check_groups, check_kinds, layer_types, require
from .loading.gguf import (
    BIAS_FORM,
    EXPERTS,
    HEAD_NORMS,
    KEYS,
    NAMES,
    SHARED_EXPERTS,
    SIGMOID,
    WINDOW,
    Gguf,
    key_lengths,
    leading,
    without_layers_ahead,
)
from .loading.stored import Stored
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("exaone_moe",)
IGNORED = r"(model\.)?mtp\..*"  # the layers that guess tokens ahead
BIAS = "e_score_correction_bias"
PATTERN = "attention.sliding_window_pattern"


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "exaone_moe"
    defaults = {"max_position_embeddings": 2048, "sliding_window": 4096}

    intermediate_size: int
    moe_intermediate_size: int = 1024
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    sliding_window: int | None = None
    layer_types: list[str]
    mlp_layer_types: list[str]
    num_experts: int = 64
    num_experts_per_tok: int = 8
    num_shared_experts: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.5
    n_group: int = 1
    topk_group: int = 1

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers."""
        every = values.get("sliding_window_pattern", 4)
        letters = isinstance(every, str) and every != "" and {*every} <= {"L", "G"}
        number, windows = type(every) is int and every >= 1, values.get("sliding_window") is not None
        require(
            number or letters or not windows, f"sliding_window_pattern is {every!r:.40}, expected L and G, or above 0"
        )

        def slides(layer: int) -> bool:
            if isinstance(every, str):
                return every[layer % len(every)] == "L" and layer < values["num_hidden_layers"] - 1
            return (layer + 1) % every != 0

        kinds = layer_types(values, lambda layer: windows and slides(layer))
        first = values.get("first_k_dense_replace", 1)
        parts = [DENSE if type(first) is int and layer < first else SPARSE for layer in range(len(kinds))]
        given = values.get("mlp_layer_types")
        return values | {"layer_types": kinds, "mlp_layer_types": parts if given is None else given}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        check_kinds("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers, DENSE, SPARSE)
        check_groups(self.num_experts, self.n_group, self.topk_group)

    @property
    def router(self) -> GroupedRouter:
        """A new router of a layer."""
        return GroupedRouter(
            self.hidden_size, self.num_experts, self.num_experts_per_tok, (self.n_group, self.topk_group),
            normalized=self.norm_topk_prob, scaling=self.routed_scaling_factor,
        )  # fmt: skip


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, act = config.hidden_size, config.rms_norm_eps, config.hidden_act
        slides = config.layer_types[layer] == "sliding_attention"
        heads = config.heads(window=config.sliding_window if slides else None)
        placed = rotary if slides or config.sliding_window is None else None
        attention = HeadNormAttention(layer, size, heads, placed, epsilon)
        feed_forward: Module = GatedFeedForward(size, config.intermediate_size, act)
        if config.mlp_layer_types[layer] == SPARSE:
            inner, count = config.moe_intermediate_size, config.num_shared_experts
            experts = Experts(size, inner, config.num_experts, act)
            shared = "shared_experts", GatedFeedForward(size, inner * count, act)
            feed_forward = RoutedFeedForward(config.router, experts, shared=shared)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class ExaoneMoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    found, pattern = without_layers_ahead(found, values), values.get(PATTERN)
    layers = found.get("num_hidden_layers")
    if isinstance(pattern, list) and type(layers) is int:
        kinds = ["sliding_attention" if slides else "full_attention" for slides in pattern]
        found = found | {"layer_types": kinds[:layers]}
    return {"n_group": 1, "topk_group": 1} | found


def _to_gguf(config: Config) -> dict[str, Any]:
    first = leading(config.mlp_layer_types, DENSE)
    require(config.sliding_window is not None, "llama.cpp has no model of this architecture without windows")
    return key_lengths(config) | {
        "leading_dense_block_count": first, "expert_gating_func": SIGMOID,
        "expert_shared_feed_forward_length": config.moe_intermediate_size * config.num_shared_experts,
        PATTERN: [kind == "sliding_attention" for kind in config.layer_types],
    }  # fmt: skip


GGUF = Gguf(
    "exaone-moe", read=_from_gguf, write=_to_gguf, scalings=("llama3",),
    names=NAMES | HEAD_NORMS | EXPERTS | SHARED_EXPERTS,
    forms={"gate.e_score_correction_bias": BIAS_FORM},
    keys=KEYS | WINDOW | {
        "first_k_dense_replace": "leading_dense_block_count", "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count", "num_shared_experts": "expert_shared_count",
        "moe_intermediate_size": "expert_feed_forward_length", "routed_scaling_factor": "expert_weights_scale",
        "norm_topk_prob": "expert_weights_norm", "n_group": "expert_group_count",
        "topk_group": "expert_group_used_count",
    },
)  # fmt: skip


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How published files store the experts, each matrix by itself, and the biases of their choice, beside the
    routers.
    """
    found = gated_experts_apart(config, tensors)
    for layer in range(config.num_hidden_layers):
        beside = f"model.layers.{layer}.mlp.{BIAS}"
        if beside in tensors:
            found[f"model.layers.{layer}.mlp.gate.{BIAS}"] = Stored((beside,))
    return found


TASKS = {"causal-lm": ExaoneMoeForCausalLM}

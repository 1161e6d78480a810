"""K-EXAONE (LG AI Research 2026): EXAONE 4's attention with windows in three of four layers, norms before attention and
feed-forward, and experts chosen by sigmoids beside an expert that every token has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import GroupedRouter, SharedExpertsFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from . import exaone4
from .loading.config import check_choice, require
from .loading.weights import Stored, experts_apart

MODEL_TYPES = ("exaone_moe",)
IGNORED = r"mtp\..*"  # the layer that guesses tokens ahead
BIAS = "e_score_correction_bias"
KINDS = ("dense", "sparse")


@dataclass(frozen=True, kw_only=True)
class Config(exaone4.Config):
    """The fields of config.json. mlp_layer_types: "dense" or "sparse" (experts) for each layer."""

    model_type = "exaone_moe"

    moe_intermediate_size: int = 1024
    num_experts: int = 64
    num_experts_per_tok: int = 8
    num_shared_experts: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.5
    n_group: int = 1
    topk_group: int = 1
    mlp_layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers."""
        values = super().adjusted(values)
        layers, dense = values.get("num_hidden_layers"), values.get("first_k_dense_replace", 1)
        kinds = values.get("mlp_layer_types")
        if kinds is None and type(layers) is int and type(dense) is int:
            kinds = ["dense" if layer < dense else "sparse" for layer in range(layers)]
        known = isinstance(kinds, list) and len(kinds) == layers and all(kind in KINDS for kind in kinds)
        require(known, f"mlp_layer_types is {kinds!r:.60}, expected {' or '.join(KINDS)} for each of {layers!r} layers")
        return values | {"mlp_layer_types": kinds}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        experts, groups = self.num_experts, self.n_group
        fits = experts % groups == 0 and self.topk_group <= groups and (groups == 1 or experts >= 2 * groups)
        require(fits, f"n_group {groups} and topk_group {self.topk_group} do not fit {experts} experts")

    @property
    def n_routed_experts(self) -> int:
        """The experts that a router chooses from."""
        return self.num_experts

    @property
    def n_shared_experts(self) -> int:
        """The experts that every token has."""
        return self.num_shared_experts


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        if config.mlp_layer_types[layer] == "dense":
            feed_forward: Module = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        else:
            router = GroupedRouter(
                size, config.num_experts, config.num_experts_per_tok, (config.n_group, config.topk_group),
                normalized=config.norm_topk_prob, scaling=config.routed_scaling_factor,
            )  # fmt: skip
            feed_forward = SharedExpertsFeedForward(config, router)
        attention = exaone4.attention(config, layer, rotary)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class ExaoneMoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts, each matrix by itself, and the biases of their choice, beside the
    routers.
    """
    found = experts_apart(
        tensors, "mlp.experts", ("gate_proj", "up_proj", "down_proj"), config.num_experts, config.num_hidden_layers
    )
    layers = (f"model.layers.{layer}.mlp." for layer in range(config.num_hidden_layers))
    beside = {f"{layer}gate.{BIAS}": f"{layer}{BIAS}" for layer in layers}
    return found | {ours: Stored((theirs,)) for ours, theirs in beside.items() if theirs in tensors}


TASKS = {"causal-lm": ExaoneMoeForCausalLM}

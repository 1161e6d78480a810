"""ERNIE 4.5 with experts (Baidu 2025): ERNIE 4.5's blocks with mixtures of experts, chosen with a bias for each, beside
experts that every token has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops import zeros
from pyapp.nn import Module, Parameter, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, RoutedFeedForward, Router
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, require
from .loading.gguf import EXPERTS, KEYS, NAMES, SHARED_EXPERTS, Gguf, GgufForm
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("ernie4_5_moe",)
IGNORED = r"(model\.)?mtp_.*"  # the layers that guess tokens ahead


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. Layers from moe_layer_start_index to moe_layer_end_index have experts, each
    moe_layer_interval-th.
    """

    model_type = "ernie4_5_moe"
    defaults = {
        "max_position_embeddings": 131072, "rope_theta": 500000.0, "num_key_value_heads": 4,
        "tie_word_embeddings": True,
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    use_bias: bool = False
    moe_intermediate_size: int = 1536
    moe_k: int = 6
    moe_num_experts: int = 64
    moe_num_shared_experts: int = 0
    moe_layer_start_index: int = 0
    moe_layer_end_index: int = 0
    moe_layer_interval: int = 1
    moe_norm_min: float = 1e-12

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the defaults of the experts, and the last layer that has some (-1: that of the model)."""
        given = {"moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": -1} | values
        layers = given.get("num_hidden_layers")
        if given["moe_layer_end_index"] == -1 and type(layers) is int:
            given["moe_layer_end_index"] = layers - 1
        return given

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen, experts = self.moe_k, self.moe_num_experts
        require(chosen <= experts <= 1 << 12, f"moe_k is {chosen}, of moe_num_experts {experts:,}")
        require(self.moe_num_shared_experts <= 1 << 12, f"moe_num_shared_experts is {self.moe_num_shared_experts:,}")

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer has experts."""
        inside = self.moe_layer_start_index <= layer <= self.moe_layer_end_index
        return inside and (layer + 1) % self.moe_layer_interval == 0


class Statistics(Module):
    """The bias of each expert, which counts for the choice alone and gets no gradient."""

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.e_score_correction_bias = Parameter(zeros(1, experts), requires_grad=False)


class ErnieRouter(Router):
    """Chooses the experts with the largest softmax plus bias."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.moe_num_experts, config.moe_k)
        self.moe_statics = Statistics(config.moe_num_experts)
        self.least = config.moe_norm_min

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (N, D) → shares (N, count) and experts (N, count) int64."""
        scores = ops.linear(x, self.weight).softmax(-1)  # (N, E)
        chosen = (scores + self.moe_statics.e_score_correction_bias).topk(self.count, -1)[1]
        shares = scores.gather(1, chosen)
        return shares / shares.sum(-1, True).clamp(min=self.least), chosen


def feed_forward(config: Config, layer: int) -> Module:
    """The feed-forward part of a layer."""
    size, inner, act, bias = config.hidden_size, config.moe_intermediate_size, config.hidden_act, config.use_bias
    if not config.is_sparse(layer):
        return GatedFeedForward(size, config.intermediate_size, act, bias)
    count = config.moe_num_shared_experts
    shared = ("shared_experts", GatedFeedForward(size, inner * count, act, bias)) if count else None
    return RoutedFeedForward(ErnieRouter(config), Experts(size, inner, config.moe_num_experts, act), shared=shared)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, heads = config.hidden_size, config.rms_norm_eps, config.heads(interleaved=True)
        attention = GroupedQueryAttention(layer, size, heads, rotary, bias=config.use_bias)
        super().__init__(attention, feed_forward(config, layer), RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Ernie45MoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps), bias=config.use_bias)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files have the bias of the choice beside the router."""
    return name.replace(".mlp.moe_statics.", ".mlp.gate.moe_statics.")


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    parts = "gate_proj", "up_proj", "down_proj"
    return experts_apart(tensors, "mlp.experts", parts, config.moe_num_experts, config.num_hidden_layers)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    shared, inner = values.get("expert_shared_feed_forward_length", 0), found.get("moe_intermediate_size")
    whole = type(shared) is int and type(inner) is int and inner > 0
    return {"moe_num_shared_experts": shared // inner if whole else 0} | found | {
        "use_bias": "blk.0.attn_q.bias" in values["tensors"],
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    return {"expert_shared_feed_forward_length": config.moe_num_shared_experts * config.moe_intermediate_size}


_BIAS = {"model.layers.{}.mlp.gate.moe_statics.e_score_correction_bias": "blk.{}.exp_probs_b.bias"}
GGUF = Gguf(
    "ernie4_5-moe", read=_from_gguf, write=_to_gguf, unsaid=("moe_norm_min",),
    names=NAMES | EXPERTS | SHARED_EXPERTS | _BIAS,
    keys=KEYS | {
        "moe_num_experts": "expert_count", "moe_k": "expert_used_count",
        "moe_num_shared_experts": "expert_shared_count",
        "moe_intermediate_size": "expert_feed_forward_length", "moe_layer_interval": "interleave_moe_layer_step",
        "moe_layer_start_index": "leading_dense_block_count",
    },
    forms={"e_score_correction_bias": GgufForm(True, lambda config, shape: shape[1:])},
)  # fmt: skip
TASKS = {"causal-lm": Ernie45MoeForCausalLM}

"""AFMoE, the architecture of Trinity (Arcee AI 2025, https://huggingface.co/arcee-ai/Trinity-Mini): blocks with norms
on both sides of each part. Projections of its input gate the attention; only layers with a window have rotary
positions; sigmoids choose among the experts, beside those that every token has.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, Parameter, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, RootScaledStack, RotaryLanguageModel, SandwichNormBlock
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import SLIDING, DecoderConfig, check_choice, layer_types, require
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
)
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("afmoe",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "afmoe"
    defaults = {"max_position_embeddings": 16384, "head_dim": 128, "num_dense_layers": 1}

    intermediate_size: int
    moe_intermediate_size: int = 1408
    num_dense_layers: int = 0
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_experts: int = 64
    num_experts_per_tok: int = 6
    num_shared_experts: int = 2
    route_scale: float = 1.0
    sliding_window: int = 1024
    layer_types: list[str]
    mup_enabled: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, of which every global_attn_every_n_layers-th sees all."""
        every, score = values.get("global_attn_every_n_layers", 4), values.get("score_func", "sigmoid")
        require(type(every) is int and every > 0, f"global_attn_every_n_layers is {every!r:.40}, expected above 0")
        known = score == "sigmoid" and values.get("route_norm", True) is True
        require(known, f"score_func {score!r:.40} is not known, or route_norm is not true")
        return values | {"layer_types": layer_types(values, lambda layer: (layer + 1) % every != 0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)


class Attention(HeadNormAttention):
    """Self-attention with normalised queries and keys, whose result a projection of the input gates."""

    @property
    def tensor_parallel(self) -> Mapping[str, tuple[str, ...]]:  # type: ignore[override]
        return {**super().tensor_parallel, "gate_proj": ("outputs", "queries")}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        slides, size = config.layer_types[layer] == SLIDING, config.hidden_size
        heads = config.heads(window=config.sliding_window if slides else None)
        table = rotary if slides else None
        super().__init__(layer, size, heads, table, config.rms_norm_eps, bias=config.attention_bias)
        self.gate_proj = Linear(size, heads.heads * heads.head_dim, bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        y = self.attend(self.normalized(self.qkv(self, x)), text)
        return self.o_proj(y * self.gate_proj(x).sigmoid(), residual)


class MixtureOfExperts(RoutedFeedForward):
    """The experts that a token chooses, and those that every token has. The bias counts for the choice alone."""

    def __init__(self, config: Config) -> None:
        size, inner, count = config.hidden_size, config.moe_intermediate_size, config.num_experts
        router = Module()
        router.gate = GroupedRouter(
            size, count, config.num_experts_per_tok, scaling=config.route_scale, biased=False
        )  # fmt: skip
        shared = GatedFeedForward(size, inner * config.num_shared_experts, config.hidden_act)
        experts = Experts(size, inner, count, config.hidden_act)
        super().__init__(router, experts, "router", ("shared_experts", shared))
        self.expert_bias = Parameter(ops.zeros(count), requires_grad=False)

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self.router.gate(x, self.expert_bias)
        return found


class Block(SandwichNormBlock):
    """Attention and feed-forward, each between two norms, with a residual around it."""

    inner = "pre_mlp_layernorm", "post_mlp_layernorm"

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size = config.hidden_size
        feed_forward: Module = (
            GatedFeedForward(size, config.intermediate_size, config.hidden_act)
            if layer < config.num_dense_layers
            else MixtureOfExperts(config)
        )
        super().__init__(Attention(config, layer, rotary), feed_forward, partial(RMSNorm, size, config.rms_norm_eps))


class AfmoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        norm, stack = RMSNorm(config.hidden_size, config.rms_norm_eps), DecoderStack
        super().__init__(config, Block, norm, stack=RootScaledStack if config.mup_enabled else stack)


def _to_gguf(config: Config) -> dict[str, Any]:
    return key_lengths(config) | {"expert_gating_func": SIGMOID, "expert_weights_norm": True}


_LAYER, _TARGET = "model.layers.{}.", "blk.{}."
_PARTS = {
    "post_attention_layernorm": "post_attention_norm", "pre_mlp_layernorm": "ffn_norm",
    "post_mlp_layernorm": "post_ffw_norm", "self_attn.gate_proj": "attn_gate", "mlp.router.gate": "ffn_gate_inp",
    "mlp.expert_bias": "exp_probs_b.bias",
}  # fmt: skip
# llama.cpp takes for granted that embeddings are scaled, and that every fourth layer sees all.
GGUF = Gguf(
    "afmoe", write=_to_gguf, read=lambda found, values: found | {"mup_enabled": True},
    names=NAMES | HEAD_NORMS | EXPERTS | SHARED_EXPERTS
    | {_LAYER + ours: _TARGET + theirs for ours, theirs in _PARTS.items()},
    forms={"expert_bias": BIAS_FORM},
    keys=KEYS | WINDOW | {
        "num_dense_layers": "leading_dense_block_count", "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count", "num_shared_experts": "expert_shared_count",
        "moe_intermediate_size": "expert_feed_forward_length", "route_scale": "expert_weights_scale",
        "route_norm": "expert_weights_norm",
    },
)  # fmt: skip
stored = gated_experts_apart
TASKS = {"causal-lm": AfmoeForCausalLM}

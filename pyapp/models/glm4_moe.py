"""GLM 4.5 and 4.6 (Zeng et al. 2025, arXiv 2508.06471): Llama's blocks with rotary positions in half of each head, and
mixtures of experts chosen by sigmoids beside an expert that every token has. dots.llm1 (Huo et al. 2025, arXiv
2506.05767) has whole heads rotated, and may have windows; Solar Open (Upstage 2025) has experts in all layers;
Sarvam 30B (Sarvam AI 2026) rotates whole heads, and its own files have the names of Ling 2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import GroupedRouter, SharedExpertsFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_choice, check_groups, layer_types
from .loading.gguf import (
    BIAS_FORM,
    EXPERTS,
    HEAD_NORMS,
    KEYS,
    NAMES,
    SHARED_EXPERTS,
    SIGMOID,
    WINDOWS,
    Gguf,
    key_lengths,
    refuse_windows,
    without_layers_ahead,
)
from .loading.stored import Stored, renaming, rows_of
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("glm4_moe", "dots1", "solar_open", "sarvam_moe")
IGNORED = r"(model\.)?layers\.(46|92)\..*"  # the layers of the published models that guess tokens ahead


# What config.json leaves out.
GLM = {
    "kind": "glm4_moe", "max_position_embeddings": 131072, "partial_rotary_factor": 0.5, "num_key_value_heads": 8,
    "first_k_dense_replace": 1, "sliding_window": None,
}  # fmt: skip
DOTS = {
    "kind": "dots1", "max_position_embeddings": 2048, "use_qk_norm": True, "output_bias": True, "norm_topk_prob": False,
    "first_k_dense_replace": 0, "rms_norm_eps": 1e-6, "sliding_window": 4096, "max_window_layers": 62,
}  # fmt: skip
SOLAR = {
    "kind": "solar_open", "max_position_embeddings": 131072, "num_key_value_heads": 8, "first_k_dense_replace": 0,
    "intermediate_size": 1, "moe_intermediate_size": 1280, "head_dim": 128, "rope_theta": 1_000_000.0,
    "sliding_window": None,
}  # fmt: skip
SARVAM = {
    "kind": "sarvam_moe", "max_position_embeddings": 131072, "num_key_value_heads": 4, "head_dim": 64,
    "first_k_dense_replace": 1, "use_qk_norm": True, "rms_norm_eps": 1e-6, "moe_intermediate_size": 1024,
    "num_experts_per_tok": 6, "routed_scaling_factor": 2.5, "rope_theta": 8_000_000.0, "sliding_window": None,
}  # fmt: skip
USUAL = {"glm4_moe": GLM, "dots1": DOTS, "solar_open": SOLAR, "sarvam_moe": SARVAM}
# Names of Sarvam's own files.
SARVAM_FIELDS = {
    "num_experts": "n_routed_experts", "num_shared_experts": "n_shared_experts", "use_qkv_bias": "attention_bias",
}  # fmt: skip
SARVAM_NAMES = {
    "model.word_embeddings.": "model.embed_tokens.", ".attention.dense.": ".self_attn.o_proj.",
    ".attention.query_layernorm.": ".self_attn.q_norm.", ".attention.key_layernorm.": ".self_attn.k_norm.",
    ".mlp.gate.expert_bias": ".mlp.gate.e_score_correction_bias",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "glm4_moe"

    kind: str = "glm4_moe"
    intermediate_size: int
    moe_intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    use_qk_norm: bool = False
    n_routed_experts: int = 128
    n_shared_experts: int = 1
    num_experts_per_tok: int = 8
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    first_k_dense_replace: int = 0
    norm_topk_prob: bool = True
    output_bias: bool = False
    sliding_window: int | None = None
    layer_types: list[str]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, with what its kind takes for granted."""
        kind = values.get("kind", values.get("model_type"))
        if kind == "sarvam_moe":
            values = {SARVAM_FIELDS.get(name, name): value for name, value in values.items()}
        found: Config = super().from_dict({**USUAL.get(str(kind), GLM), **values})
        return found

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: those from max_window_layers on slide, if there is a window."""
        first, window = values.get("max_window_layers", 0), values.get("sliding_window")
        slides = window is not None and type(first) is int
        return values | {"layer_types": layer_types(values, lambda layer: slides and layer >= first)}

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.n_routed_experts)
        check_groups(self.n_routed_experts, self.n_group, self.topk_group)

    @property
    def router(self) -> GroupedRouter:
        """A new router of a layer."""
        return GroupedRouter(
            self.hidden_size, self.n_routed_experts, self.num_experts_per_tok, (self.n_group, self.topk_group),
            normalized=self.norm_topk_prob, scaling=self.routed_scaling_factor,
        )  # fmt: skip


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, heads = config.hidden_size, config.rms_norm_eps, config.heads(window=config.window(layer))
        bias, output = config.attention_bias, config.attention_bias and config.output_bias
        attention: Module = (
            HeadNormAttention(layer, size, heads, rotary, epsilon, bias=bias, output_bias=output)
            if config.use_qk_norm
            else GroupedQueryAttention(layer, size, heads, rotary, bias=bias, output_bias=output)
        )
        feed_forward: Module = (
            GatedFeedForward(size, config.intermediate_size, config.hidden_act)
            if layer < config.first_k_dense_replace
            else SharedExpertsFeedForward(config, config.router)
        )
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Glm4MoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


renamed = renaming(SARVAM_NAMES)  # Sarvam's own files have other names


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts, each matrix by itself; Sarvam's have queries, keys and values in one."""
    parts = "gate_proj", "up_proj", "down_proj"
    found = experts_apart(tensors, "mlp.experts", parts, config.n_routed_experts, config.num_hidden_layers)
    queries, keys = (count * config.head_dim for count in (config.num_attention_heads, config.num_key_value_heads))
    for layer in range(config.num_hidden_layers):
        source = f"model.layers.{layer}.attention.query_key_value.weight"
        if source in tensors:
            rows = (("q_proj", 0, queries), ("k_proj", queries, keys), ("v_proj", queries + keys, keys))
            found |= {
                f"model.layers.{layer}.self_attn.{part}.weight": Stored(
                    (source,), values=partial(rows_of, first=first, count=count)
                )
                for part, first, count in rows
            }
    return found


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    there = values["tensors"]
    return without_layers_ahead(found, values) | {
        "attention_bias": "blk.0.attn_q.bias" in there, "use_qk_norm": "blk.0.attn_q_norm.weight" in there,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    return refuse_windows(config) | {"expert_gating_func": SIGMOID, "nextn_predict_layers": 0}


def _dots_from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp knows no windows of this architecture."""
    biased = "blk.0.attn_q.bias" in values["tensors"]
    return found | {"model_type": "dots1", "sliding_window": None, "attention_bias": biased}


def _dots_to_gguf(config: Config) -> dict[str, Any]:
    return refuse_windows(config) | key_lengths(config) | {"expert_gating_func": SIGMOID}


_NAMES = NAMES | EXPERTS | SHARED_EXPERTS | HEAD_NORMS
_KEYS = KEYS | {
    "first_k_dense_replace": "leading_dense_block_count", "n_routed_experts": "expert_count",
    "n_shared_experts": "expert_shared_count", "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length", "routed_scaling_factor": "expert_weights_scale",
    "norm_topk_prob": "expert_weights_norm",
}  # fmt: skip
_BIAS = {"gate.e_score_correction_bias": BIAS_FORM}
GGUF = Gguf(
    "glm4moe", read=_from_gguf, write=_to_gguf, forms=_BIAS, unsaid=(*WINDOWS, "kind"),  # Solar Open is GLM there
    names=_NAMES | {"model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm"},
    keys=_KEYS | {"n_group": "expert_group_count", "topk_group": "expert_group_used_count"},
    others=(
        Gguf(
            "dots1", names=_NAMES, keys=_KEYS, forms=_BIAS, read=_dots_from_gguf, write=_dots_to_gguf, unsaid=WINDOWS,
            suits=lambda config: config.kind == "dots1",
        ),
    ),
)  # fmt: skip

TASKS = {"causal-lm": Glm4MoeForCausalLM}

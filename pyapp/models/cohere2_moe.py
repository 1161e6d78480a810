"""Command's blocks with experts (Cohere 2026, https://huggingface.co/CohereLabs/North-Mini-Code-1.0): those of Command
R7B, with a mixture of experts beside attention in all but the first layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import ParallelBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward, Router
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import (
    DENSE,
    FULL,
    SLIDING,
    SPARSE,
    DecoderConfig,
    check_choice,
    check_kinds,
    layer_types,
    layers_in,
    require,
)
from .loading.gguf import EXPERTS, KEYS, NAMES, PATTERN, SHARED_EXPERTS, SIGMOID, WINDOW, Gguf, key_lengths, leading
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("cohere2_moe",)
SOFTMAX = 1  # expert_gating_func of files
_EPSILON = "attention.layer_norm_epsilon"


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `intermediate_size` is that of an expert, `prefix_dense_intermediate_size` that of the
    layers without; rms_norm_eps null: norms subtract the mean, with layer_norm_eps.
    """

    model_type = "cohere2_moe"
    defaults = {"max_position_embeddings": 8192, "tie_word_embeddings": True, "head_dim": 128}

    intermediate_size: int
    prefix_dense_intermediate_size: int | None = None
    layer_norm_eps: float = 1e-5
    rms_norm_eps: float | None = None
    hidden_act: str = "silu"
    attention_bias: bool = False
    logit_scale: float = 0.0625
    sliding_window: int = 4096
    layer_types: list[str]
    mlp_layer_types: list[str]
    prefix_dense_sliding_window_pattern: int = 1
    num_experts: int = 8
    num_experts_per_tok: int = 2
    num_shared_experts: int = 0
    shared_expert_combination_strategy: str = "average"
    expert_selection_fn: str = "softmax"
    norm_topk_prob: bool = True

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: of the first, without experts, and of the others some slide."""
        layers = layers_in(values)
        first, every, own = (
            values.get(name, usual) for name, usual in (
                ("first_k_dense_replace", 0), ("sliding_window_pattern", 4), ("prefix_dense_sliding_window_pattern", 1),
            )
        )  # fmt: skip
        known = all(type(n) is int for n in (first, every, own)) and 0 <= first <= layers and min(every, own) >= 1
        require(known, f"first_k_dense_replace {first!r:.40}, or a sliding_window_pattern {every!r:.40}, {own!r:.40}")
        kinds = layer_types(
            values, lambda layer: bool((layer + 1) % own if layer < first else (layer - first + 1) % every)
        )
        usual = {"mlp_layer_types": [DENSE if i < first else SPARSE for i in range(layers)]}
        return usual | values | {"layer_types": kinds}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        for name, known in (
            ("expert_selection_fn", ("softmax", "sigmoid")), ("shared_expert_combination_strategy", ("average", "sum")),
        ):  # fmt: skip
            value = getattr(self, name)
            require(value in known, f"{name} is {value!r:.40}, expected {' or '.join(known)}")
        check_kinds("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers, DENSE, SPARSE)

    def attention(self, layer: int, rotary: RotaryTable) -> GroupedQueryAttention:
        """The attention of a layer: rotary positions where it has a window, and in some without experts."""
        slides = self.layer_types[layer] == SLIDING
        turns = slides or (self.mlp_layer_types[layer] == DENSE and self.prefix_dense_sliding_window_pattern == 1)
        heads = self.heads(interleaved=True, window=self.sliding_window if slides else None)
        return GroupedQueryAttention(
            layer, self.hidden_size, heads, rotary if turns else None, bias=self.attention_bias
        )  # fmt: skip

    def norm(self) -> Module:
        """A new norm."""
        if self.rms_norm_eps is not None:
            return RMSNorm(self.hidden_size, self.rms_norm_eps)
        return LayerNorm(self.hidden_size, self.layer_norm_eps, bias=False)


class AveragedFeedForward(RoutedFeedForward):
    """A mixture of experts and the experts that every token has; `average`: half of their sum is added."""

    def __init__(self, config: Config) -> None:
        size, inner, act = config.hidden_size, config.intermediate_size, config.hidden_act
        count, chosen = config.num_experts, config.num_experts_per_tok
        router = (
            GroupedRouter(size, count, chosen, normalized=config.norm_topk_prob, biased=False, epsilon=0.0)
            if config.expert_selection_fn == "sigmoid"
            else Router(size, count, chosen)
        )
        shared = None
        if config.num_shared_experts:
            shared = "shared_experts", GatedFeedForward(size, inner * config.num_shared_experts, act)
        super().__init__(router, Experts(size, inner, count, act), shared=shared)
        self.average = shared is not None and config.shared_expert_combination_strategy == "average"

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., hidden_size) → residual + experts, or the experts alone (..., hidden_size)."""
        if not self.average:
            return super().forward(x, residual)
        y = super().forward(x) * 0.5
        return y if residual is None else residual + y


class Block(ParallelBlock):
    """Attention and feed-forward of the same norm, both added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        inner = config.prefix_dense_intermediate_size or config.intermediate_size
        feed_forward: Module = (
            GatedFeedForward(config.hidden_size, inner, config.hidden_act)
            if config.mlp_layer_types[layer] == DENSE
            else AveragedFeedForward(config)
        )
        super().__init__(config.attention(layer, rotary), feed_forward, config.norm())


class Cohere2MoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, config.norm())

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return super().head(x) * self.config.logit_scale


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers slide, and which have experts."""
    layers, first = layers_in(found), values.get("leading_dense_block_count", 0)
    slides, sizes = values.get(PATTERN), values.get("feed_forward_length")
    pattern = slides if isinstance(slides, list) else [(i + 1) % 4 != 0 for i in range(layers)]
    wide = sizes[0] if isinstance(sizes, list) and sizes else sizes
    return {"rms_norm_eps": None} | found | {
        "layer_types": [SLIDING if own else FULL for own in pattern[:layers]],
        "mlp_layer_types": [DENSE if type(first) is int and i < first else SPARSE for i in range(layers)],
        "expert_selection_fn": "softmax" if values.get("expert_gating_func", SIGMOID) == SOFTMAX else "sigmoid",
        "norm_topk_prob": values.get("expert_weights_norm", False), "prefix_dense_intermediate_size": wide or None,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    softmax = config.expert_selection_fn == "softmax"
    first, shared = leading(config.mlp_layer_types, DENSE), config.num_shared_experts
    average = not shared or config.shared_expert_combination_strategy == "average"
    require(average, "llama.cpp averages the shared experts and the others of this one", "Write safetensors")
    turns = not first or config.prefix_dense_sliding_window_pattern == 1
    require(turns, "llama.cpp rotates in all layers without experts of this one", "Write safetensors")
    own = {"expert_shared_count": shared, "expert_shared_feed_forward_length": config.intermediate_size * shared}
    epsilon = {} if config.rms_norm_eps is None else {_EPSILON: None}
    return key_lengths(config) | epsilon | (own if shared else {}) | {
        PATTERN: [kind == SLIDING for kind in config.layer_types], "leading_dense_block_count": first,
        "expert_gating_func": SOFTMAX if softmax else SIGMOID, "expert_weights_norm": softmax or config.norm_topk_prob,
        "feed_forward_length": config.prefix_dense_intermediate_size or config.intermediate_size,
    }  # fmt: skip


GGUF = Gguf(
    "cohere2moe", names=NAMES | EXPERTS | SHARED_EXPERTS, read=_from_gguf, write=_to_gguf,
    keys={name: key for name, key in KEYS.items() if name != "intermediate_size"} | WINDOW | {
        "layer_norm_eps": _EPSILON, "logit_scale": "logit_scale", "intermediate_size": "expert_feed_forward_length",
        "num_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
        "num_shared_experts": "expert_shared_count",
    },
    unsaid=("prefix_dense_intermediate_size", "layer_norm_eps", "shared_expert_combination_strategy", "norm_topk_prob",
            "prefix_dense_sliding_window_pattern"),
)  # fmt: skip

stored = gated_experts_apart
TASKS = {"causal-lm": Cohere2MoeForCausalLM}

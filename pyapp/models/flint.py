"""Flint (Recursive 2026, https://huggingface.co/RecursiveSI/flint): Qwen3's blocks with sinks of attention, windows in
three of four layers and rotary positions only there, and experts that sigmoids choose, beside one that every token has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.heads import Heads
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import new_parameter

from .loading.config import SLIDING, DecoderConfig, check_choice, layer_types
from .loading.stored import renaming
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("flint",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. mlp_only_layers: the layers without experts."""

    model_type = "flint"
    defaults = {"max_position_embeddings": 262144, "num_key_value_heads": 4, "head_dim": 128}

    intermediate_size: int = 6144
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 1024
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_experts: int = 256
    num_experts_per_tok: int = 6
    norm_topk_prob: bool = True
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int]
    sliding_window: int = 513
    layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers."""
        last = values.get("num_hidden_layers")
        kinds = layer_types(values, lambda layer: layer >= 2 and layer % 4 != 1 and layer + 1 != last)
        return {"mlp_only_layers": [0, 1]} | values | {"layer_types": kinds}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return layer not in self.mlp_only_layers and (layer + 1) % self.decoder_sparse_step == 0


class Attention(HeadNormAttention):
    """Self-attention with normalised queries and keys, and a score of each head for no token."""

    @property
    def tensor_parallel(self) -> Any:  # type: ignore[override]
        """How several processes divide the layers (nn/tensor_parallel.py)."""
        return {**super().tensor_parallel, "sinks": ("heads",)}

    def __init__(
        self, layer: int, size: int, heads: Heads, rotary: RotaryTable | None, epsilon: float, *, bias: bool
    ) -> None:
        super().__init__(layer, size, heads, rotary, epsilon, bias=bias)
        self.sinks = new_parameter(ops.zeros, heads.heads)

    def attend(self, qkv: Tensor, text: Text) -> Tensor:
        return text.attention(self.layer, qkv, replace(self.heads, sinks=self.sinks), self.rotary)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, act = config.hidden_size, config.rms_norm_eps, config.hidden_act
        slides = config.layer_types[layer] == SLIDING
        heads = config.heads(window=config.sliding_window if slides else None)
        attention = Attention(
            layer, size, heads, rotary if slides else None, epsilon, bias=config.attention_bias
        )  # fmt: skip
        feed_forward: Module = GatedFeedForward(size, config.intermediate_size, act)
        if config.is_sparse(layer):
            router = GroupedRouter(
                size, config.num_experts, config.num_experts_per_tok, normalized=config.norm_topk_prob, biased=False,
                epsilon=0.0,
            )  # fmt: skip
            experts = Experts(size, config.moe_intermediate_size, config.num_experts, act)
            shared = GatedFeedForward(size, config.shared_expert_intermediate_size, act)
            feed_forward = RoutedFeedForward(router, experts, shared=("shared_expert", shared))
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class FlintForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


renamed = renaming({".self_attn.softmax_offset": ".self_attn.sinks"})  # the parameter of a file's tensor
stored = gated_experts_apart
TASKS = {"causal-lm": FlintForCausalLM}

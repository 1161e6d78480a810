"""Phi-3.5-MoE (Abdin et al. 2024, arXiv 2404.14219; Liu et al. 2024, arXiv 2409.12136): Mixtral's blocks with layer
norms; two experts are chosen one after the other, each by a softmax over those with nearly its score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.ops import arange, cat, where
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, RoutedFeedForward, Router

from .loading.config import DecoderConfig, require
from .loading.gguf import EXPERTS, KEYS, NAMES, TENSOR_SCALINGS, WINDOW, Gguf
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("phimoe",)
CHOSEN = 2  # experts of a token


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. router_jitter_noise: half of what scores may be below the best, as a share of it, to
    count in the softmax.
    """

    model_type = "phimoe"
    defaults = {"max_position_embeddings": 131072, "num_key_value_heads": 8, "rope_theta": 1000000.0}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    sliding_window: int | None = None
    original_max_position_embeddings: int | None = None
    num_local_experts: int = 16
    num_experts_per_tok: int = CHOSEN
    router_jitter_noise: float = 0.01
    attention_bias: bool = False
    lm_head_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen, experts = self.num_experts_per_tok, self.num_local_experts
        require(
            chosen == CHOSEN <= experts, f"num_experts_per_tok is {chosen}, of {experts} experts, expected {CHOSEN}"
        )


class SparseMixer(Router):
    """Chooses two experts, in training as in use."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.num_local_experts, CHOSEN)
        self.apart = 2 * config.router_jitter_noise

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (N, D) → shares (N, 2) and experts (N, 2) int64."""
        scores = ops.linear(x, self.weight)  # (N, E)
        share, first = self._best(scores, scores)
        others = where(arange(scores.shape[-1], device=x.device) == first, float("-inf"), scores)
        other_share, second = self._best(others, scores)
        return cat([share, other_share], -1), cat([first, second], -1)

    def _best(self, left: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The share and the number of the best expert that is left, (N, 1) each."""
        with no_grad():
            best, chosen = left.topk(1, -1)
            far = (best - scores) / scores.abs().maximum(best) > self.apart
        return where(far, float("-inf"), left).softmax(-1).gather(-1, chosen), chosen


class Block(PreNormBlock):
    """Attention and a mixture of experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.sliding_window)
        attention = GroupedQueryAttention(layer, size, heads, rotary, bias=config.attention_bias)
        experts = Experts(size, config.intermediate_size, config.num_local_experts, config.hidden_act)
        feed_forward = RoutedFeedForward(SparseMixer(config), experts, "router")
        super().__init__(attention, feed_forward, LayerNorm(size, epsilon), LayerNorm(size, epsilon))


class PhimoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        norm = LayerNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, Block, norm, bias=config.lm_head_bias)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files call the experts block_sparse_moe."""
    return name.replace(".block_sparse_moe.gate.", ".mlp.router.")


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    place, parts = "block_sparse_moe.experts", ("w1", "w3", "w2")
    return experts_apart(tensors, place, parts, config.num_local_experts, config.num_hidden_layers)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    there = values["tensors"]
    return found | {
        "attention_bias": "blk.0.attn_q.bias" in there, "lm_head_bias": "output.bias" in there,
        "original_max_position_embeddings": values.get("rope.scaling.original_context_length"),
    }  # fmt: skip


GGUF = Gguf(
    "phimoe", names=NAMES | EXPERTS | {"model.layers.{}.mlp.router": "blk.{}.ffn_gate_inp"}, read=_from_gguf,
    keys=KEYS | WINDOW | {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
    scalings=TENSOR_SCALINGS, unsaid=("router_jitter_noise", "original_max_position_embeddings"),
)  # fmt: skip
TASKS = {"causal-lm": PhimoeForCausalLM}

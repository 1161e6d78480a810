"""DeepSeekMoE, the first (Dai et al. 2024, arXiv 2401.06066): Llama's blocks with mixtures of small experts beside
those that every token has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import Router, SharedExpertsFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_choice, check_form
from .loading.gguf import EXPERTS, KEYS, NAMES, Gguf, pairs_of_llama
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("deepseek",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "deepseek"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    moe_intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    n_routed_experts: int
    n_shared_experts: int
    num_experts_per_tok: int
    first_k_dense_replace: int = 0
    norm_topk_prob: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields, of a model whose layers have experts from one on."""
        check_form(values, {"moe_layer_freq": 1, "scoring_func": "softmax"})
        return values

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.n_routed_experts)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        router = Router(size, config.n_routed_experts, config.num_experts_per_tok, config.norm_topk_prob)
        feed_forward: Module = (
            GatedFeedForward(size, config.intermediate_size, config.hidden_act)
            if layer < config.first_k_dense_replace
            else SharedExpertsFeedForward(config, router)
        )
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class DeepseekMoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    parts = "gate_proj", "up_proj", "down_proj"
    return experts_apart(tensors, "mlp.experts", parts, config.n_routed_experts, config.num_hidden_layers)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return found | {"attention_bias": "blk.0.attn_q.bias" in values["tensors"], "norm_topk_prob": False}


_PARTS = {f"mlp.shared_experts.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")}
GGUF = Gguf(
    "deepseek", order=pairs_of_llama, read=_from_gguf, write=lambda config: {"expert_weights_scale": 1.0},
    names=NAMES | EXPERTS | {f"model.layers.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
    keys=KEYS | {
        "first_k_dense_replace": "leading_dense_block_count", "n_routed_experts": "expert_count",
        "n_shared_experts": "expert_shared_count", "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
    },
)  # fmt: skip
TASKS = {"causal-lm": DeepseekMoeForCausalLM}

"""Qwen3 with experts (Yang et al. 2025, arXiv 2505.09388): Qwen3's blocks with a mixture of experts in most layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import (
    RotaryTable,
)  # fmt: skip
from pyapp.nn.decoder_blocks import HeadNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import SparseFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, require
from .loading.gguf import DENSE_LAYERS, EXPERTS, HEAD_NORMS, KEYS, NAMES, WINDOWS, Gguf, refuse_windows
from .loading.weights import Stored, experts_apart

MODEL_TYPES = ("qwen3_moe",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "qwen3_moe"
    defaults = {"max_position_embeddings": 32768, "num_key_value_heads": 4}

    intermediate_size: int
    moe_intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    num_experts: int
    num_experts_per_tok: int
    norm_topk_prob: bool = False
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int]
    use_sliding_window: bool = False
    sliding_window: int | None = None
    attention_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        count = self.num_experts_per_tok
        require(count <= self.num_experts, f"num_experts_per_tok is {count}, of {self.num_experts} experts")

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """With the number of experts, which has two names."""
        experts = {"num_experts": values.get("num_experts", values.get("num_local_experts"))}
        return {"mlp_only_layers": []} | values | experts

    def window(self, layer: int) -> int | None:
        """The window of a layer: all have it, or none."""
        return self.sliding_window if self.use_sliding_window else None

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return layer not in self.mlp_only_layers and (layer + 1) % self.decoder_sparse_step == 0


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.window(layer))
        attention = HeadNormAttention(layer, size, heads, rotary, epsilon, bias=config.attention_bias)
        feed_forward: Module = (
            SparseFeedForward(
                size, config.moe_intermediate_size, config.num_experts, config.num_experts_per_tok, config.hidden_act,
                normalized=config.norm_topk_prob,
            )
            if config.is_sparse(layer)
            else GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        )  # fmt: skip
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Qwen3MoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp always normalises the shares of the chosen experts."""
    return {"intermediate_size": found.get("moe_intermediate_size")} | found | {"norm_topk_prob": True}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(
        all(config.is_sparse(i) for i in range(config.num_hidden_layers)),
        "llama.cpp has experts in each layer of this architecture",
        "Write safetensors",
    )
    return refuse_windows(config)


GGUF_KEYS = {
    "num_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
}  # fmt: skip
GGUF = Gguf(
    "qwen3moe", names=NAMES | HEAD_NORMS | EXPERTS, keys=KEYS | GGUF_KEYS, read=_from_gguf, write=_to_gguf,
    unsaid=(*WINDOWS, *DENSE_LAYERS),
)  # fmt: skip


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    return experts_apart(
        tensors, "mlp.experts", ("gate_proj", "up_proj", "down_proj"), config.num_experts, config.num_hidden_layers
    )


TASKS = {"causal-lm": Qwen3MoeForCausalLM}

"""Mixtral (Jiang et al. 2024, arXiv 2401.04088): Mistral's blocks with a mixture of experts for each feed-forward
layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import SparseFeedForward

from .loading.config import DecoderConfig, check_choice
from .loading.gguf import EXPERTS, KEYS, NAMES, TENSOR_SCALINGS, WINDOW, WITH_EXPERTS, Gguf, pairs_of_llama
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("mixtral",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "mixtral"
    defaults = {"max_position_embeddings": 131072, "num_key_value_heads": 8, "rope_theta": 1000000.0}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    sliding_window: int | None = None
    num_local_experts: int = 8
    num_experts_per_tok: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)


class Block(PreNormBlock):
    """Attention and a mixture of experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.sliding_window)
        attention = GroupedQueryAttention(layer, size, heads, rotary)
        feed_forward = SparseFeedForward(
            size, config.intermediate_size, config.num_local_experts, config.num_experts_per_tok, config.hidden_act
        )
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class MixtralForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf(
    "llama", names=NAMES | EXPERTS, order=pairs_of_llama, index=WITH_EXPERTS.format("llama"),
    scalings=TENSOR_SCALINGS,
    keys=KEYS | WINDOW | {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
)  # fmt: skip


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    return experts_apart(
        tensors, "block_sparse_moe.experts", ("w1", "w3", "w2"), config.num_local_experts, config.num_hidden_layers
    )


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files call the experts block_sparse_moe."""
    return name.replace(".block_sparse_moe.gate.", ".mlp.gate.")


TASKS = {"causal-lm": MixtralForCausalLM}

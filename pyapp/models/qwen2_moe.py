"""Qwen1.5 and Qwen2 with experts (Yang et al. 2024, arXiv 2407.10671): Qwen2's blocks with a mixture of experts, and an
expert that every token has, in most layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import SharedExpertFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import layer_types
from .loading.gguf import DENSE_LAYERS, EXPERTS, KEYS, NAMES, WINDOWS, Gguf
from .loading.qwen_experts import GGUF_KEYS, SHARED_EXPERT, QwenExpertsConfig, to_gguf
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("qwen2_moe",)


@dataclass(frozen=True, kw_only=True)
class Config(QwenExpertsConfig):
    """The fields of config.json."""

    model_type = "qwen2_moe"
    defaults = {"max_position_embeddings": 32768}

    layer_types: list[str]
    max_window_layers: int = 28
    shared_expert_intermediate_size: int
    qkv_bias: bool = True

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: with use_sliding_window every other one before max_window_layers
        slides.
        """
        end = values.get("max_window_layers", 28)
        slides = values.get("use_sliding_window", False) and type(end) is int
        kinds = layer_types(values, lambda layer: slides and layer % 2 == 0 and layer < end)
        return super().adjusted(values) | {"layer_types": kinds}

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.window(layer))
        attention = GroupedQueryAttention(layer, size, heads, rotary, bias=config.qkv_bias, output_bias=False)
        feed_forward: Module = (
            SharedExpertFeedForward(config)
            if config.is_sparse(layer)
            else GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        )
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Qwen2MoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp does not normalise the shares of the chosen experts."""
    return {"intermediate_size": found.get("moe_intermediate_size")} | found | {"norm_topk_prob": False}


GGUF = Gguf(
    "qwen2moe", names=NAMES | EXPERTS | SHARED_EXPERT, read=_from_gguf, write=to_gguf,
    keys=KEYS | GGUF_KEYS | {"shared_expert_intermediate_size": "expert_shared_feed_forward_length"},
    unsaid=(*WINDOWS, *DENSE_LAYERS),
)  # fmt: skip

stored = gated_experts_apart
TASKS = {"causal-lm": Qwen2MoeForCausalLM}

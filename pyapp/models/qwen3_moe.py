"""Qwen3 with experts (Yang et al. 2025, arXiv 2505.09388): Qwen3's blocks with a mixture of experts in most layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.decoders.expert_blocks import HeadNormBlock

from .loading.gguf import DENSE_LAYERS, EXPERTS, HEAD_NORMS, KEYS, NAMES, WINDOWS, Gguf, with_sections
from .loading.qwen_experts import GGUF_KEYS, QwenExpertsConfig, to_gguf
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("qwen3_moe",)


@dataclass(frozen=True, kw_only=True)
class Config(QwenExpertsConfig):
    """The fields of config.json."""

    model_type = "qwen3_moe"
    defaults = {"max_position_embeddings": 32768, "num_key_value_heads": 4}

    attention_bias: bool = False

    def window(self, layer: int) -> int | None:
        """The window of a layer: all have it, or none."""
        return self.sliding_window if self.use_sliding_window else None


class Qwen3MoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, HeadNormBlock, RMSNorm(config.hidden_size, config.rms_norm_eps))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp always normalises the shares of the chosen experts."""
    found = {"intermediate_size": found.get("moe_intermediate_size")} | found | {"norm_topk_prob": True}
    return with_sections(found, values)


GGUF = Gguf(
    "qwen3moe", names=NAMES | HEAD_NORMS | EXPERTS, keys=KEYS | GGUF_KEYS, read=_from_gguf, write=to_gguf,
    unsaid=(*WINDOWS, *DENSE_LAYERS), also=("qwen3vlmoe",),
)  # fmt: skip

stored = gated_experts_apart
TASKS = {"causal-lm": Qwen3MoeForCausalLM}

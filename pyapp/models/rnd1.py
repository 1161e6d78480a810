"""RND1 (Radical Numerics 2025, https://www.radicalnumerics.ai/blog/rnd1): Qwen3's blocks with experts without a causal
mask, trained further to fill masked places from the token before each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.expert_blocks import HeadNormBlock
from pyapp.nn.encoders.masked_diffusion import Denoising, MaskedDiffusionModel

from .loading.config import check_token, require
from .loading.gguf import (
    BOTH_WAYS,
    DENSE_LAYERS,
    EXPERTS,
    HEAD_NORMS,
    KEYS,
    NAMES,
    WINDOWS,
    Gguf,
    diffusion_keys,
    with_mask,
)
from .loading.qwen_experts import GGUF_KEYS, QwenExpertsConfig, to_gguf
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("rnd1",)


@dataclass(frozen=True, kw_only=True)
class Config(QwenExpertsConfig):
    """The fields of config.json."""

    model_type = "rnd1"
    defaults = {"max_position_embeddings": 32768, "num_key_value_heads": 4, "mask_token_id": 151_669}

    mask_token_id: int
    attention_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_token("mask_token_id", self.mask_token_id, self.vocab_size)
        require(not self.use_sliding_window, "use_sliding_window is true, and only texts that see all are known")

    def window(self, layer: int) -> None:
        """No layer has one."""


class RND1(MaskedDiffusionModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, HeadNormBlock, RMSNorm(config.hidden_size, config.rms_norm_eps))
        self.denoising = Denoising(config.mask_token_id, shifted=True, remasking="entropy")


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp always normalises the shares of the chosen experts."""
    found = {"intermediate_size": found.get("moe_intermediate_size")} | found | {"norm_topk_prob": True}
    return with_mask(found, values)


GGUF = Gguf(
    "rnd1", names=NAMES | HEAD_NORMS | EXPERTS, keys=KEYS | GGUF_KEYS, read=_from_gguf,
    write=lambda config: to_gguf(config) | BOTH_WAYS, unsaid=(*WINDOWS, *DENSE_LAYERS),
    whole_keys=diffusion_keys(True),
)  # fmt: skip

stored = gated_experts_apart
TASKS = {"text-diffusion": RND1}

"""RND1 (Radical Numerics 2025, https://www.radicalnumerics.ai/blog/rnd1): Qwen3's blocks with experts without a causal
mask, trained further to fill masked places from the token before each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, PreNormBlock
from pyapp.nn.encoders.masked_diffusion import Denoising, MaskedDiffusionModel
from pyapp.nn.layers.experts import SparseFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

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
from .loading.weights import gated_experts_apart

MODEL_TYPES = ("rnd1",)


@dataclass(frozen=True, kw_only=True)
class Config(QwenExpertsConfig):
    """The fields of config.json."""

    model_type = "rnd1"
    defaults = {"max_position_embeddings": 32768, "num_key_value_heads": 4, "mask_token_id": 151_669}

    mask_token_id: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_token("mask_token_id", self.mask_token_id, self.vocab_size)
        require(not self.use_sliding_window, "use_sliding_window is true, and only texts that see all are known")

    def window(self, layer: int) -> None:
        """No layer has one."""


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = HeadNormAttention(layer, size, config.heads(), rotary, epsilon)
        feed_forward: Module = (
            SparseFeedForward(
                size, config.moe_intermediate_size, config.num_experts, config.num_experts_per_tok, config.hidden_act,
                normalized=config.norm_topk_prob,
            )
            if config.is_sparse(layer)
            else GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        )  # fmt: skip
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class RND1(MaskedDiffusionModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))
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

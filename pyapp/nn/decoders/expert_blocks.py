"""Blocks of language models with experts, which decoder_blocks.py, loaded at the start of the page, does not import."""

from __future__ import annotations

from typing import Any

from ..layers.experts import SharedExpertFeedForward, SparseFeedForward
from ..layers.gated import GatedFeedForward
from ..layers.normalization import RMSNorm
from ..module import Module
from .decoder import RotaryTable
from .decoder_blocks import HeadNormAttention, PreNormBlock


class HeadNormBlock(PreNormBlock):
    """Attention with norms of each head and feed-forward, with experts or without, each with a norm before it and a
    residual around it. `config` has `heads`, `window(layer)`, `is_sparse(layer)`, and the sizes
    by the names of config.json.
    """

    def __init__(self, config: Any, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.window(layer))
        attention = HeadNormAttention(layer, size, heads, rotary, epsilon, bias=config.attention_bias)
        feed_forward: Module
        if not config.is_sparse(layer):
            feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        elif hasattr(config, "shared_expert_intermediate_size"):
            feed_forward = SharedExpertFeedForward(config)
        else:
            feed_forward = SparseFeedForward(
                size, config.moe_intermediate_size, config.num_experts, config.num_experts_per_tok, config.hidden_act,
                normalized=config.norm_topk_prob,
            )  # fmt: skip
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))

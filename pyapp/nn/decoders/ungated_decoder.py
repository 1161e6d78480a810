"""The block of decoders whose feed-forward parts have no gates (Nemotron, AFM)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..layers.feed_forward import FeedForward
from ..module import Module
from .decoder import GroupedQueryAttention, RotaryTable
from .decoder_blocks import PreNormBlock


class UngatedBlock(PreNormBlock):
    """Llama's block with a feed-forward part without gates. `norm` makes a norm."""

    def __init__(self, config: Any, layer: int, rotary: RotaryTable, norm: Callable[[], Module]) -> None:
        size = config.hidden_size
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        feed_forward = FeedForward(
            size, config.intermediate_size, config.hidden_act, bias=config.mlp_bias, names=("up_proj", "down_proj")
        )
        super().__init__(attention, feed_forward, norm(), norm())

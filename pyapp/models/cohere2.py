"""Command R7B and Command A (Cohere 2025, arXiv 2504.00698): Command R's blocks, three of four with a window and rotary
positions, the fourth with neither.
"""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import ParallelBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, layer_types, require
from .loading.gguf import KEYS, WINDOW, Gguf, tied

MODEL_TYPES = ("cohere2",)
PATTERN = 4  # layers, of which the last one has no window


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "cohere2"
    defaults = {"max_position_embeddings": 8192, "tie_word_embeddings": True}

    intermediate_size: int
    layer_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    logit_scale: float = 0.0625
    sliding_window: int | None = 4096
    layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers."""
        every = values.get("sliding_window_pattern", PATTERN)
        require(type(every) is int and every > 0, f"sliding_window_pattern is {every!r:.40}, expected a whole number")
        return values | {"layer_types": layer_types(values, lambda layer: (layer + 1) % every != 0)}

    def attention(self, layer: int, rotary: RotaryTable) -> GroupedQueryAttention:
        """The attention of a layer: rotary positions only where it has a window."""
        window = self.sliding_window if self.layer_types[layer] == "sliding_attention" else None
        heads = self.heads(interleaved=True, window=window)
        return GroupedQueryAttention(
            layer, self.hidden_size, heads, None if window is None else rotary, bias=self.attention_bias
        )


class Block(ParallelBlock):
    """Attention and feed-forward of the same norm, both added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size = config.hidden_size
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        norm = LayerNorm(size, config.layer_norm_eps, bias=False)
        super().__init__(config.attention(layer, rotary), feed_forward, norm)


class Cohere2ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.layer_norm_eps, bias=False))

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return super().head(x) * self.config.logit_scale


GGUF = Gguf(
    "cohere2", write=tied,
    keys=KEYS | WINDOW | {"layer_norm_eps": "attention.layer_norm_epsilon", "logit_scale": "logit_scale"},
    read=lambda found, values: found | {"attention_bias": "blk.0.attn_q.bias" in values["tensors"]},
)  # fmt: skip
TASKS = {"causal-lm": Cohere2ForCausalLM}

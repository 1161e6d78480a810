"""Nanbeige 4.2 (Nanbeige 2026, https://huggingface.co/Nanbeige/Nanbeige4.2-3B): Llama, whose layers a text goes through
several times, each time with keys and values of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.caches import decoder_cache
from pyapp.nn.decoders.decoder import DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_depth, require
from .loading.gguf import KEYS, TENSOR_SCALINGS, Gguf, biases, pairs_of_llama

MODEL_TYPES = ("nanbeige",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. skip_loop_final_norm: the last norm does not follow each passage, only the last."""

    model_type = "nanbeige"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    num_loops: int = 1
    skip_loop_final_norm: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_loops >= 1, f"num_loops is {self.num_loops}, expected 1 or more")
        check_depth(self.num_loops * self.num_hidden_layers)


class LaterText:
    """A text whose layers have the numbers from `first` on."""

    def __init__(self, text: Text, first: int) -> None:
        self._text, self._first, self.length = text, first, text.length

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor:
        """As Text.attention."""
        return self._text.attention(self._first + layer, qkv, heads, rotary)

    def positions(self, x: Tensor) -> Tensor:
        """As Text.positions."""
        return self._text.positions(x)

    def rotated(self, rotary: RotaryTable, interleaved: bool, *inputs: Tensor) -> Iterator[Tensor]:
        """As Text.rotated."""
        return self._text.rotated(rotary, interleaved, *inputs)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Loops(DecoderStack):
    """The decoder, whose layers a text goes through `loops` times."""

    loops, normed = 1, True

    def forward(self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()) -> Tensor:
        """As DecoderStack.forward."""
        x = super().forward(tokens, text, x, added)
        for loop in range(1, self.loops):
            own: Any = LaterText(text, loop * len(self.layers))
            x = super().forward(tokens, own, self.normalized(x) if self.normed else x)
        return x


class NanbeigeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps), stack=Loops)
        self.model.loops, self.model.normed = config.num_loops, not config.skip_loop_final_norm

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        """The caches of the layers, for each passage."""
        layers = self.config.num_hidden_layers * self.config.num_loops
        return decoder_cache(texts, layers, self.kv_heads, capacity, self.config.head_dim, self.device, dtype)


GGUF = Gguf(
    "nanbeige", order=pairs_of_llama, read=biases, scalings=TENSOR_SCALINGS,
    keys=KEYS | {"num_loops": "num_loops", "skip_loop_final_norm": "skip_loop_final_norm"},
)  # fmt: skip
TASKS = {"causal-lm": NanbeigeForCausalLM}

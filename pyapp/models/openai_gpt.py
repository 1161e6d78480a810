"""GPT (Radford et al. 2018), the first: learned positions, a norm after each part and its residual, none after the
last layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, Identity, LayerNorm, Module
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.linear import TransposedLinear

from .loading.config import require
from .loading.gpt2_form import Gpt2Config

MODEL_TYPES = ("openai-gpt",)
IGNORED = r".*\.attn\.bias"  # the mask, of older files
ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "silu": "silu", "swish": "silu"}  # by the names of config.json


@dataclass(frozen=True, kw_only=True)
class Config(Gpt2Config):
    """The fields of config.json; `afn` is the activation."""

    model_type = "openai-gpt"

    n_positions: int = 512
    afn: str = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.afn in ACTIVATIONS, f"afn is {self.afn!r:.40}, expected one of {', '.join(ACTIVATIONS)}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({name: value for name, value in values.items() if name != "n_inner"})


class Attention(SelfAttention):
    """Self-attention from one projection of queries, keys and values."""

    tensor_parallel = {"c_attn": ("outputs", "queries", "keys", "keys"), "c_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int) -> None:
        heads = Heads(config.n_head, config.n_head, config.head_dim, scale=1 / sqrt(config.head_dim))
        super().__init__(layer, heads, None)
        self.c_attn = TransposedLinear(config.n_embd, 3 * config.n_embd)
        self.c_proj = TransposedLinear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        return self.c_proj(self.attend(self.c_attn(x), text), residual)


class Block(Module):
    """Attention and feed-forward, each with its residual and a norm after that."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.attn = Attention(config, layer)
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = FeedForward(
            config.n_embd, config.inner_size, ACTIVATIONS[config.afn], names=("c_fc", "c_proj"), transposed=True
        )
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, n_embd) → (..., T, n_embd)."""
        x = self.ln_1(self.attn(x, text, x))
        return self.ln_2(self.mlp(x, x))


class Stack(DecoderStack):
    """The decoder; a position's embedding is added to the token's."""

    tokens, blocks, last_norm = "tokens_embed", "h", "no_norm"

    def __init__(self, config: Config) -> None:
        blocks = (Block(config, layer) for layer in range(config.n_layer))
        super().__init__(config.vocab_size, config.n_embd, blocks, Identity())
        self.positions_embed = Embedding(config.n_positions, config.n_embd)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        x: Tensor = self.embedding(tokens) + self.positions_embed(text.positions(tokens))
        return x


class OpenAIGPTLMHeadModel(CausalLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        super().__init__(config, Stack(config))


TASKS = {"causal-lm": OpenAIGPTLMHeadModel}

"""CTRL (Keskar et al. 2019, arXiv 1909.05858): a language model whose text's first token says what kind of text it is.
Fixed positions, a norm before each part and after the last layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import index_select
from pyapp.nn import LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.positions.sinusoids import paired_sinusoids

from .loading.config import require
from .loading.gpt2_form import Gpt2Config

MODEL_TYPES = ("ctrl",)
EPSILON = 1e-6  # of the norms in the layers
LARGEST_TABLE = 1 << 28  # numbers


@dataclass(frozen=True, kw_only=True)
class Config(Gpt2Config):
    """The fields of config.json. dff: the features between the two layers of the feed-forward part."""

    model_type = "ctrl"

    n_positions: int = 256
    dff: int
    layer_norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.n_embd % 2 == 0 and self.n_embd * self.n_positions <= LARGEST_TABLE
        require(fits, f"n_embd {self.n_embd:,} with n_positions {self.n_positions:,} makes no table of positions")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        own = ("n_inner", "activation_function", "scale_attn_weights")  # of GPT-2 alone
        return super().from_dict({name: value for name, value in values.items() if name not in own})


class Attention(SelfAttention):
    """Self-attention under CTRL's names."""

    tensor_parallel = {
        "Wq": ("outputs", "queries"), "Wk": ("outputs", "keys"), "Wv": ("outputs", "keys"),
        "dense": ("inputs", "queries"),
    }  # fmt: skip

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(layer, Heads(config.n_head, config.n_head, config.head_dim), None)
        for name in ("Wq", "Wk", "Wv"):
            self.add_module(name, Linear(config.n_embd, config.n_embd))
        self.dense = ResidualLinear(config.n_embd, config.n_embd)
        self.joined = JoinedLinear("Wq", "Wk", "Wv")

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        return self.dense(self.attend(self.joined(self, x), text), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and its residual."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.multi_head_attention = Attention(config, layer)
        self.ffn = FeedForward(config.n_embd, config.dff, "relu", names=("0", "2"))
        self.layernorm1, self.layernorm2 = (LayerNorm(config.n_embd, EPSILON) for _ in range(2))

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, n_embd) → (..., T, n_embd)."""
        x = self.multi_head_attention(self.layernorm1(x), text, x)
        return self.ffn(self.layernorm2(x), x)


class Stack(DecoderStack):
    """The decoder; a position's sines and cosines are added to the token's scaled vector."""

    tokens, blocks, last_norm = "w", "h", "layernorm"

    def __init__(self, config: Config) -> None:
        blocks = (Block(config, layer) for layer in range(config.n_layer))
        super().__init__(config.vocab_size, config.n_embd, blocks, LayerNorm(config.n_embd, config.layer_norm_epsilon))
        self.scale = sqrt(config.n_embd)
        self.register_buffer("places", paired_sinusoids(config.n_positions, config.n_embd), persistent=False)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        positions = text.positions(tokens)
        places = index_select(self.places, 0, positions.reshape(-1)).reshape(*positions.shape, -1)
        x: Tensor = self.embedding(tokens) * self.scale + places
        return x


class CTRLLMHeadModel(CausalLanguageModel):
    """The language model; its head has a bias."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        super().__init__(config, Stack(config), bias=True)


TASKS = {"causal-lm": CTRLLMHeadModel}

"""GPT-2 (Radford et al. 2019): learned positions, layer norms before each part, a plain feed-forward layer, biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, LayerNorm, Module
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import activated, activation_named
from pyapp.nn.layers.linear import TransposedLinear

from .loading.config import check_fields, read_config, require
from .loading.gguf import Gguf

MODEL_TYPES = ("gpt2",)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json."""

    vocab_size: int
    n_positions: int = 1024
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.n_embd % self.n_head == 0, f"n_head {self.n_head} does not divide n_embd {self.n_embd}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        return read_config(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": "gpt2"} | asdict(self)

    @property
    def hidden_size(self) -> int:
        return self.n_embd

    @property
    def num_hidden_layers(self) -> int:
        return self.n_layer

    @property
    def num_attention_heads(self) -> int:
        return self.n_head

    @property
    def num_key_value_heads(self) -> int:
        return self.n_head

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head

    @property
    def max_seq_len(self) -> int:
        return self.n_positions


class Attention(SelfAttention):
    """Self-attention from one projection of queries, keys and values."""

    tensor_parallel = {"c_attn": ("outputs", "queries", "keys", "keys"), "c_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int) -> None:
        scale = 1 / sqrt(config.head_dim) if config.scale_attn_weights else 1.0
        scale = scale / (layer + 1) if config.scale_attn_by_inverse_layer_idx else scale
        super().__init__(layer, Heads(config.n_head, config.n_head, config.head_dim, scale=scale), None)
        self.c_attn = TransposedLinear(config.n_embd, 3 * config.n_embd)
        self.c_proj = TransposedLinear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        return self.c_proj(self.attend(self.c_attn(x), text), residual)


class FeedForward(Module):
    """c_proj(activation(c_fc x)), added to the residual."""

    tensor_parallel = {"c_fc": ("outputs", "inner"), "c_proj": ("inputs", "inner")}

    def __init__(self, config: Config) -> None:
        super().__init__()
        inner = config.n_inner or 4 * config.n_embd
        self.activation = activation_named(config.activation_function)
        self.c_fc = TransposedLinear(config.n_embd, inner)
        self.c_proj = TransposedLinear(inner, config.n_embd)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., n_embd) → residual + feed-forward (..., n_embd)."""
        return self.c_proj(activated(self.c_fc, x, self.activation), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = Attention(config, layer)
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, n_embd) → (..., T, n_embd)."""
        x = self.attn(self.ln_1(x), text, x)
        return self.mlp(self.ln_2(x), x)


class GPT2Stack(DecoderStack):
    """The decoder; a position's embedding is added to the token's."""

    tokens, blocks, last_norm = "wte", "h", "ln_f"

    def __init__(self, config: Config) -> None:
        norm = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        blocks = (Block(config, layer) for layer in range(config.n_layer))
        super().__init__(config.vocab_size, config.n_embd, blocks, norm)
        self.wpe = Embedding(config.n_positions, config.n_embd)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.wte(tokens) + self.wpe(text.positions(tokens))


class GPT2LMHeadModel(CausalLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        super().__init__(config, GPT2Stack(config))


GGUF = Gguf(
    "gpt2",
    names={
        "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
        "lm_head": "output", "transformer.h.{}.ln_1": "blk.{}.attn_norm", "transformer.h.{}.ln_2": "blk.{}.ffn_norm",
        "transformer.h.{}.attn.c_attn": "blk.{}.attn_qkv", "transformer.h.{}.attn.c_proj": "blk.{}.attn_output",
        "transformer.h.{}.mlp.c_fc": "blk.{}.ffn_up", "transformer.h.{}.mlp.c_proj": "blk.{}.ffn_down",
    },
    keys={
        "n_positions": "context_length", "n_embd": "embedding_length", "n_layer": "block_count",
        "n_head": "attention.head_count", "layer_norm_epsilon": "attention.layer_norm_epsilon",
    },
    unsaid=("n_inner",),  # as a number where it is None
    write=lambda config: {"feed_forward_length": config.n_inner or 4 * config.n_embd},
    read=lambda found, values: found | {"n_inner": values.get("feed_forward_length")},
    transposed=("c_attn.weight", "c_proj.weight", "c_fc.weight"),
)  # fmt: skip
TASKS = {"causal-lm": GPT2LMHeadModel}

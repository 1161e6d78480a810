"""Llama (Touvron et al. 2023, arXiv 2302.13971 and 2307.09288; Llama 3: arXiv 2407.21783): a pre-norm transformer with
rotary positions, grouped heads and SwiGLU. Hugging Face's configuration and names.

Also TinyLlama, SmolLM2, Yi and others of this architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, KVCache, Linear, Module, ModuleList, ResidualLinear, RMSNorm
from pyapp.nn.decoder import CausalLanguageModel, Heads, RotaryTable, Text
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.layers.joined import JoinedLinear

from .loading.config import check_fields, check_heads, read_config, rope_parameters

MODEL_TYPES = ("llama",)


@dataclass(frozen=True)
class Config:
    """The fields of config.json."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rope_parameters: dict[str, Any]
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_heads(
            self.hidden_size, self.num_attention_heads, self.num_key_value_heads, self.head_dim,
            self.max_position_embeddings,
        )  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        heads, hidden = values.get("num_attention_heads"), values.get("hidden_size")
        divides = type(heads) is int and type(hidden) is int and heads > 0
        derived = {
            "num_key_value_heads": heads,
            "head_dim": hidden // heads if divides else None,
            "max_position_embeddings": 2048,
        }
        given = {name: value for name, value in values.items() if value is not None}
        return read_config(cls, derived | given | {"rope_parameters": rope_parameters(values)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": "llama"} | asdict(self)

    @property
    def max_seq_len(self) -> int:
        return self.max_position_embeddings


class Attention(Module):
    """Causal self-attention with rotary positions and grouped heads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = Heads(config.num_attention_heads, config.num_key_value_heads, config.head_dim)
        inner, kv = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
        self.q_proj = Linear(config.hidden_size, inner, bias=config.attention_bias)
        self.k_proj = Linear(config.hidden_size, kv, bias=config.attention_bias)
        self.v_proj = Linear(config.hidden_size, kv, bias=config.attention_bias)
        self.o_proj = ResidualLinear(inner, config.hidden_size, bias=config.attention_bias)
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def forward(self, x: Tensor, residual: Tensor, text: Text, layer: int, table: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        return self.o_proj(text.attention(layer, self.qkv(self, x), self.heads, table), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = GatedFeedForward(config.hidden_size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, text: Text, layer: int, table: Tensor) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size), as layer `layer` of `text`."""
        x = self.self_attn(self.input_layernorm(x), x, text, layer, table)
        return self.mlp(self.post_attention_layernorm(x), x)


class LlamaModel(Module):
    """The embedding, the blocks and the last norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> Tensor:
        """tokens (..., T) → (..., T, hidden_size)."""
        x = self.embed_tokens(tokens)  # (..., T, hidden_size)
        for i, layer in enumerate(self.layers):
            x = layer(x, text, i, table)
        return x


class LlamaForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = LlamaModel(config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        theta = config.rope_parameters["rope_theta"]
        make = partial(ops.rope_table, head_dim=config.head_dim, theta=theta)
        self.rotary = RotaryTable(make, config.max_position_embeddings)

    @property
    def embedding(self) -> Embedding:
        return self.model.embed_tokens

    def hidden(self, tokens: Tensor, text: Text) -> Tensor:
        """tokens (..., T) → the last layer's output (..., T, hidden_size)."""
        return self.model(tokens, text, self.rotary.upto(text.length, self.device))

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return self.lm_head(self.model.norm(x))

    def new_cache(self, capacity: int | None = None) -> KVCache:
        """An empty cache for `capacity` tokens (max_position_embeddings by default)."""
        config, capacity = self.config, capacity or self.config.max_seq_len
        self.rotary.upto(capacity, self.device)
        return KVCache(config.num_hidden_layers, config.num_key_value_heads, capacity, config.head_dim, self.device)


TASKS = {"causal-lm": LlamaForCausalLM}

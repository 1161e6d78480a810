"""Blocks that many decoder-only language models have: attention with normalised queries and keys, the orders of norms
around attention and feed-forward, and the model of such blocks with rotary positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops import cat
from ..heads import Heads, split_heads
from ..layers.embedding import Embedding
from ..layers.feed_forward import FeedForward
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm, RMSNorm
from ..module import Module
from ..parameter import new_parameter
from .decoder import (
    CausalLanguageModel,
    DecoderStack,
    GroupedQueryAttention,
    RotaryTable,
    SelfAttention,
    Text,
    heads_together,
    normalized_heads,
)


class HeadNorm(Module):
    """A layer norm of each head, with a weight, and a bias if `bias`, for each feature of each head."""

    def __init__(self, heads: int, head_dim: int, epsilon: float, bias: bool = False) -> None:
        super().__init__()
        self.weight = new_parameter(ops.ones, heads, head_dim)
        self.bias = new_parameter(ops.zeros, heads, head_dim) if bias else None
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """x (..., H, D) → (..., H, D)."""
        y: Tensor = ops.layer_norm(x, x.shape[-1:], None, None, self.epsilon) * self.weight
        return y if self.bias is None else y + self.bias


class HeadNormAttention(GroupedQueryAttention):
    """Self-attention whose queries and keys are normalised head by head, by norms that `norm(features, epsilon)`
    makes; `norms` are their names.
    """

    norms = "q_norm", "k_norm"

    @property
    def tensor_parallel(self) -> Mapping[str, tuple[str, ...]]:  # type: ignore[override]
        """How several processes divide the layers (nn/tensor_parallel.py)."""
        return {**GroupedQueryAttention.tensor_parallel, **dict.fromkeys(self.norms, ("between",))}

    def __init__(
        self, layer: int, hidden_size: int, heads: Heads, rotary: RotaryTable | None, epsilon: float, *,
        bias: bool = False, output_bias: bool | None = None, norm: Callable[[int, float], Module] = RMSNorm,
    ) -> None:  # fmt: skip
        super().__init__(layer, hidden_size, heads, rotary, bias=bias, output_bias=output_bias)
        for name in self.norms:
            self.add_module(name, norm(heads.head_dim, epsilon))

    def normalized(self, qkv: Tensor) -> Tensor:
        q_norm, k_norm = (self.get_submodule(name) for name in self.norms)
        return normalized_heads(qkv, self.heads, q_norm, k_norm)


class GatedOutputAttention(HeadNormAttention):
    """Self-attention with normalised queries and keys, whose result is multiplied by activation(g_proj x), a number for
    each head, or for each feature where `wide`.
    """

    @property
    def tensor_parallel(self) -> Mapping[str, tuple[str, ...]]:  # type: ignore[override]
        return {**super().tensor_parallel, "g_proj": ("outputs", "queries" if self.wide else "heads")}

    def __init__(
        self, layer: int, hidden_size: int, heads: Heads, rotary: RotaryTable | None, epsilon: float,
        activation: Callable[[Tensor], Tensor], wide: bool = False, *, bias: bool = False,
        norm: Callable[[int, float], Module] = RMSNorm,
    ) -> None:  # fmt: skip
        super().__init__(layer, hidden_size, heads, rotary, epsilon, bias=bias, norm=norm)
        self.activation, self.wide = activation, wide
        self.g_proj = Linear(hidden_size, heads.heads * (heads.head_dim if wide else 1), bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        y, gates = self.attend(self.normalized(self.qkv(self, x)), text), self.activation(self.g_proj(x))
        if not self.wide:
            each = y.reshape(*x.shape[:-1], -1, self.heads.head_dim) * gates.unsqueeze(-1)
            return self.o_proj(each.reshape(y.shape), residual)
        return self.o_proj(y * gates, residual)


class JointNormAttention(GroupedQueryAttention):
    """Self-attention whose queries and keys are normalised, all heads together."""

    def __init__(
        self, layer: int, hidden_size: int, heads: Heads, rotary: RotaryTable | None, epsilon: float, *,
        bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(layer, hidden_size, heads, rotary, bias=bias)
        self.q_norm = RMSNorm(heads.heads * heads.head_dim, epsilon)
        self.k_norm = RMSNorm(heads.kv_heads * heads.head_dim, epsilon)

    def normalized(self, qkv: Tensor) -> Tensor:
        inner, kv = self.q_proj.out_features, self.k_proj.out_features
        q, k = self.q_norm(qkv.narrow(-1, 0, inner)), self.k_norm(qkv.narrow(-1, inner, kv))
        return cat([q, k, qkv.narrow(-1, inner + kv, kv)], -1)


class LateNormAttention(HeadNormAttention):
    """Self-attention whose queries and keys are normalised head by head after they are rotated."""

    norms = "query_layernorm", "key_layernorm"

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        heads, rotary = self.heads, self.rotary
        assert rotary is not None
        q, k, v = split_heads(self.qkv(self, x), heads)
        turned = text.rotated(rotary, heads.interleaved, q, k)
        q, k = (self.get_submodule(name)(part) for name, part in zip(self.norms, turned, strict=True))
        qkv = cat([q, k, v], -2).reshape(*x.shape[:-1], heads.width)
        y: Tensor = self._modules[self.output](text.attention(self.layer, qkv, heads, None), residual)
        return y


class SinkAttention(GroupedQueryAttention):
    """Self-attention with a score of each head for no token (Xiao et al. 2023, arXiv 2309.17453)."""

    tensor_parallel = {**GroupedQueryAttention.tensor_parallel, "sinks": ("heads",)}  # by nn/tensor_parallel.py

    def __init__(
        self, layer: int, hidden_size: int, heads: Heads, rotary: RotaryTable | None, *, bias: bool = False
    ) -> None:
        super().__init__(layer, hidden_size, heads, rotary, bias=bias)
        self.sinks = new_parameter(ops.zeros, heads.heads)

    def attend(self, qkv: Tensor, text: Text) -> Tensor:
        return text.attention(self.layer, qkv, replace(self.heads, sinks=self.sinks), self.rotary)


def grown(positions: Tensor, growth: float, period: int, first: int = 0) -> Tensor:
    """What the queries at positions (…) are multiplied by, (…) float32: 1 + growth log(1 + floor((p + first) / period))
    (Nakanishi 2025, arXiv 2501.19399; Llama 4).
    """
    return (((positions.to("float32") + first) * (1 / period)).floor() + 1).log() * growth + 1


class GrowingQueryAttention(GroupedQueryAttention):
    """Self-attention whose queries grow with their positions as `grown` says. growth 0: they do not."""

    def __init__(
        self, layer: int, hidden_size: int, heads: Heads, rotary: RotaryTable | None, growth: float, period: int,
        first: int = 0, *, bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(layer, hidden_size, heads, rotary, bias=bias)
        self.growth, self.period, self.first = growth, period, first

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        if not self.growth:
            return super().forward(x, text, residual)
        qkv, inner = self.qkv(self, x), self.heads.heads * self.heads.head_dim
        scale = grown(text.positions(x.select(-1, 0)), self.growth, self.period, self.first)
        queries = qkv.narrow(-1, 0, inner) * scale.unsqueeze(-1)
        qkv = cat([queries, qkv.narrow(-1, inner, qkv.shape[-1] - inner)], -1)
        return self.o_proj(self.attend(self.normalized(qkv), text), residual)


class HeadByHeadAttention(SelfAttention):
    """Self-attention from one projection: query, key and value of one head after another (GPT-NeoX)."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {
        "query_key_value": ("outputs", "groups"), "dense": ("inputs", "queries"),
    }  # fmt: skip

    def __init__(
        self, layer: int, hidden_size: int, heads: Heads, rotary: RotaryTable, *, bias: bool = True
    ) -> None:  # fmt: skip
        super().__init__(layer, heads, rotary)
        self.query_key_value = Linear(hidden_size, heads.width, bias=bias)
        self.dense = ResidualLinear(heads.heads * heads.head_dim, hidden_size, bias=bias)

    def normalized(self, qkv: Tensor) -> Tensor:
        """[q, k, v] with normalised queries and keys, in models that have norms there."""
        return qkv

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        qkv = self.normalized(heads_together(self.query_key_value(x), self.heads))
        return self.dense(self.attend(qkv, text), residual)


class PreNormBlock(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it, under Llama's names."""

    def __init__(self, attention: Module, feed_forward: Module, first_norm: Module, second_norm: Module) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = feed_forward
        self.input_layernorm = first_norm
        self.post_attention_layernorm = second_norm

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return y


class PostNormBlock(Module):
    """Attention and feed-forward, each with a norm after it, added to the residual (OLMo 2, arXiv 2501.00656). `norm`
    makes a norm.
    """

    def __init__(self, attention: Module, feed_forward: Module, norm: Callable[[], Module]) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = feed_forward
        self.post_attention_layernorm = norm()
        self.post_feedforward_layernorm = norm()

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = x + self.post_attention_layernorm(self.self_attn(x, text))
        return x + self.post_feedforward_layernorm(self.mlp(x))


class ParallelBlock(Module):
    """Attention and feed-forward of the same norm, both added to the residual, under Llama's names."""

    def __init__(self, attention: Module, feed_forward: Module, norm: Module) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = feed_forward
        self.input_layernorm = norm

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        own = self.input_layernorm(x)
        y: Tensor = self.mlp(own, self.self_attn(own, text, x))
        return y


class SandwichNormBlock(Module):
    """Attention and feed-forward, each between two norms, with a residual around it (Ding et al. 2021, arXiv
    2105.13290), under Gemma's names. `norm` makes a norm; `attention_norm` is the name of that after the attention,
    `inner` are those around the feed-forward part.
    """

    attention_norm = "post_attention_layernorm"
    inner = "pre_feedforward_layernorm", "post_feedforward_layernorm"

    def __init__(self, attention: Module, feed_forward: Module, norm: Callable[[], Module]) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = feed_forward
        self.input_layernorm = norm()
        for name in (self.attention_norm, *self.inner):
            self.add_module(name, norm())

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = x + self._modules[self.attention_norm](self.self_attn(self.input_layernorm(x), text))
        before, after = (self._modules[name] for name in self.inner)
        y: Tensor = x + after(self.mlp(before(x)))
        return y


class RootScaledStack(DecoderStack):
    """A decoder whose embeddings are scaled by the root of their size."""

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embedding(tokens) * sqrt(self.embedding.embedding_dim)


class GPT2Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it, under GPT-2's names."""

    def __init__(self, config: Any, attention: Module, feed_forward: Module) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = attention
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = feed_forward

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, n_embd) → (..., T, n_embd)."""
        x = self.attn(self.ln_1(x), text, x)
        y: Tensor = self.mlp(self.ln_2(x), x)
        return y


class GPT2Stack(DecoderStack):
    """GPT-2's decoder; a position's embedding is added to the token's."""

    tokens, blocks, last_norm = "wte", "h", "ln_f"

    def __init__(self, config: Any, layers: Iterable[Module]) -> None:
        norm = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        super().__init__(config.vocab_size, config.n_embd, layers, norm)
        self.wpe = Embedding(config.n_positions, config.n_embd)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        x: Tensor = self.embedding(tokens) + self.wpe(text.positions(tokens))
        return x


class GPT2LanguageModel(CausalLanguageModel):
    """The language model of GPT-2 and its kin: `attention(config, layer)` makes the attention of a layer. `transposed`:
    whether files have the matrices of the feed-forward parts by columns.
    """

    base_model_prefix = "transformer"
    attention: Callable[[Any, int], Module]
    transposed = False

    def __init__(self, config: Any) -> None:
        def block(layer: int) -> GPT2Block:
            names = "c_fc", "c_proj"
            inner = FeedForward(
                config.n_embd, config.inner_size, config.activation_function, names=names, transposed=self.transposed
            )
            return GPT2Block(config, type(self).attention(config, layer), inner)

        super().__init__(config, GPT2Stack(config, (block(layer) for layer in range(config.n_layer))))


class RotaryLanguageModel(CausalLanguageModel):
    """A language model whose layers share a table of rotary angles: `block(config, layer, rotary)` makes a layer,
    `norm` is the last norm, `stack` the class of the decoder.
    """

    def __init__(
        self, config: Any, block: Callable[[Any, int, RotaryTable], Module], norm: Module, *,
        stack: type[DecoderStack] = DecoderStack, bias: bool = False,
    ) -> None:  # fmt: skip
        rotary = RotaryTable(config.to_dict())
        blocks = (block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, stack(config.vocab_size, config.hidden_size, blocks, norm), bias=bias)

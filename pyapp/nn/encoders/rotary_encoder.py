"""Encoders with rotary positions: their attention, the encoder of Nomic BERT, GTE and Jina Embeddings v3 with norms
after each part, and that of EuroBERT, UltraBERT and ESM C with norms before each part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...engine import Tensor, ops
from ..decoders.decoder import RotaryTable
from ..heads import Heads
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.feed_forward import FeedForward
from ..layers.gated import GatedFeedForward
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from .encoders import Encoder, Pooler, attend, visible_keys


class RotaryAttention(Module):
    """Attention of each text to itself, with rotary positions or none; heads may share keys and values, and attend only
    to keys at most `heads.window` tokens away. `key_bias`: whether keys have a bias, too.
    """

    def __init__(self, width: int, heads: Heads, bias: bool = False, key_bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        inner, kv = heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim
        self.q_proj = Linear(width, inner, bias=bias)
        self.k_proj = Linear(width, kv, bias=bias and key_bias)
        self.v_proj = Linear(width, kv, bias=bias)
        self.o_proj = ResidualLinear(inner, width, bias=bias)
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def normalized(self, qkv: Tensor) -> Tensor:
        """[q, k, v] (B, T, …) with normalised queries and keys, in models that have norms there."""
        return qkv

    def forward(
        self, x: Tensor, mask: Tensor | None, table: Tensor | None, residual: Tensor | None = None
    ) -> Tensor:  # fmt: skip
        """x and residual (B, T, D) → residual + attention, or the attention alone (B, T, D)."""
        heads, kv, window = self.heads.heads, self.heads.kv_heads, self.heads.window
        parts = self.normalized(self.qkv(self, x)).reshape(*x.shape[:2], heads + 2 * kv, self.heads.head_dim)
        qk = parts.narrow(2, 0, heads + kv)
        if table is not None:
            qk = ops.rope(qk, table, interleaved=self.heads.interleaved)
        q, k, v = qk.narrow(2, 0, heads), qk.narrow(2, heads, kv), parts.narrow(2, heads + kv, kv)
        if kv != heads and (mask is not None or window is not None):
            k, v = (part.repeat_interleave(heads // kv, 2) for part in (k, v))  # (B, T, H, size)
        return self.o_proj(attend(q, k, v, mask, self.heads.scale, window), residual)


class NormFirstRotaryEncoder(Encoder):
    """An encoder of Llama's blocks, called with (x, mask, table of rotary positions), and a norm after them. It has no
    token types: those given are ignored. `config` has the fields of a decoder.
    """

    def __init__(self, config: Any, layers: Iterable[Module], norm: Module) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = ModuleList(layers)
        self.norm = norm
        self.rotary: Any = self.rotary_tables()

    def rotary_tables(self) -> Any:
        """The table of rotary positions; several, by kind, where layers differ."""
        return RotaryTable(self.config.to_dict())

    def tables(self, length: int) -> Any:
        """What layers get of the tables for texts of a length."""
        return self.rotary.upto(length, self.device)

    @property
    def word_embeddings(self) -> Embedding:
        return self.embed_tokens

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask)
        mask, tables = visible_keys(attention_mask), self.tables(ids.shape[1])
        x = self.embed_tokens(ids)  # (B, T, D)
        for layer in self.layers:
            x = layer(x, mask, tables)
        y: Tensor = self.norm(x)
        return y


class TypedEmbeddings(Module):
    """The sum of a token's word and type, if there are types, normalised."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.token_type_embeddings = (
            Embedding(config.type_vocab_size, config.hidden_size) if config.type_vocab_size else None
        )  # fmt: skip
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, ids: Tensor, type_ids: Tensor | None) -> Tensor:
        """ids and type_ids (B, T) → (B, T, D)."""
        x = self.word_embeddings(ids)
        if self.token_type_embeddings is None:
            return self.LayerNorm(x)
        types = ops.zeros(1, dtype="int32", device=ids.device) if type_ids is None else type_ids
        return self.LayerNorm(x + self.token_type_embeddings(types))


def rotary_feed_forward(config: Any) -> Module:
    """The feed-forward part of a block; the last projection of a gated one has a bias if attention has."""
    sizes = config.hidden_size, config.intermediate_size
    if not config.gated:
        return FeedForward(*sizes, config.hidden_act)
    found = GatedFeedForward(*sizes, config.hidden_act)
    if config.bias:
        found.down_proj = ResidualLinear(config.intermediate_size, config.hidden_size)
    return found


class RotaryBlock(Module):
    """Attention and the feed-forward part `mlp`, each followed by a norm."""

    def __init__(self, config: Any, mlp: Module) -> None:
        super().__init__()
        heads = config.num_attention_heads
        self.self_attn = RotaryAttention(config.hidden_size, Heads(heads, heads, config.size), config.bias)
        self.post_attention_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = mlp
        self.post_mlp_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.post_attention_layernorm(self.self_attn(x, mask, table, x))
        return self.post_mlp_layernorm(self.mlp(x, x))


class RotaryEncoder(Encoder):
    """The encoder; with `pooler`, also a layer over the first token. `config` has the fields of BERT, rope_parameters,
    the `size` of a head, whether there is a `bias` of attention and of the last projection, and whether feed-forward
    parts are `gated`.
    """

    def __init__(self, config: Any, pooler: bool = False) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = TypedEmbeddings(config)
        self.layers = ModuleList(
            RotaryBlock(config, self.feed_forward(config, layer)) for layer in range(config.num_hidden_layers)
        )
        self.pooler: Pooler | None = Pooler(config.hidden_size) if pooler else None
        self.rotary = RotaryTable(config.to_dict())

    def feed_forward(self, config: Any, layer: int) -> Module:
        """The feed-forward part of a layer."""
        return rotary_feed_forward(config)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        mask, table = visible_keys(attention_mask), self.rotary.upto(ids.shape[1], self.device)
        x = self.embeddings(ids, type_ids)
        for layer in self.layers:
            x = layer(x, mask, table)
        return x

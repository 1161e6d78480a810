"""LongT5 (Guo et al. 2021, arXiv 2112.07916): T5 for long sources. A token of the encoder attends to those near it, or
also to a sum of each block of tokens ("transient global").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, Module, RMSNorm
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.positions.relative_positions import distance_bias, distance_buckets
from pyapp.nn.sequence_to_sequence.t5 import T5, Attention, Stack, T5Encoder

from .loading.config import require
from .loading.t5_config import T5Config, t5_adapted

MODEL_TYPES = ("longt5",)
BASE = "transformer"  # what some files put before the names
LOCAL, GLOBAL = "local", "transient-global"
MOST_BIASES = 1 << 24  # numbers of the biases that are in memory together
adapted = t5_adapted


@dataclass(frozen=True)
class Config(T5Config):
    """The fields of config.json. A token sees those at most `local_radius` away, and sums of `global_block_size`."""

    local_radius: int = 127
    global_block_size: int = 16
    encoder_attention_type: str = LOCAL
    kind: str = "longt5"

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, radius = self.encoder_attention_type, self.local_radius
        require(kind in (LOCAL, GLOBAL), f"encoder_attention_type is {kind!r:.40}, expected {LOCAL} or {GLOBAL}")
        require(radius <= 1 << 14, f"local_radius is {radius:,}, expected 16,384 or less")


def in_blocks(x: Tensor, size: int) -> Tensor:
    """(B, T, ...) → (B, N, size, ...), with zeros after the T."""
    missing = -x.shape[1] % size
    if missing:
        x = ops.cat([x, ops.zeros(x.shape[0], missing, *x.shape[2:], dtype=x.dtype, device=x.device)], 1)
    return x.reshape(x.shape[0], x.shape[1] // size, size, *x.shape[2:])


def with_neighbours(x: Tensor) -> Tensor:
    """Blocks (B, N, S, ...) → (B, N, 3 S, ...): each between the one before it and the one after it."""
    count = x.shape[1]
    end = ops.zeros(x.shape[0], 1, *x.shape[2:], dtype=x.dtype, device=x.device)
    wide = ops.cat([end, x, end], 1)  # (B, N + 2, S, ...)
    return ops.cat([wide.narrow(1, i, count) for i in range(3)], 2)


class Near:
    """What the tokens of texts see: keys of their own block and of the two beside it, and the sums of all blocks of
    `global_block_size` tokens. mask (B, T) bool: False for padding. `first`: the attention that has the biases.
    """

    def __init__(self, config: Config, mask: Tensor, first: Attention) -> None:
        radius, heads, tokens = config.local_radius, config.num_heads, mask.shape[1]
        self.size = size = min(radius + 1, tokens)
        buckets = partial(
            distance_buckets, buckets=config.relative_attention_num_buckets,
            most=config.relative_attention_max_distance,
        )  # fmt: skip
        places = ops.arange(3 * size, dtype="int32", device=mask.device) - size
        away = (places - ops.arange(size, dtype="int32", device=mask.device).unsqueeze(1)).abs()  # (S, 3 S)
        bias = distance_bias(first.relative_attention_bias.weight, buckets(size, 3 * size, first=size))
        self.bias = ops.where(away <= radius, bias, float("-inf"))  # (1, H, S, 3 S)
        self.keys = with_neighbours(in_blocks(mask, size))  # (B, N, 3 S)
        self.sums = 0
        if config.encoder_attention_type == GLOBAL:
            self._divide(config, mask, tokens // config.global_block_size)
            far = buckets(1, 2 * self.sums, first=self.sums - 1) if self.sums else buckets(1, 1)
            self.distances = distance_bias(first.global_relative_attention_bias.weight, far).reshape(heads, -1)

    def _divide(self, config: Config, mask: Tensor, sums: int) -> None:
        """The block of each token: the tokens after the last whole block belong to it, padding to none."""
        size, places = config.global_block_size, ops.arange(mask.shape[1], dtype="int32", device=mask.device)
        self.sums = sums
        own = places.floor_divide(size)  # (T,)
        ends = (places - own * size == size - 1).logical_and(mask)  # (B, T): the last tokens of whole blocks
        last = ends.to("int32").sum(1, keepdim=True).to("int32") - 1  # (B, 1)
        blocks = ops.minimum(own.unsqueeze(0), last)  # (B, T)
        self.blocks = ops.where(mask, blocks, -1)  # (B, T)
        count = self.blocks.amax(1, keepdim=True)  # (B, 1)
        self.there = ops.arange(sums, dtype="int32", device=mask.device) <= count  # (B, G)

    def summed(self, x: Tensor) -> Tensor:
        """x (B, T, D) → the sums (B, G, D) of the tokens of each block."""
        batch, _, width = x.shape
        rows = ops.where(self.blocks < 0, self.sums, self.blocks)  # (B, T)
        rows = rows + ops.arange(batch, dtype="int32", device=x.device).unsqueeze(1) * (self.sums + 1)
        into = ops.zeros(batch * (self.sums + 1), width, dtype=x.dtype, device=x.device)
        sums = into.index_add(0, rows.reshape(-1).to("int64"), x.reshape(-1, width))
        return sums.reshape(batch, self.sums + 1, width).narrow(1, 0, self.sums)

    def shown(self, first: int, count: int) -> Tensor:
        """The biases (B * count, H, S, 3 S + G) of the tokens of `count` blocks from the block `first` on."""
        batch, rows = self.keys.shape[0], self.keys.shape[0] * count
        keys = self.keys.narrow(1, first, count).reshape(rows, 1, 1, 3 * self.size)
        near = ops.where(keys, self.bias, float("-inf"))  # (B * count, H, S, 3 S)
        if not self.sums:
            return near
        blocks = in_blocks(self.blocks, self.size).narrow(1, first, count)  # (B, count, S)
        places = ops.arange(self.sums, dtype="int32", device=blocks.device) + self.sums - 1
        far = self.distances[:, (places - blocks.unsqueeze(-1)).to("int64")]  # (H, B, count, S, G)
        far = ops.where(self.there.reshape(1, batch, 1, 1, self.sums), far, float("-inf"))
        far = far.permute(1, 2, 0, 3, 4).reshape(rows, -1, self.size, self.sums)
        return ops.cat([near, far], 3)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, sums: tuple[Tensor, Tensor] | None) -> Tensor:
        """q, k, v (B, T, H, D), keys and values (B, G, H, D) of the sums → (B, T, H * D)."""
        batch, tokens, heads, width = q.shape
        queries = in_blocks(q, self.size)  # (B, N, S, H, D)
        pair = [with_neighbours(in_blocks(part, self.size)) for part in (k, v)]  # (B, N, 3 S, H, D)
        blocks = queries.shape[1]
        step = max(1, MOST_BIASES // (batch * heads * self.size * (3 * self.size + self.sums)))
        found = []
        for first in range(0, blocks, step):
            count = min(step, blocks - first)
            near = [part.narrow(1, first, count) for part in pair]
            if sums is not None:
                wide = (batch, count, self.sums, heads, width)
                near = [ops.cat([part, more.unsqueeze(1).expand(*wide)], 2)
                        for part, more in zip(near, sums, strict=True)]  # fmt: skip
            own = queries.narrow(1, first, count).reshape(batch * count, self.size, heads, width)
            k, v = (part.reshape(batch * count, -1, heads, width) for part in near)  # (B * count, 3 S + G, H, D)
            y = attend(own, k, v, self.shown(first, count), 1.0)
            found.append(y.reshape(batch, count * self.size, heads * width))
        return ops.cat(found, 1).narrow(1, 0, tokens)


class GlobalAttention(Attention):
    """The projections of attention, which also read sums of blocks."""

    def __init__(self, config: Config, biased: bool) -> None:
        super().__init__(config, biased)
        if biased:
            self.global_relative_attention_bias = Embedding(config.relative_attention_num_buckets, config.num_heads)
        self.global_input_layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)


class NearAttention(Module):
    """Attention of a source to itself, after a norm."""

    def __init__(self, config: Config, biased: bool) -> None:
        super().__init__()
        self.far = config.encoder_attention_type == GLOBAL
        name, kind = (
            ("TransientGlobalSelfAttention", GlobalAttention) if self.far else ("LocalSelfAttention", Attention)
        )
        self.add_module(name, kind(config, biased))
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    @property
    def own(self) -> Attention:
        """The projections, which files call by the kind of attention."""
        found: Attention = self.TransientGlobalSelfAttention if self.far else self.LocalSelfAttention
        return found

    def encode(self, x: Tensor, near: Near) -> Tensor:
        """x (B, T, d_model) → (B, T, d_model)."""
        own, y = self.own, self.layer_norm(x)
        parts = own.qkv(own, y).reshape(*x.shape[:2], 3 * own.heads, own.size)
        q, k, v = (parts.narrow(2, i * own.heads, own.heads) for i in range(3))  # (B, T, H, D)
        sums = own.project(own.global_input_layer_norm(near.summed(y))) if near.sums else None
        return own.o(near.attend(q, k, v, sums), x)


class NearStack(Stack):
    """The encoder."""

    def __init__(self, config: Config, table: Embedding) -> None:
        super().__init__(config, table, config.num_layers, decoder=False, attention=NearAttention)

    def encode(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        x = self.embed_tokens(ids)
        seen = ops.ones(*ids.shape, dtype="bool", device=x.device) if mask is None else mask.reshape(*ids.shape)
        near = Near(self.config, seen, self.block[0].layer[0].own)
        for block in self.block:
            attention, dense = block.layer
            x = dense(attention.encode(x, near))
        return self.final_layer_norm(x)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "seq2seq-lm": partial(T5, encoder=NearStack), "features": partial(T5Encoder, encoder=NearStack),
}  # fmt: skip

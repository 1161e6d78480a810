"""Language models some of whose layers attend to pictures (Grattafiori et al. 2024, arXiv 2407.21783, section 7.2):
a picture is one token of the text, and its vectors are keys and values of the cross-attention layers alone.

A token sees the last pictures before it: one, or those whose tokens stand side by side. Tokens before the first picture
attend to all vectors of all pictures, those of empty tiles included. So a text is read anew where its pictures change,
and all of them are in its first pass.

In a cache, the memory that a cross-attention layer has for the tokens of a text holds the vectors that its last token
sees, from the first place on; how many these are is a state of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...engine import Device, Tensor, ops
from ...errors import ArgumentError
from ..decoders.caches import FixedCache, PackedLayer
from ..decoders.decoder import GroupedQueryAttention
from ..heads import Heads
from ..layers.gated import GatedFeedForward
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import RMSNorm
from ..module import Module
from ..parameter import new_parameter
from ..recurrent.hybrid import CachedHybridText, HybridCache, WholeHybridText
from .picture_text import PlacedPicture, ends_of

Project = Callable[[Tensor], tuple[Tensor, Tensor]]  # vectors (S, D) → keys and values (S, KV, head_dim)


class Sight:
    """The vectors of pictures (S, D), one picture after another, and what the tokens of whole texts see of them:
    `pictures` of each text.
    """

    def __init__(self, vectors: Tensor, pictures: Sequence[Sequence[PlacedPicture]], tokens: int) -> None:
        total = sum(count for own in pictures for _, count, _ in own)
        if total != vectors.shape[0]:
            raise ArgumentError(f"the pictures have {vectors.shape[0]} vectors, expected {total}")
        self.vectors, device = vectors, vectors.device
        places = ops.arange(tokens, dtype="int32", device=device).unsqueeze(1)  # (T, 1)
        masks, sees, before = [], [], 0
        last: list[int] = []
        for own in pictures:
            ends = ends_of([place for place, _, _ in own], tokens)
            starts, stops, belongs = ([0] * before for _ in range(3))
            for (place, count, seen), end in zip(own, ends, strict=True):
                if end == tokens:
                    last += range(len(starts), len(starts) + seen)
                starts += [place] * seen + [tokens] * (count - seen)
                stops += [end] * seen + [tokens] * (count - seen)
                belongs += [1] * count
            rest = total - len(starts)
            begin, stop, mine = (
                ops.tensor(x + [fill] * rest, dtype="int32", device=device)
                for x, fill in ((starts, tokens), (stops, tokens), (belongs, 0))
            )  # (S,) each
            seen_here = (places >= begin) & (places < stop)  # (T, S)
            any_here = seen_here.any(1, keepdim=True)  # (T, 1)
            whole = (mine != 0) if own else ops.ones(total, dtype="bool", device=device)
            masks.append(ops.where(any_here, seen_here, whole))
            sees.append(any_here)
            before = len(starts)
        self.mask = ops.stack(masks).unsqueeze(1)  # (B, 1, T, S)
        self.sees = ops.stack(sees)  # (B, T, 1)
        self.attends = ops.tensor([bool(own) for own in pictures], device=device).reshape(-1, 1, 1)
        self._last = last

    def attend(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """q (B, T, H, D), keys and values (S, KV, D) → (B, T, H, D)."""
        keys, values = (x.unsqueeze(0).expand(q.shape[0], *x.shape) for x in (keys, values))
        return ops.attention(q, keys, values, False, mask=self.mask)

    def last(self, x: Tensor) -> Tensor:
        """The part of x (S, ...) that the last token of the only text sees."""
        return x.index_select(0, ops.tensor(self._last, dtype="int64", device=x.device))


class WholeTextWithSight(WholeHybridText):
    """Whole texts (B, T) with their pictures."""

    sight: Sight | None = None

    def looked(self, layer: int, q: Tensor, project: Project) -> tuple[Tensor, Tensor, Tensor] | None:
        """Attention of q (..., T, H, D) to pictures in a layer → (y (..., T, H * D), whether the texts have pictures
        and whether the tokens stand after one, both bool, of shapes that fit (..., T, 1)); None: there are no
        pictures.
        """
        sight = self.sight
        if sight is None:
            return None
        y = sight.attend(q, *project(sight.vectors))
        return y.reshape(*y.shape[:2], -1), sight.attends, sight.sees


class CachedTextWithSight(CachedHybridText):
    """The tokens (T,) at position[0] … of a text, or those of several texts, tokens (B, T) and position (B,). `sight`:
    the pictures of one text, whose first pass this is.
    """

    sight: Sight | None = None
    _count: Tensor | None = None

    def looked(self, layer: int, q: Tensor, project: Project) -> tuple[Tensor, Tensor, Tensor]:
        """As WholeTextWithSight.looked."""
        sight, cache = self.sight, self.layers[layer]
        if sight is None:
            assert isinstance(cache, FixedCache | PackedLayer)
            count = self._stored(q)  # (..., T, 1)
            y = cache.attend_to_first(q, count.narrow(-2, 0, 1).reshape(-1))
            there = count > 0.5
            return ops.where(there, y.reshape(*y.shape[:-2], -1), 0.0), there, there
        assert isinstance(cache, FixedCache)
        keys, values = project(sight.vectors)  # (S, KV, D)
        last = sight.last(keys)
        if last.shape[0] > self.length:
            raise ArgumentError(f"{last.shape[0]:,} vectors of pictures do not fit the cache of {self.length:,}")
        self._stored(q, last.shape[0])
        cache.write(last, sight.last(values), ops.zeros(1, dtype="int32", device=q.device))
        y = sight.attend(q.unsqueeze(0), keys, values)
        return y.reshape(q.shape[0], -1), sight.attends[0], sight.sees[0]

    def _stored(self, q: Tensor, written: int | None = None) -> Tensor:
        """(..., T, 1) float32: how many vectors are stored for each token's text; `written`: so many are now."""
        if self._count is None:

            def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
                state = state if written is None else ops.full_like(state, float(written))  # (B, 1)
                return state.unsqueeze(1).expand(*x.shape[:2], 1), state

            self._count = self.carry(len(self.layers) - 1, 0, step, q.narrow(-1, 0, 1).select(-2, 0))
        return self._count


class SightCache(HybridCache):
    """The cache of a decoder of `layers` layers, of which some attend to pictures; the last state is how many vectors
    are stored for a text. A text alone goes back to any of its tokens; several share none of its memory.
    """

    def __init__(
        self, layers: int, kv_heads: int, head_dim: int, capacity: int, texts: int | None = None,
        device: Device | str | None = None, dtype: Any = "float32",
    ) -> None:  # fmt: skip
        super().__init__([*[None] * layers, [(1,)]], kv_heads, head_dim, capacity, texts, device, dtype)
        self.by_token = texts is None

    def copy(self, source: int, target: int, length: int | None = None) -> None:
        """Text `target` becomes what text `source` is. There may be more vectors than tokens: all memory is copied."""
        super().copy(source, target)

    def reorder(self, order: Sequence[int], length: int | None = None) -> None:
        """Text i becomes what text order[i] was; all memory is copied."""
        super().reorder(order)


class CrossAttention(Module):
    """Attention of tokens to the vectors of pictures; the queries and keys of each head are normalised."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {
        **GroupedQueryAttention.tensor_parallel, **dict.fromkeys(("q_norm", "k_norm"), ("between",)),
    }  # fmt: skip

    def __init__(self, layer: int, width: int, heads: Heads, epsilon: float) -> None:
        super().__init__()
        self.layer, self.heads = layer, heads
        inner, kv = heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim
        self.q_proj = Linear(width, inner, bias=False)
        self.k_proj, self.v_proj = (Linear(width, kv, bias=False) for _ in range(2))
        self.o_proj = ResidualLinear(inner, width, bias=False)
        self.q_norm, self.k_norm = RMSNorm(heads.head_dim, epsilon), RMSNorm(heads.head_dim, epsilon)

    def project(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (S, D) → keys and values (S, KV, head_dim)."""
        keys, values = (
            layer(vectors).reshape(vectors.shape[0], self.heads.kv_heads, self.heads.head_dim)
            for layer in (self.k_proj, self.v_proj)
        )
        return self.k_norm(keys), values

    def forward(self, x: Tensor, text: Any) -> tuple[Tensor, Tensor, Tensor] | None:
        """x (..., T, D) → as WholeTextWithSight.looked, with y (..., T, D)."""
        q = self.q_norm(self.q_proj(x).reshape(*x.shape[:-1], self.heads.heads, self.heads.head_dim))
        found = text.looked(self.layer, q, self.project)
        return None if found is None else (self.o_proj(found[0]), *found[1:])


class CrossBlock(Module):
    """Attention to pictures and feed-forward, each with a norm before it, a gate after it and a residual around it. A
    text without pictures passes it as it is.
    """

    def __init__(self, attention: CrossAttention, feed_forward: GatedFeedForward, width: int, epsilon: float) -> None:
        super().__init__()
        self.cross_attn = attention
        self.mlp = feed_forward
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(width, epsilon), RMSNorm(width, epsilon)
        self.cross_attn_attn_gate, self.cross_attn_mlp_gate = (new_parameter(ops.zeros, 1) for _ in range(2))

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, D) → (..., T, D)."""
        found = self.cross_attn(self.input_layernorm(x), text)
        if found is None:
            return x
        y, attends, sees = found
        x = ops.where(attends, x + self.cross_attn_attn_gate.tanh() * y, x)
        inner = self.mlp(self.post_attention_layernorm(x))
        return ops.where(sees, x + self.cross_attn_mlp_gate.tanh() * inner, x)

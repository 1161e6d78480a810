"""Decoders of which some layers attend and others carry a state (nn/recurrent/recurrent.py): the texts that both kinds
of layers read, and the cache that has keys and values for the first and states for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...engine import Device, Tensor
from ...errors import ArgumentError
from ..decoders.caches import TextCache, decoder_cache
from ..decoders.decoder import CachedText, CausalLanguageModel, DecoderStack, WholeText
from ..module import Module
from .recurrent import CachedStates, StateCache, Step, WholeStates

__all__ = ["HybridCache", "HybridLanguageModel", "MixedCache", "uneven_cache"]

Shapes = Sequence[Sequence[tuple[int, ...]] | None]  # of the states of each layer; None: it attends


class WholeHybridText(WholeText):
    """Whole texts (B, T), for training. `mask` (B, T) is not 0 where a token belongs to its text; None: everywhere."""

    def __init__(self, tokens: int, mask: Tensor | None = None) -> None:
        super().__init__(tokens, mask)
        self._states = WholeStates(tokens, mask)

    def carry(self, layer: int, part: int, step: Step, *inputs: Tensor) -> Tensor:
        """As StateText.carry."""
        return self._states.carry(layer, part, step, *inputs)

    def masked(self, x: Tensor, value: float = 0.0) -> Tensor:
        """As StateText.masked."""
        return self._states.masked(x, value)


class CachedHybridText(CachedText):
    """The tokens (T,) at position[0] … of a text, or those of several texts, tokens (B, T) and position (B,)."""

    def __init__(self, position: Tensor, cache: TextCache) -> None:
        super().__init__(position, cache)
        self._states = CachedStates(position, cache)

    def carry(self, layer: int, part: int, step: Step, *inputs: Tensor) -> Tensor:
        """As StateText.carry."""
        return self._states.carry(layer, part, step, *inputs)

    def masked(self, x: Tensor, value: float = 0.0) -> Tensor:
        """As StateText.masked."""
        return x


class MixedCache:
    """The caches of a decoder's layers, of which some are in one cache of `parts` and some in another: `kinds[i]` is
    the part that has layer i. It does what each of the parts does.
    """

    CHANGES: tuple[str, ...] = ("copy", "reorder", "place")
    VIEWS: tuple[str, ...] = ("text", "first", "paged", "beside", "packed")
    by_token = True

    def __init__(self, kinds: Sequence[int], parts: Sequence[Any]) -> None:
        self._take(kinds, parts)

    def _take(self, kinds: Sequence[int], parts: Sequence[Any]) -> MixedCache:
        self._kinds, self._parts = kinds, parts
        self.capacity, self.texts = parts[0].capacity, getattr(parts[-1], "texts", 1)
        self.layers = _by_kind(kinds, parts)
        return self

    def _view(self, parts: Sequence[Any]) -> MixedCache:
        made = type(self).__new__(type(self))
        return made._take(self._kinds, parts)

    def text(self, index: int) -> MixedCache:
        """The cache of one text over the same memory, for tokens (T,) of this text alone, such as a prompt."""
        return self._view([part.text(index) for part in self._parts])

    def first(self, count: int) -> MixedCache:
        """A cache of the first `count` texts over the same memory."""
        return self._view([part.first(count) for part in self._parts])

    def paged(self, texts: int, blocks: int, block: int, capacity: int) -> MixedCache:
        """A cache of its own for `texts` texts of at most `capacity` tokens each, with memory for `blocks` blocks of
        `block` tokens, and as many states: that of a text is in the first of its blocks.
        """
        return self._view([part.paged(texts, blocks, block, capacity) for part in self._parts])

    def beside(self, texts: int) -> MixedCache:
        """A cache of other texts in the same memory, for blocks."""
        return self._view([part.beside(texts) for part in self._parts])

    def packed(self, pieces: Sequence[tuple[int, int]], rows: Sequence[int]) -> PackedMixed:
        """A cache over the same memory and tables for one pass over pieces of several texts, each (text, tokens);
        `rows` of them all are those whose logits are wanted.
        """
        return PackedMixed(self._kinds, [part.packed(pieces, rows) for part in self._parts])

    def place(self, text: int, start: int, blocks: Sequence[int]) -> None:
        """The parts start … of a text lie in these blocks."""
        for part in self._parts:
            part.place(text, start, blocks)

    def copy(self, source: int, target: int, length: int | None = None) -> None:
        """Text `target` becomes what text `source` is; of keys and values the first `length` tokens (all, by default)
        are copied.
        """
        for part in self._parts:
            part.copy(source, target, length)

    def reorder(self, order: Sequence[int], length: int | None = None) -> None:
        """Text i becomes what text order[i] was, as beam search and samplers need it."""
        for part in self._parts:
            part.reorder(order, length)

    @property
    def memories(self) -> list[Tensor]:
        """The memory of each part."""
        return [part.memory for part in self._parts]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)


def uneven_cache(
    sizes: Sequence[tuple[int, int]], texts: int | None, capacity: int, device: Device, dtype: Any
) -> Any:  # fmt: skip
    """The cache of layers with different heads, one part for each kind: `sizes` are (kv_heads, head_dim) of each layer
    that has keys and values.
    """
    kinds = sorted({*sizes})
    parts = [decoder_cache(texts, sizes.count(kind), kind[0], capacity, kind[1], device, dtype) for kind in kinds]
    return parts[0] if len(parts) == 1 else MixedCache([kinds.index(size) for size in sizes], parts)


class HybridCache(MixedCache):
    """The caches of a decoder's layers for `texts` texts that are decoded together; None: of one text. `shapes[i]` are
    those of the states of layer i, None where it attends: then its keys and values have `kv_heads` heads of `head_dim`
    features in `dtype`.

    As a StateCache, it goes back to the beginning of a text, or to a `snapshot`, and texts share none of its memory.
    """

    CHANGES, VIEWS = StateCache.CHANGES, StateCache.VIEWS
    by_token = False

    def __init__(
        self, shapes: Shapes, kv_heads: int, head_dim: int, capacity: int, texts: int | None = None,
        device: Device | str | None = None, dtype: Any = "float32",
    ) -> None:  # fmt: skip
        kinds = [int(shape is not None) for shape in shapes]
        if len({*kinds}) < 2:
            raise ArgumentError("HybridCache: some layers must attend, and some have states")
        keys = decoder_cache(texts, kinds.count(0), kv_heads, capacity, head_dim, device, dtype)
        states = StateCache([shape for shape in shapes if shape is not None], capacity, texts, device)
        super().__init__(kinds, [keys, states])

    def snapshot(self) -> list[Tensor]:
        """Copies of the states. Keys and values stay where they are."""
        found: list[Tensor] = self._parts[1].snapshot()
        return found

    def restore(self, states: Sequence[Tensor]) -> None:
        """The states become those of a snapshot."""
        self._parts[1].restore(states)


class PackedMixed:
    """The caches for a pass that reads a piece of each of several texts, of any number of tokens (nn.PackedCache)."""

    def __init__(self, kinds: Sequence[int], parts: Sequence[Any]) -> None:
        self.capacity, self.rows = parts[0].capacity, parts[0].rows
        self.layers = _by_kind(kinds, parts)


def _by_kind(kinds: Sequence[int], parts: Sequence[Any]) -> list[Any]:
    """The caches of all layers, in order."""
    layers = [iter(part.layers) for part in parts]
    return [next(layers[kind]) for kind in kinds]


class HybridBlock(Module):
    """Attention or a mixer, and feed-forward, each with a norm before it and a residual around it, under Jamba's names.
    `norm` makes a norm.
    """

    def __init__(
        self, attention: Module | None, mixer: Module | None, feed_forward: Module, norm: Callable[[], Module]
    ) -> None:  # fmt: skip
        super().__init__()
        self.self_attn = attention
        self.mamba = mixer
        self.feed_forward = feed_forward
        self.input_layernorm = norm()
        self.pre_ff_layernorm = norm()

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        mixer = self.mamba if self.self_attn is None else self.self_attn
        assert mixer is not None
        x = mixer(self.input_layernorm(x), text, x)
        y: Tensor = self.feed_forward(self.pre_ff_layernorm(x), x)
        return y


class HybridStack(DecoderStack):
    """The decoder of such blocks."""

    last_norm = "final_layernorm"


class HybridLanguageModel(CausalLanguageModel):
    """A decoder-only language model of both kinds of layers; `state_shapes` are those of each layer's states, None
    where it attends.
    """

    whole_text, cached_text = WholeHybridText, CachedHybridText
    state_shapes: Shapes

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        kinds = {shape is None for shape in self.state_shapes}
        if len(kinds) == 2:
            return HybridCache(
                self.state_shapes, self.kv_heads, self.config.head_dim, capacity, texts, self.device, dtype
            )
        if True in kinds:
            return super()._empty_cache(capacity, dtype, texts)
        return StateCache([shape for shape in self.state_shapes if shape is not None], capacity, texts, self.device)

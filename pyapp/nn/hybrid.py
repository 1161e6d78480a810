"""Decoders of which some layers attend and others carry a state (nn/recurrent.py): the texts that both kinds of layers
read, and the cache that has keys and values for the first and states for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..engine import Device, Tensor
from ..engine.device import cpu
from ..errors import ArgumentError
from .caches import TextCache, decoder_cache
from .decoder import CachedText, CausalLanguageModel, DecoderStack, WholeText
from .module import Module
from .recurrent import CachedStates, StateCache, Step, WholeStates

__all__ = ["HybridCache", "HybridLanguageModel"]

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


class HybridCache:
    """The caches of a decoder's layers for `texts` texts that are decoded together; None: of one text. `shapes[i]` are
    those of the states of layer i, None where it attends: then its keys and values have `kv_heads` heads of `head_dim`
    features in `dtype`.

    As a StateCache, it goes back to the beginning of a text, or to a `snapshot`, and texts share none of its memory.
    """

    CHANGES, VIEWS = StateCache.CHANGES, StateCache.VIEWS
    by_token = False

    def __init__(
        self, shapes: Shapes, kv_heads: int, head_dim: int, capacity: int, texts: int | None = None,
        device: Device | str = cpu, dtype: Any = "float32",
    ) -> None:  # fmt: skip
        attends = [shape is None for shape in shapes]
        if not any(attends) or all(attends):
            raise ArgumentError("HybridCache: some layers must attend, and some have states")
        keys = decoder_cache(texts, sum(attends), kv_heads, capacity, head_dim, device, dtype)
        states = StateCache([shape for shape in shapes if shape is not None], capacity, texts, device)
        self._take(attends, keys, states)

    def _take(self, attends: Sequence[bool], keys: Any, states: Any) -> HybridCache:
        self._attends, self._keys, self._states = attends, keys, states
        self.capacity, self.texts = keys.capacity, states.texts
        self.layers = _by_kind(attends, keys, states)
        return self

    def _view(self, keys: Any, states: Any) -> HybridCache:
        return HybridCache.__new__(HybridCache)._take(self._attends, keys, states)

    def text(self, index: int) -> HybridCache:
        """The cache of one text over the same memory, for tokens (T,) of this text alone, such as a prompt."""
        return self._view(self._keys.text(index), self._states.text(index))

    def first(self, count: int) -> HybridCache:
        """A cache of the first `count` texts over the same memory."""
        return self._view(self._keys.first(count), self._states.first(count))

    def paged(self, texts: int, blocks: int, block: int, capacity: int) -> HybridCache:
        """A cache of its own for `texts` texts of at most `capacity` tokens each, with memory for `blocks` blocks of
        `block` tokens, and as many states: that of a text is in the first of its blocks.
        """
        sizes = texts, blocks, block, capacity
        return self._view(self._keys.paged(*sizes), self._states.paged(*sizes))

    def beside(self, texts: int) -> HybridCache:
        """A cache of other texts in the same memory, for blocks."""
        return self._view(self._keys.beside(texts), self._states.beside(texts))

    def packed(self, pieces: Sequence[tuple[int, int]], rows: Sequence[int]) -> PackedHybrid:
        """A cache over the same memory and tables for one pass over pieces of several texts, each (text, tokens);
        `rows` of them all are those whose logits are wanted.
        """
        return PackedHybrid(self._attends, self._keys.packed(pieces, rows), self._states.packed(pieces, rows))

    def place(self, text: int, start: int, blocks: Sequence[int]) -> None:
        """The parts start … of a text lie in these blocks."""
        self._keys.place(text, start, blocks)
        self._states.place(text, start, blocks)

    def snapshot(self) -> list[Tensor]:
        """Copies of the states. Keys and values stay where they are."""
        found: list[Tensor] = self._states.snapshot()
        return found

    def restore(self, states: Sequence[Tensor]) -> None:
        """The states become those of a snapshot."""
        self._states.restore(states)

    def copy(self, source: int, target: int, length: int | None = None) -> None:
        """Text `target` becomes what text `source` is; of keys and values the first `length` tokens (all, by default)
        are copied.
        """
        self._keys.copy(source, target, length)
        self._states.copy(source, target, length)

    def reorder(self, order: Sequence[int], length: int | None = None) -> None:
        """Text i becomes what text order[i] was, as beam search and samplers need it."""
        self._keys.reorder(order, length)
        self._states.reorder(order, length)

    @property
    def memories(self) -> list[Tensor]:
        """The memory of keys and values, and that of states."""
        return [self._keys.memory, self._states.memory]

    @property
    def nbytes(self) -> int:
        found: int = self._keys.nbytes + self._states.nbytes
        return found


class PackedHybrid:
    """The caches for a pass that reads a piece of each of several texts, of any number of tokens (nn.PackedCache)."""

    def __init__(self, attends: Sequence[bool], keys: Any, states: Any) -> None:
        self.capacity, self.rows = keys.capacity, keys.rows
        self.layers = _by_kind(attends, keys, states)


def _by_kind(attends: Sequence[bool], keys: Any, states: Any) -> list[Any]:
    """The caches of all layers, in order."""
    kinds = {True: iter(keys.layers), False: iter(states.layers)}
    return [next(kinds[kind]) for kind in attends]


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

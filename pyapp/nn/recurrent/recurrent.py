"""Decoders whose layers carry a state of fixed size from token to token, instead of the keys and values of all tokens:
state space models.

A layer says how its state changes, by a step; the text says where the state is: nowhere for whole texts, which begin
without one, and else in a StateCache. So a layer is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol, TypeAlias

from ...engine import Device, Tensor, no_grad, ops
from ...engine.buffers import int32_tensor
from ...engine.dtype import as_dtype, float32, int32
from ...engine.ops import cat, empty, where, zeros
from ...errors import ArgumentError
from ..decoders.decoder import CausalLanguageModel

__all__ = ["RecurrentLanguageModel", "StateCache"]

# A state (B, ...), or None at the beginning of texts, and inputs (B, T, ...) → the result (B, T, F) and the next state,
# for which the step may use the memory of the state that it got.
Step: TypeAlias = Callable[..., tuple[Tensor, Tensor]]
Shapes: TypeAlias = Sequence[Sequence[tuple[int, ...]]]  # of the states of each layer


def token_before(state: Tensor | None, x: Tensor) -> tuple[Tensor, Tensor]:
    """The token before each: x (B, T, F), state (B, 1, F) the one before all, None: zeros → (B, T, F) and the last."""
    tokens = x.shape[1]
    if state is None:
        state = x.new_zeros((x.shape[0], 1, x.shape[2]))
    earlier = state if tokens == 1 else cat([state, x.narrow(1, 0, tokens - 1)], 1)
    return earlier, x.narrow(1, tokens - 1, 1)


class StateText(Protocol):
    """The tokens of a text, for layers with states."""

    def carry(self, layer: int, part: int, step: Step, *inputs: Tensor) -> Tensor:
        """Runs a step of a layer's state number `part` over inputs (..., T, F) → (..., T, F')."""
        ...

    def masked(self, x: Tensor, value: float = 0.0) -> Tensor:
        """x (..., T, F) with `value` in the places of padding."""
        ...


class WholeStates:
    """Whole texts (B, T), for training. `mask` (B, T) is 0 where a token is padding; None: nowhere."""

    def __init__(self, tokens: int, mask: Tensor | None = None) -> None:
        self._mask = None if mask is None else (mask != 0).unsqueeze(-1)  # (B, T, 1)

    def carry(self, layer: int, part: int, step: Step, *inputs: Tensor) -> Tensor:
        return step(None, *inputs)[0]

    def masked(self, x: Tensor, value: float = 0.0) -> Tensor:
        return x if self._mask is None else where(self._mask, x, value)


class CachedStates:
    """The tokens (T,) at position[0] … of a text whose state is in a cache; or those of several texts, tokens (B, T)
    and position (B,).
    """

    def __init__(self, position: Tensor, cache: Any) -> None:
        self.position, self.layers = position, cache.layers

    def carry(self, layer: int, part: int, step: Step, *inputs: Tensor) -> Tensor:
        found: Tensor = self.layers[layer].carry(part, step, self.position, *inputs)
        return found

    def masked(self, x: Tensor, value: float = 0.0) -> Tensor:
        return x


class LayerStates:
    """The states of one layer: `parts` (slots, ...) each, dense. Text i has slot i; with a `table` (B, 1) int32 slot
    table[i, 0].
    """

    def __init__(self, parts: Sequence[Tensor], table: Tensor | None = None, first: Tensor | None = None) -> None:
        self.parts, self.table, self._first = parts, table, first

    def of(self, texts: Tensor, first: Tensor) -> LayerStates:
        """The states of the texts that a table (B, 1) names, with `first` (B,) zeros."""
        return LayerStates(self.parts, texts, first)

    def carry(self, part: int, step: Step, position: Tensor, *inputs: Tensor) -> Tensor:
        """As StateText.carry. Where the position is 0 a text begins, whatever the memory holds."""
        memory, alone = self.parts[part], inputs[0].ndim == 2
        if alone:
            inputs = tuple(x.unsqueeze(0) for x in inputs)
        state = memory if self.table is None else memory.index_select(0, self.table.reshape(-1))  # (B, ...)
        begun = (position != 0).reshape(-1, *(1,) * (state.ndim - 1))
        y, state = step(where(begun, state, 0.0).to(inputs[0].dtype), *inputs)
        if self.table is None:
            memory.copy_(state)
        else:
            width = memory.numel() // memory.shape[0]
            rows = state.reshape(state.shape[0], 1, 1, width)  # (B, T = 1, KV = 1, width)
            ops.cache_write(memory.reshape(memory.shape[0], 1, 1, width), rows, self._first, self.table)
        return y.squeeze(0) if alone else y


class StateCache:
    """The states of a decoder's layers for `texts` texts that are decoded together; None: of one text, whose tokens
    come without a dim for texts. `shapes[i]` are those of the states of layer i; all are float32.

    A state stands for the whole text so far: to go back in a text, it must be read again from its beginning, position
    0, or from a `snapshot`. So memory does not grow with the texts (`by_token`), and texts share none of it.
    """

    CHANGES, VIEWS = ("copy", "reorder", "restore", "place"), ("text", "first", "paged", "beside", "packed")
    by_token = False  # whether each token has a place of its own, which texts share and can be taken back to

    def __init__(
        self, shapes: Shapes, capacity: int, texts: int | None = None, device: Device | str | None = None,
        dtype: Any = float32,
    ) -> None:  # fmt: skip
        if as_dtype(dtype) is not float32:
            raise ArgumentError(f"StateCache: states are float32, not {as_dtype(dtype).name}")
        slots = 1 if texts is None else texts
        if min(slots, capacity) < 1:
            raise ArgumentError(f"StateCache: {slots} texts of {capacity} tokens; each must be 1 or more")
        memory = zeros(slots * sum(prod(shape) for layer in shapes for shape in layer), device=device)
        self._take(memory, shapes, slots, capacity, texts or 1)

    def _take(self, memory: Tensor, shapes: Shapes, slots: int, capacity: int, texts: int) -> StateCache:
        self.memory, parts, start = memory, [], 0
        for layer in shapes:
            found = []
            for shape in layer:
                count = slots * prod(shape)
                found.append(memory.narrow(0, start, count).reshape(slots, *shape))
                start += count
            parts.append(found)
        return self._over(parts, capacity, texts, None)

    def _over(
        self, parts: Sequence[Sequence[Tensor]], capacity: int, texts: int, table: Tensor | None
    ) -> StateCache:  # fmt: skip
        self._parts, self.capacity, self.texts, self.block_table = parts, capacity, texts, table
        one = None if table is None else table.narrow(1, 0, 1)
        first = None if table is None else zeros(texts, dtype=int32, device=table.device)
        self.layers = [LayerStates(layer, one, first) for layer in parts]
        return self

    def _view(self, parts: Sequence[Sequence[Tensor]], texts: int, table: Tensor | None) -> StateCache:
        made = StateCache.__new__(StateCache)
        made.memory = self.memory
        return made._over(parts, self.capacity, texts, table)

    def _check(self, index: int) -> int:
        if not 0 <= index < self.texts:
            raise ArgumentError(f"StateCache: has the texts 0 .. {self.texts - 1}, not {index}")
        return index

    def text(self, index: int) -> StateCache:
        """The cache of one text over the same memory, for tokens (T,) of this text alone, such as a prompt."""
        parts = [[part.narrow(0, self._check(index), 1) for part in layer] for layer in self._parts]
        return self._view(parts, 1, None)

    def first(self, count: int) -> StateCache:
        """A cache of the first `count` texts over the same memory."""
        if not 1 <= count <= self.texts:
            raise ArgumentError(f"StateCache: has {self.texts} texts, not {count}")
        if self.block_table is not None:
            return self._view(self._parts, count, self.block_table.narrow(0, 0, count))
        return self._view([[part.narrow(0, 0, count) for part in layer] for layer in self._parts], count, None)

    def paged(self, texts: int, blocks: int, block: int, capacity: int) -> StateCache:
        """A cache of its own for `texts` texts of at most `capacity` tokens each, with memory for `blocks` states. The
        state of a text is in the first of its blocks (`place`); a block is for `block` tokens.
        """
        if min(texts, blocks, block, capacity) < 1:
            raise ArgumentError(
                f"StateCache: {texts} texts of {capacity} tokens, {blocks} blocks of {block}; 1 or more each"
            )
        shapes = [[part.shape[1:] for part in layer] for layer in self._parts]
        device = self.memory.device
        made = StateCache.__new__(StateCache)
        memory = empty(blocks * sum(prod(shape) for layer in shapes for shape in layer), device=device)
        made._take(memory, shapes, blocks, capacity, texts)
        return made._over(made._parts, capacity, texts, zeros(texts, -(-capacity // block), dtype=int32, device=device))

    def beside(self, texts: int) -> StateCache:
        """A cache of other texts in the same memory, for blocks."""
        assert self.block_table is not None
        table = zeros(texts, self.block_table.shape[1], dtype=int32, device=self.memory.device)
        return self._view(self._parts, texts, table)

    def packed(self, pieces: Sequence[tuple[int, int]], rows: Sequence[int]) -> PackedStates:
        """A cache over the same memory and table for one pass over pieces of several texts, each (text, tokens); `rows`
        of them all are those whose logits are wanted.
        """
        return PackedStates(self, pieces, rows)

    def place(self, text: int, start: int, blocks: Sequence[int]) -> None:
        """The parts start … of a text lie in these blocks."""
        if blocks:
            assert self.block_table is not None
            self.block_table.narrow(0, text, 1).narrow(1, start, len(blocks)).assign(blocks)

    def snapshot(self) -> list[Tensor]:
        """Copies of the states."""
        with no_grad():
            return [part.clone() for layer in self._parts for part in layer]

    def restore(self, states: Sequence[Tensor]) -> None:
        """The states become those of a snapshot."""
        with no_grad():
            for part, state in zip((part for layer in self._parts for part in layer), states, strict=True):
                part.copy_(state)

    def copy(self, source: int, target: int, length: int | None = None) -> None:
        """Text `target` becomes what text `source` is. The length says nothing: the state is that of all tokens."""
        self._check(source), self._check(target)
        with no_grad():
            for layer in self._parts:
                for part in layer:
                    part.narrow(0, target, 1).copy_(part.narrow(0, source, 1))

    def reorder(self, order: Sequence[int], length: int | None = None) -> None:
        """Text i becomes what text order[i] was, as beam search and samplers need it."""
        if len(order) != self.texts:
            raise ArgumentError(f"StateCache: the order has {len(order)} entries for {self.texts} texts")
        moved = [place for place, source in enumerate(order) if self._check(source) != place]
        if not moved:
            return
        with no_grad():
            for layer in self._parts:
                for part in layer:
                    found = [part.narrow(0, order[place], 1).clone() for place in moved]
                    for place, state in zip(moved, found, strict=True):
                        part.narrow(0, place, 1).copy_(state)

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes


class PackedStates:
    """The states for a pass that reads a piece of each of several texts, of any number of tokens (nn.PackedCache)."""

    def __init__(self, cache: StateCache, pieces: Sequence[tuple[int, int]], rows: Sequence[int]) -> None:
        self.capacity = cache.capacity
        assert cache.block_table is not None
        runs, count = [], 0  # the first row, tokens, the table (1, 1) of each
        device = cache.memory.device
        for text, tokens in pieces:
            if not (0 <= text < cache.texts and tokens >= 1):
                raise ArgumentError(
                    f"StateCache: a piece of {tokens} tokens of text {text}; there are {cache.texts} texts"
                )
            runs.append((count, tokens, cache.block_table.narrow(0, text, 1).narrow(1, 0, 1)))
            count += tokens
        if not rows or not 0 <= min(rows) <= max(rows) < count:
            raise ArgumentError(f"StateCache: the rows {list(rows)} of {count}")
        first = zeros(1, dtype=int32, device=device)
        self.layers = [
            _PackedStates([(row, n, layer.of(table, first)) for row, n, table in runs]) for layer in cache.layers
        ]
        self.rows = int32_tensor(rows, device)


class _PackedStates:
    """The states of one layer of a pass of pieces; of each the first row, the tokens and the text's states."""

    def __init__(self, runs: Sequence[tuple[int, int, LayerStates]]) -> None:
        self._runs = runs

    def carry(self, part: int, step: Step, position: Tensor, *inputs: Tensor) -> Tensor:
        """As StateText.carry, of inputs (N, 1, F) and position (N,) → (N, 1, F')."""
        found = []
        for row, tokens, states in self._runs:
            own = [x.narrow(0, row, tokens).reshape(1, tokens, x.shape[-1]) for x in inputs]
            y = states.carry(part, step, position.narrow(0, row, 1), *own)  # (1, tokens, F')
            found.append(y.reshape(tokens, 1, y.shape[-1]))
        return found[0] if len(found) == 1 else cat(found, 0)


class RecurrentLanguageModel(CausalLanguageModel):
    """A decoder-only language model whose layers carry states; `state_shapes` are theirs."""

    whole_text, cached_text = WholeStates, CachedStates
    state_shapes: Shapes

    def new_cache(self, capacity: int | None = None, dtype: Any = "float32", texts: int | None = None) -> Any:
        """Empty states of a text, or of `texts` texts that are decoded together. ArgumentError for another dtype than
        float32.
        """
        return StateCache(self.state_shapes, capacity or self.config.max_seq_len, texts, self.device, dtype)

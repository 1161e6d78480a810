"""Decoding sessions: the decoder with a cache of the audio, computed once for a window, and a cache of the text so far.

The hypotheses ("rows") of a beam are read together: their heads are side by side, so that any number of rows takes the
same number of kernel calls, and all rows read the same keys of the audio.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from pyapp.engine import Tensor, capture, no_grad, ops
from pyapp.engine.buffers import int32_tensor, writer
from pyapp.engine.lazy import np
from pyapp.engine.ops.view import copy_strided
from pyapp.engine.storage import Storage
from pyapp.engine.user_errors import describe
from pyapp.errors import ModelError
from pyapp.nn import CrossCache, KVCache
from pyapp.nn.decoders.caches import SequenceCache, cross_cache

from .transformer import Decoder

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

NO_HEAD = (-1, 0)  # one that another process computes
CLOSED = "this session is closed: make another one with new_session()"


class AudioMemory:
    """The caches of one audio window for the decoder: keys and values of each layer, in int8 if the decoder's weights
    are quantised, else in float32.

    The next window is written in place, so that the Graphs of its sessions keep reading the same memory.
    """

    def __init__(self, decoder: Decoder, length: int) -> None:
        config = decoder.config
        heads, size = decoder.heads, config.n_text_state // config.n_text_head
        self.decoder = decoder
        self.length = length
        self.layers: list[SequenceCache] = [
            cross_cache(block.cross_attn.kv.weight, length, heads, size) for block in decoder.blocks
        ]
        self.audio: Tensor | None = None
        self.version = -1
        self.open = 0  # sessions in use
        self.closed: dict[tuple[int, bool], DecoderSession] = {}
        self._weights = _weights(decoder)  # memory that the Graphs of its sessions read

    def is_current(self) -> bool:
        """Whether the decoder's weights are still the same memory; False after it was moved or converted."""
        now = _weights(self.decoder)
        return len(now) == len(self._weights) and all(map(is_, now, self._weights))

    def read(self, audio: Tensor) -> None:
        """Fills the caches from audio (1, S, state)."""
        for cache, block in zip(self.layers, self.decoder.blocks, strict=True):
            cache.write(*(x.squeeze(0) for x in block.cross_attn.keys_and_values(audio)))  # (S, H, D) each

    def layer_keys(self, layer: int) -> Tensor:
        """The keys of a layer, (H, S, D) float32. They are computed again if the cache is in int8, which is too coarse
        for word times.
        """
        cache = self.layers[layer]
        if isinstance(cache, CrossCache):
            return cache.keys.float()
        assert self.audio is not None
        keys, _ = self.decoder.blocks[layer].cross_attn.keys_and_values(as_window(self.decoder, self.audio))
        return keys.squeeze(0).permute(1, 0, 2).contiguous()


def _weights(decoder: Decoder) -> list[Storage]:
    return [parameter._storage for parameter in decoder.parameters()]


class CachedMemory:
    """The memory of the decoder's blocks in a session (transformer.Memory): earlier tokens and the audio from caches,
    for tokens at position[0] ….

    `text` is a cache of all rows, for one new token of each, or of the first row, for several new tokens. `audio` is
    there while the session is open.
    """

    def __init__(self, text: KVCache, audio_heads: int, position: Tensor) -> None:
        self.text, self.audio_heads, self.position = text.layers, audio_heads, position
        self.heads, _, self.size = text.keys[0].shape
        self.audio: AudioMemory | None = None
        self.watched: list[tuple[int, int]] = []  # (layer, head) whose scores are kept in `scores`
        self.scores: Array | None = None  # (watched, T, S)

    def self_attention(self, layer: int, qkv: Tensor) -> Tensor:
        """qkv (N, 3 state) → (N, state)."""
        state = qkv.shape[1] // 3
        shape = (qkv.shape[0] * state // (self.heads * self.size), self.heads, self.size)  # (T, KV, D)
        q, k, v = (qkv.narrow(1, i * state, state).reshape(shape) for i in range(3))
        cache = self.text[layer]
        cache.write(k, v, self.position)
        return cache.attend(q, self.position).reshape(qkv.shape[0], state)

    def cross_attention(self, layer: int, q: Tensor) -> Tensor:
        """q (N, state) → (N, state)."""
        heads = q.reshape(q.shape[0], self.audio_heads, self.size)  # (N, H, D)
        if self.watched:
            self._watch(layer, heads)
        assert self.audio is not None
        return self.audio.layers[layer].attend(heads).reshape(q.shape)

    def _watch(self, layer: int, q: Tensor) -> None:
        """Keeps the scores (N, S) of the watched heads of this layer for q (N, H, D)."""
        heads = [(i, head) for i, (wanted, head) in enumerate(self.watched) if wanted == layer]
        if not heads or self.scores is None:
            return
        assert self.audio is not None
        keys = self.audio.layer_keys(layer)
        for i, head in heads:
            scores = ops.linear(q.narrow(1, head, 1).squeeze(1), keys.narrow(0, head, 1).squeeze(0))
            np.multiply(scores.numpy(), np.float32(q.shape[2] ** -0.5), out=self.scores[i])


class SessionPool:
    """The memories of a model, so that the next window can reuse caches and Graphs. Thread-safe."""

    def __init__(self) -> None:
        self._memories: list[AudioMemory] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[SessionPool], tuple[()]]:
        """A copy of a model starts without caches."""
        return SessionPool, ()

    def session(self, decoder: Decoder, audio: Tensor, rows: int, eager: bool) -> DecoderSession:
        """A new session over `audio` (S, state) or (1, S, state)."""
        with self._lock, no_grad():
            memory = self._memory(decoder, audio)
            session = memory.closed.pop((rows, eager), None)
            if session is None:
                session = DecoderSession(decoder, rows, eager)
            session.open(memory, self)
            memory.open += 1
        return session

    def _memory(self, decoder: Decoder, audio: Tensor) -> AudioMemory:
        """The memory with `audio`; else an unused one, which is filled with it."""
        self._memories = [memory for memory in self._memories if memory.is_current()]
        for memory in self._memories:
            if memory.audio is audio and memory.version == audio._storage.version:
                return memory
        window = as_window(decoder, audio)
        for memory in self._memories:
            if not memory.open and memory.length == window.shape[1]:
                break
        else:
            self._memories = [memory for memory in self._memories if memory.open]
            memory = AudioMemory(decoder, window.shape[1])
            self._memories.append(memory)
        memory.audio = None
        memory.read(window)
        memory.audio, memory.version = audio, audio._storage.version
        return memory

    def give(self, session: DecoderSession, memory: AudioMemory) -> None:
        """Keeps a closed session for the next window in its memory."""
        with self._lock:
            memory.open -= 1
            memory.closed[session.rows, session.eager] = session


def as_window(decoder: Decoder, audio: Tensor) -> Tensor:
    """audio (S, state) or (1, S, state) as (1, S, state). ValueError for another shape."""
    config = decoder.config
    window = audio.unsqueeze(0) if audio.ndim == 2 else audio
    fits = window.ndim == 3 and window.shape[0] == 1 and window.shape[2] == config.n_audio_state
    if not fits or not 1 <= window.shape[1] <= config.n_audio_ctx:
        raise ValueError(
            f"a decoder reads one window (1, S, {config.n_audio_state}) with S up to {config.n_audio_ctx}, "
            f"got {describe(audio)}"
        )
    return window


class DecoderSession:
    """The state of decoding `rows` hypotheses over one audio window. `position` tokens of each are in the cache.

    `eager` runs every step op by op instead of replaying a Graph, for reference. Make a session with
    `Whisper.new_session`, and `close` it (or use it in a with statement), so that the next window can reuse its caches.
    """

    def __init__(self, decoder: Decoder, rows: int, eager: bool) -> None:
        if rows < 1:
            raise ValueError(f"a session has at least one row, not {rows}")
        config = decoder.config
        self.decoder, self.rows, self.eager = decoder, rows, eager
        self.capacity, self.vocab_size = config.n_text_ctx, config.n_vocab
        self.heads = decoder.heads
        size = config.n_text_state // config.n_text_head
        self._cache = KVCache(config.n_text_layer, rows * self.heads, self.capacity, size, decoder.device)
        self._rows = self._cache.memory.reshape(-1, rows, self.heads, self.capacity, size)  # (2 * layers, R, H, C, D)
        self._texts: list[list[int]] = [[] for _ in range(rows)]
        inputs = int32_tensor([0] * (rows + 1), decoder.device)
        self._tokens, self._place = inputs.narrow(0, 0, rows), inputs.narrow(0, rows, 1)
        self._write = writer(inputs)  # a token for each row, and their position
        self._every = CachedMemory(self._cache, self.heads, self._place)
        self._first = CachedMemory(self._cache.of_heads(self.heads), self.heads, self._place)
        self._opened: tuple[AudioMemory, SessionPool] | None = None  # None: closed
        self._replay: Callable[[], Any] | None = None
        self._logits: Tensor | None = None
        self._array: Array | None = None

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def memory(self) -> AudioMemory:
        """The caches of the audio. ValueError after `close`."""
        if self._opened is None:
            raise ValueError(CLOSED)
        return self._opened[0]

    @property
    def position(self) -> int:
        return len(self._texts[0])

    def reset(self) -> None:
        """Forgets the text."""
        self._texts = [[] for _ in range(self.rows)]

    def open(self, memory: AudioMemory, pool: SessionPool) -> None:
        """Begins a text over the audio in `memory`, the same at each call: a Graph of this session reads it. `close`
        returns the session to `pool`.
        """
        self.reset()
        self._opened = memory, pool
        self._every.audio = self._first.audio = memory

    def close(self) -> None:
        """Returns the caches to the model; the session cannot be used afterwards."""
        if self._opened is None:
            return
        memory, pool = self._opened
        # The memory keeps a closed session. If that kept the memory too, the model's memory would be free only after a
        # garbage collection.
        self._opened = self._every.audio = self._first.audio = None
        pool.give(self, memory)

    def __enter__(self) -> DecoderSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading tokens

    def feed(self, tokens: Sequence[int], wanted: Sequence[int] | None = None) -> Array:
        """Reads the same tokens for all rows, in one pass → logits (T, V) float32 of every position, or of the `wanted`
        positions in their order. All rows must have read the same tokens before.
        """
        tokens = list(tokens)
        if not tokens:
            raise ValueError("feed() needs at least one token")
        self._check(tokens, len(tokens))
        if any(text != self._texts[0] for text in self._texts[1:]):
            raise ValueError("feed() reads for all rows, but they have read different tokens")
        start, count = self.position, len(tokens)
        self._write(*[0] * self.rows, start)
        decoder = self.decoder
        with no_grad():
            x = decoder.token_embedding(int32_tensor(tokens, decoder.device))  # (T, state)
            x = x + decoder.positional_embedding.narrow(0, start, count)
            x = decoder.read(x, self._first)  # (T, state)
            if wanted is not None:
                x = ops.cat([x.narrow(0, range(count)[i], 1) for i in wanted])
            logits = decoder.head(x)  # (T, V)
        self._spread(start, count)
        for text in self._texts:
            text.extend(tokens)
        return _writable(logits)

    def watch(self, tokens: Sequence[int], heads: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
        """feed(), which also returns the scores (heads, T, S) before softmax of each (layer, head) in `heads`."""
        layers, every = len(self._cache.layers), self.decoder.config.n_text_head
        outside = [pair for pair in heads if not (0 <= pair[0] < layers and 0 <= pair[1] < every)]
        if outside:
            raise ValueError(f"there is no head {outside[0]} among {layers} layers of {every} heads")
        reading, attention = self._first, self.decoder.blocks[0].attn
        first = getattr(attention, "first_head", 0)  # of those that this process computes
        reading.watched = [
            (layer, head - first) if 0 <= head - first < self.heads else NO_HEAD for layer, head in heads
        ]
        reading.scores = np.zeros((len(heads), len(tokens), self.memory.length), np.float32)
        try:
            logits, scores = self.feed(tokens), reading.scores
            if self.heads < every:
                attention.out.summed(ops.from_numpy(scores))
            return logits, scores
        finally:
            reading.watched, reading.scores = [], None

    def step(self, tokens: Sequence[int]) -> Array:
        """Reads one token for each row → logits (rows, V) float32 of the next tokens. The next step overwrites them."""
        if len(tokens) != self.rows:
            raise ValueError(f"step() takes a token for each of the {self.rows} rows, got {len(tokens)}")
        self._check(tokens, 1)
        self._write(*tokens, self.position)
        if self._replay is not None:
            self._replay()
        else:
            self._first_step()
        for text, token in zip(self._texts, tokens, strict=True):
            text.append(token)
        assert self._logits is not None
        if self._array is not None:
            return self._array
        logits = _writable(self._logits)
        if not self.eager and self.decoder.device.backend.host_visible:
            self._array = logits  # the memory that every replay writes
        return logits

    def reorder(self, rows: Sequence[int]) -> None:
        """Row i continues the text of row rows[i]. Copies only the tokens in which the two differ."""
        if len(rows) != self.rows or not all(0 <= row < self.rows for row in rows):
            raise ValueError(f"reorder() takes {self.rows} rows from 0 to {self.rows - 1}, got {list(rows)}")
        self._check((), 0)
        common = {i: _common(self._texts[i], self._texts[row]) for i, row in enumerate(rows) if i != row}
        self._move({i: (rows[i], start) for i, start in common.items() if start < self.position})
        self._texts = [list(self._texts[row]) for row in rows]

    def _move(self, waiting: dict[int, tuple[int, int]]) -> None:
        """Copies the cached tokens of row `source` from `start` on to row i, for each i: (source, start)."""
        saved: dict[int, tuple[Tensor, int]] = {}  # the old tokens of rows that are overwritten before they are read
        with no_grad():
            while waiting:
                needed = {source for source, _ in waiting.values() if source not in saved}
                row = next((i for i in waiting if i not in needed), None)
                if row is None:  # rows that are each other's sources, in a circle
                    row = next(iter(waiting))
                    first = min(start for source, start in waiting.values() if source == row)
                    saved[row] = self._cached(row, first).clone(), first
                source, start = waiting.pop(row)
                if source in saved:
                    kept, first = saved[source]
                    tokens = kept.narrow(3, start - first, self.position - start)
                else:
                    tokens = self._cached(source, start)
                copy_strided(self._cached(row, start), tokens)

    def _first_step(self) -> None:
        """Runs the step; unless eager, captures its launch records for the following steps."""
        with no_grad():
            if self.eager:
                self._logits = self._decode()
            else:
                graph = capture(self._decode)
                self._logits, self._replay = graph.outputs, graph.replay

    def _decode(self) -> Tensor:
        decoder = self.decoder
        x = decoder.token_embedding(self._tokens)  # (R, state)
        x = x + ops.embedding(decoder.positional_embedding, self._place).reshape(x.shape[1])
        return decoder.head(decoder.read(x, self._every))  # (R, V)

    # -- helpers

    def _cached(self, row: int, start: int) -> Tensor:
        """The keys and values of one row's tokens from `start` on: a view (2 * layers, 1, H, T, D)."""
        return self._rows.narrow(1, row, 1).narrow(3, start, self.position - start)

    def _spread(self, start: int, count: int) -> None:
        """Copies the tokens that the first row has read to the other rows."""
        if self.rows > 1:
            with no_grad():
                tokens = self._rows.narrow(3, start, count)  # (2 * layers, R, H, T, D)
                others = tokens.narrow(1, 1, self.rows - 1)
                copy_strided(others, tokens.narrow(1, 0, 1).expand(others.shape))

    def _check(self, tokens: Sequence[int], count: int) -> None:
        if not self.is_open:
            raise ValueError(CLOSED)
        if self.position + count > self.capacity:
            raise ModelError(f"{self.position + count} tokens do not fit the model's text context of {self.capacity}")
        if tokens and not 0 <= min(tokens) <= max(tokens) < self.vocab_size:
            raise ModelError(
                f"token ids from {min(tokens)} to {max(tokens)} are outside the model's vocabulary of "
                f"{self.vocab_size}",
                hint="The tokenizer does not belong to this model",
            )


def _writable(logits: Tensor) -> Array:
    """Logits as an array into which the rules of tokens write: the tensor's memory, or a copy where the host cannot see
    it.
    """
    array: Array = logits.numpy()
    return array if array.flags.writeable else array.copy()


def _common(first: list[int], second: list[int]) -> int:
    """The length of the common prefix of two lists of tokens."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))

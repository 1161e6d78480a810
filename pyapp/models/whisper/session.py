"""Decoding with caches: keys and values of the audio, made once for a window, and of the text so far.

The hypotheses ("rows") of a beam are read together: their heads stand side by side, so that one row or five are the
same number of kernel calls, and the audio's keys serve all of them.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine import Tensor, capture, no_grad, ops
from pyapp.engine.dtype import int32
from pyapp.engine.lazy import np
from pyapp.engine.op import describe
from pyapp.engine.packed import PackedSequence, attends_in_int8
from pyapp.errors import ModelError

if TYPE_CHECKING:
    import numpy

    from .model import Whisper

    Array = numpy.ndarray[Any, Any]


def int32_tensor(values: Sequence[int]) -> Tensor:
    """A one-dimensional int32 tensor, without NumPy."""
    return Tensor.from_buffer(array("i", values), (len(values),), int32)


class AudioMemory:
    """What the decoder's layers read of one audio window: keys and values (H, S, D) for each layer, in float32; packed
    in int8 where the decoder's weights are of few bits.

    It is written again for the next window, in place: the Graphs of its sessions go on reading the same memory.
    """

    def __init__(self, model: Whisper, length: int) -> None:
        config = model.config
        heads, layers = config.n_text_head, config.n_text_layer
        shape = (heads, length, config.n_text_state // heads)
        self.model = model
        self.length = length
        self.packed: list[PackedSequence] = []
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        if all(attends_in_int8(block.cross_attn.kv.weight, shape[2]) for block in model.decoder.blocks):
            self.packed = [PackedSequence(length, heads, shape[2]) for _ in range(layers)]
        else:
            self.keys = [ops.empty(*shape) for _ in range(layers)]
            self.values = [ops.empty(*shape) for _ in range(layers)]
        self.audio: Tensor | None = None
        self.version = -1
        self.open = 0  # sessions in use
        self.closed: dict[tuple[int, bool], DecoderSession] = {}
        self._start = int32_tensor([0])

    def read(self, audio: Tensor) -> None:
        """Fills it from audio (1, S, state)."""
        for i, block in enumerate(self.model.decoder.blocks):
            keys, values = (x.squeeze(0) for x in block.cross_attn.keys_and_values(audio))  # (S, H, D)
            if self.packed:
                self.packed[i].write(keys, values)
            else:
                ops.cache_write(self.keys[i], keys, self._start)
                ops.cache_write(self.values[i], values, self._start)

    def attention(self, layer: int, q: Tensor) -> Tensor:
        """q (N, H, D) looks at the audio → (N, H, D)."""
        if self.packed:
            return self.packed[layer].attention(q)
        return ops.cross_attention(q, self.keys[layer], self.values[layer])

    def layer_keys(self, layer: int) -> Tensor:
        """(H, S, D) float32, computed again where they are packed: word times ask for more than int8 keeps."""
        if not self.packed:
            return self.keys[layer]
        assert self.audio is not None
        keys, _ = self.model.decoder.blocks[layer].cross_attn.keys_and_values(as_window(self.model, self.audio))
        return keys.squeeze(0).permute(1, 0, 2).contiguous()


class SessionPool:
    """A model's memories, so that the next window finds caches and Graphs ready. May be used by several threads."""

    def __init__(self) -> None:
        self._memories: list[AudioMemory] = []
        self._lock = threading.Lock()

    def session(self, model: Whisper, audio: Tensor, rows: int, eager: bool) -> DecoderSession:
        """A session at its beginning, over `audio` (S, state) or (1, S, state)."""
        with self._lock, no_grad():
            memory = self._memory(model, audio)
            session = memory.closed.pop((rows, eager), None)
            if session is None:
                session = DecoderSession(model, memory, rows, eager, self)
            session.reset()
            memory.open += 1
        return session

    def _memory(self, model: Whisper, audio: Tensor) -> AudioMemory:
        """The one that holds `audio`, or one that nobody uses and that now does."""
        for memory in self._memories:
            if memory.audio is audio and memory.version == audio.storage.version:
                return memory
        window = as_window(model, audio)
        for memory in self._memories:
            if not memory.open and memory.length == window.shape[1]:
                break
        else:
            self._memories = [memory for memory in self._memories if memory.open]
            memory = AudioMemory(model, window.shape[1])
            self._memories.append(memory)
        memory.audio = None
        memory.read(window)
        memory.audio, memory.version = audio, audio.storage.version
        return memory

    def give(self, session: DecoderSession) -> None:
        """Takes a closed session back."""
        with self._lock:
            session.memory.open -= 1
            session.memory.closed[session.rows, session.eager] = session


def as_window(model: Whisper, audio: Tensor) -> Tensor:
    """audio (S, state) or (1, S, state) → the same tensor where it is (1, S, state)."""
    config = model.config
    window = audio.unsqueeze(0) if audio.ndim == 2 else audio
    fits = window.ndim == 3 and window.shape[0] == 1 and window.shape[2] == config.n_audio_state
    if not fits or not 1 <= window.shape[1] <= config.n_audio_ctx:
        raise ValueError(
            f"a decoder reads one window (1, S, {config.n_audio_state}) with S up to {config.n_audio_ctx}, "
            f"got {describe(audio)}"
        )
    return window


class DecoderSession:
    """The text of `rows` hypotheses in the making, over one audio window. `position` tokens of each are in the cache.

    `eager` runs every step op by op instead of replaying a Graph, for reference. Make it with `Whisper.new_session`,
    and `close` it (or use it in a with statement), so that the next window finds its caches.
    """

    def __init__(self, model: Whisper, memory: AudioMemory, rows: int, eager: bool, pool: SessionPool) -> None:
        if rows < 1:
            raise ValueError(f"a session has at least one row, not {rows}")
        config = model.config
        self.model, self.memory, self.rows, self.eager = model, memory, rows, eager
        self.capacity, self.vocab_size = config.n_text_ctx, config.n_vocab
        self.heads = config.n_text_head
        shape = (rows * self.heads, self.capacity, config.n_text_state // self.heads)
        self._keys = [ops.zeros(*shape) for _ in range(config.n_text_layer)]
        self._values = [ops.zeros(*shape) for _ in range(config.n_text_layer)]
        self._texts: list[list[int]] = [[] for _ in range(rows)]
        self._tokens = int32_tensor([0] * rows)
        self._place = int32_tensor([0])
        self._watched: list[tuple[int, int]] = []  # (layer, head) whose scores are kept in _scores
        self._scores: Array | None = None
        self._pool = pool
        self._replay: Callable[[], Any] | None = None
        self._logits: Tensor | None = None
        self._array: Array | None = None
        self.is_open = True

    @property
    def position(self) -> int:
        return len(self._texts[0])

    def reset(self) -> None:
        """Forgets the text."""
        self._texts = [[] for _ in range(self.rows)]
        self.is_open = True

    def close(self) -> None:
        """Gives the caches back to the model; the session cannot be used any more."""
        if self.is_open:
            self.is_open = False
            self._pool.give(self)

    def __enter__(self) -> DecoderSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading tokens

    def feed(self, tokens: Sequence[int], wanted: Sequence[int] | None = None) -> Array:
        """Reads the same tokens for all rows, in one pass → logits (T, V) float32 of every position, or of the
        `wanted` ones, in their order. The rows must have read the same so far.
        """
        tokens = list(tokens)
        if not tokens:
            raise ValueError("feed() needs at least one token")
        self._check(tokens, len(tokens))
        if any(text != self._texts[0] for text in self._texts[1:]):
            raise ValueError("feed() reads for all rows, but they have read different tokens")
        start, count = self.position, len(tokens)
        self._place.data_view()[0] = start
        with no_grad():
            x = self._pass(int32_tensor(tokens), whole=False)
            if wanted is not None:
                x = ops.cat([x.narrow(0, range(count)[i], 1) for i in wanted])
            logits = self.model.decoder.head(x)  # (T, V)
        self._spread(start, start + count)
        for text in self._texts:
            text.extend(tokens)
        return logits.numpy()

    def watch(self, tokens: Sequence[int], heads: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
        """feed(), which also gives the scores (heads, T, S), before softmax, of the (layer, head) of `heads`."""
        layers = len(self._keys)
        outside = [pair for pair in heads if not (0 <= pair[0] < layers and 0 <= pair[1] < self.heads)]
        if outside:
            raise ValueError(f"there is no head {outside[0]} among {layers} layers of {self.heads} heads")
        self._watched = list(heads)
        self._scores = np.empty((len(heads), len(tokens), self.memory.length), np.float32)
        try:
            return self.feed(tokens), self._scores
        finally:
            self._watched, self._scores = [], None

    def step(self, tokens: Sequence[int]) -> Array:
        """Reads one token for each row → logits (rows, V) float32 for what follows. The next step overwrites them."""
        if len(tokens) != self.rows:
            raise ValueError(f"step() takes a token for each of the {self.rows} rows, got {len(tokens)}")
        self._check(tokens, 1)
        self._tokens.data_view()[:] = array("i", tokens)
        self._place.data_view()[0] = self.position
        if self._replay is not None:
            self._replay()
        else:
            self._first_step()
        for text, token in zip(self._texts, tokens, strict=True):
            text.append(token)
        assert self._logits is not None
        if self._array is None or self.eager:
            self._array = self._logits.numpy()
        return self._array

    def reorder(self, rows: Sequence[int]) -> None:
        """Row i goes on from what row rows[i] has read. Copies only what differs between the two."""
        if len(rows) != self.rows or not all(0 <= row < self.rows for row in rows):
            raise ValueError(f"reorder() takes {self.rows} rows from 0 to {self.rows - 1}, got {list(rows)}")
        self._check((), 0)
        moves = [(i, row, _common(self._texts[i], self._texts[row])) for i, row in enumerate(rows) if i != row]
        moves = [(i, row, start) for i, row, start in moves if start < self.position]
        if moves:
            for cache in (*self._keys, *self._values):
                table = cache.array().reshape(self.rows, self.heads, self.capacity, -1)
                parts = [table[row, :, start : self.position].copy() for _, row, start in moves]
                for (i, _, start), part in zip(moves, parts, strict=True):
                    table[i, :, start : self.position] = part
        self._texts = [list(self._texts[row]) for row in rows]

    def _first_step(self) -> None:
        """Runs the step; unless eager, keeps its launch records for all that follow."""
        with no_grad():
            if self.eager:
                self._logits = self._decode()
            else:
                graph = capture(self._decode)
                self._logits, self._replay = graph.outputs, graph.replay

    def _decode(self) -> Tensor:
        return self.model.decoder.head(self._pass(self._tokens, whole=True))  # (R, V)

    # -- the decoder

    def _pass(self, tokens: Tensor, whole: bool) -> Tensor:
        """One token for each row (`whole`), or several of the first row → (N, state). They stand at `_place`."""
        decoder = self.model.decoder
        x = decoder.token_embedding(tokens)  # (N, state)
        if whole:
            x = x + ops.embedding(decoder.positional_embedding, self._place).reshape(x.shape[1])
        else:
            x = x + decoder.positional_embedding.narrow(0, self.position, x.shape[0])
        for i, block in enumerate(decoder.blocks):
            x = self._block(block, i, x, whole)
        return x

    def _block(self, block: Any, layer: int, x: Tensor, whole: bool) -> Tensor:
        state, size = x.shape[1], x.shape[1] // self.heads
        keys, values = self._keys[layer], self._values[layer]
        shape = (1, self.rows * self.heads, size) if whole else (x.shape[0], self.heads, size)
        if not whole:
            keys, values = keys.narrow(0, 0, self.heads), values.narrow(0, 0, self.heads)
        qkv = block.attn.qkv(block.attn_ln(x))  # (N, 3 state)
        q, k, v = (qkv.narrow(1, i * state, state).reshape(shape) for i in range(3))
        ops.cache_write(keys, k, self._place)
        ops.cache_write(values, v, self._place)
        y = ops.cached_attention(q, keys, values, self._place)
        x = block.attn.out(y.reshape(x.shape), x)
        q = block.cross_attn.query(block.cross_attn_ln(x)).reshape(x.shape[0], self.heads, size)
        self._watch(layer, q)
        y = self.memory.attention(layer, q)  # (N, H, D)
        x = block.cross_attn.out(y.reshape(x.shape), x)
        return block.mlp(block.mlp_ln(x), x)

    def _watch(self, layer: int, q: Tensor) -> None:
        """Keeps the scores (N, S) of the watched heads of this layer for q (N, H, D)."""
        heads = [(i, head) for i, (wanted, head) in enumerate(self._watched) if wanted == layer]
        if not heads or self._scores is None:
            return
        keys = self.memory.layer_keys(layer)
        for i, head in heads:
            scores = ops.linear(q.narrow(1, head, 1).squeeze(1), keys.narrow(0, head, 1).squeeze(0))
            np.multiply(scores.numpy(), np.float32(q.shape[2] ** -0.5), out=self._scores[i])

    # -- helpers

    def _spread(self, start: int, end: int) -> None:
        """Copies what the first row has read to the others."""
        if self.rows > 1:
            for cache in (*self._keys, *self._values):
                table = cache.array().reshape(self.rows, self.heads, self.capacity, -1)
                table[1:, :, start:end] = table[:1, :, start:end]

    def _check(self, tokens: Sequence[int], count: int) -> None:
        if not self.is_open:
            raise ValueError("this session is closed: make another one with new_session()")
        if self.position + count > self.capacity:
            raise ModelError(f"{self.position + count} tokens do not fit the model's text context of {self.capacity}")
        if tokens and not 0 <= min(tokens) <= max(tokens) < self.vocab_size:
            raise ModelError(
                f"token ids from {min(tokens)} to {max(tokens)} are outside the model's vocabulary of "
                f"{self.vocab_size}",
                hint="The tokenizer does not belong to this model",
            )


def _common(first: list[int], second: list[int]) -> int:
    """How many tokens the two begin with in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))

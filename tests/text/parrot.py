"""A vocabulary learnt from a few lines, and a model that has learnt one text by heart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyapp.engine import ops
from pyapp.engine.dtype import float32
from pyapp.engine.tensor import Tensor

TEXT = """Once upon a time there was a little girl named Lily. She loved to play outside in the park with her dog.
One day, she saw a big, red ball. "Can I play with it?" she said. The dog said, "Woof!" They were happy all day long.
"""
STORY = "Once upon a time there was a dog 😀 and a girl. The end"


def learn_pieces(text: str, merges: int) -> list[str]:
    """The simplest byte-pair encoding: joins the most frequent neighbours repeatedly."""
    words = Counter(f" {word}" for word in text.split())
    split = {word: list(word) for word in words}
    pieces: list[str] = []
    while len(pieces) < merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in zip(split[word], split[word][1:], strict=False):
                pairs[pair] += count
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if left + right not in pieces:
            pieces.append(left + right)
        for parts in split.values():
            place = 0
            while place < len(parts) - 1:
                if parts[place] == left and parts[place + 1] == right:
                    parts[place : place + 2] = [left + right]
                place += 1
    return pieces


def make_vocabulary() -> tuple[list[bytes], list[float]]:
    """Pieces and scores of a tokenizer.bin learnt from TEXT: about 400 tokens."""
    learnt = [*learn_pieces(TEXT, 90), *sorted(set(TEXT.replace("\n", " ")) | {"é", "😀"})]
    control = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256))]
    return [piece.encode() for piece in control + learnt], [0.0] * 259 + [-float(n) for n in range(len(learnt))]


@dataclass
class Config:
    vocab_size: int
    max_seq_len: int


class Parrot:
    """At position n - 1 it expects script[n] next, unless the token there is one that was refused: then <unk>."""

    def __init__(self, script: Sequence[int], vocab_size: int, max_seq_len: int) -> None:
        self.config = Config(vocab_size, max_seq_len)
        self.passes: list[int] = []
        self.by_token = self._table(vocab_size, [])
        spots = [(place, token) for place, token in enumerate(script[1 : max_seq_len + 1])]
        self.by_position = self._table(max_seq_len, spots)
        self.script = script

    def _table(self, rows: int, spots: list[tuple[int, int]]) -> Tensor:
        width = self.config.vocab_size
        table = Tensor.from_buffer(bytes(4 * rows * width), (rows, width), float32)
        view = table.data_view().cast("B").cast("f")
        for row, column in spots:
            view[row * width + column] = 4.0
        return table

    def new_cache(self, capacity: int | None = None) -> list[int]:
        return []

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: Any, last_only: bool = True) -> Tensor:
        assert last_only
        count = tokens.shape[0]
        self.passes.append(count)
        if count > 1:
            start = position.data_view()[0]
            assert tokens.data_view().tolist() == list(self.script[start : start + count])
            place = Tensor.from_buffer(memoryview(bytearray(4)).cast("i"), (1,), "int32")
            place.data_view()[0] = start + count - 1
            return ops.embedding(self.by_position, place)
        return ops.embedding(self.by_position, position) + ops.embedding(self.by_token, tokens)

    def refuse(self, token: int) -> None:
        """After this token <unk> follows, whatever the position says."""
        self.by_token.data_view().cast("B").cast("f")[token * self.config.vocab_size] = 9.0

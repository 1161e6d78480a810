"""Byte-pair encoding by rank, with a vocabulary of byte strings in the order of their merges.

GPT-2's vocabulary has this form (Sennrich et al., 2016; Radford et al., 2019) in openai's .tiktoken files and
whisper.cpp's ggml files. A list of merges is not needed: the pair whose union has the lowest number is merged first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pyapp.errors import FileFormatError
from pyapp.text.tokenization.tokenizer import without_surrogates

# GPT-2's division into words, for text whose characters outside ASCII were replaced by `outline`.
WORDS = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
)  # fmt: skip
LETTER, DIGIT, SPACE, OTHER = "A", "0", "\n", "\0"
NO_RANK = 1 << 62  # of two parts that are not merged

Part = TypeVar("Part", str, bytes)


class RankVocabulary:
    """Text to ids and ids to bytes; `pieces[i]` are the bytes of id i. FileFormatError unless they cover all bytes."""

    def __init__(self, pieces: Sequence[bytes], where: str = "vocabulary") -> None:
        self._pieces = pieces
        self._rank = {piece: rank for rank, piece in enumerate(pieces) if piece}
        missing = [value for value in range(256) if bytes([value]) not in self._rank]
        if missing:
            raise FileFormatError(f"the vocabulary lacks {len(missing)} of the 256 bytes", where=where)

    def __len__(self) -> int:
        return len(self._pieces)

    def token_bytes(self, token: int) -> bytes:
        return self._pieces[token]

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; names of control tokens in it are ordinary text."""
        return [token for word in split_words(without_surrogates(text)) for token in self._merge(word.encode())]

    def encode_signs(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def _merge(self, word: bytes) -> list[int]:
        rank = self._rank
        if word in rank:
            return [rank[word]]
        parts = [word[i : i + 1] for i in range(len(word))]
        return [rank[part] for part in merge(parts, lambda left, right: rank.get(left + right, NO_RANK))]


def merge(parts: list[Part], rank: Callable[[Part, Part], int]) -> list[Part]:
    """The parts of a word after all merges: the neighbours with the lowest `rank` are joined first."""
    while len(parts) > 1:
        pairs = [rank(left, right) for left, right in zip(parts, parts[1:], strict=False)]
        best = min(pairs)
        if best == NO_RANK:
            break
        parts = list(join_pairs(parts, pairs, best))
    return parts


def join_pairs(parts: Sequence[Part], pairs: Sequence[int], best: int) -> Iterator[Part]:
    """The parts with all pairs of rank `best` joined, from the left."""
    index = 0
    while index < len(parts):
        joins = index < len(pairs) and pairs[index] == best
        yield parts[index] + parts[index + 1] if joins else parts[index]
        index += 2 if joins else 1


def split_words(text: str) -> Iterator[str]:
    """The words of `text` with the space before them, runs of digits, of other signs, and of white space."""
    shape = text.translate({ord(character): outline(character) for character in set(text)})
    return (text[match.start() : match.end()] for match in WORDS.finditer(shape))


def outline(character: str) -> str:
    """An ASCII character itself, else a substitute of the same class: Python's regular expressions have no \\p{L}."""
    if character.isascii():
        return OTHER if "\x1c" <= character <= "\x1f" else character
    kind = unicodedata.category(character)[0]
    if kind in "LN":
        return LETTER if kind == "L" else DIGIT
    return SPACE if character.isspace() else OTHER

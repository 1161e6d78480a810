"""Pieces of words that models name for moments of speech, and the words that they are: SentencePiece's pieces, of which
the first of a word begins with "▁".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from .ctc_tokenizer import Spoken
from .tokenizer import Tokenizer

SPACE = "▁"


class SpokenPieces:
    """The pieces of a tokenizer. `blank`: the number that stands for nothing, between two equal pieces."""

    def __init__(self, tokenizer: Tokenizer, blank: int) -> None:
        self.tokenizer, self.blank_number = tokenizer, blank

    @property
    def vocab_size(self) -> int:
        """The pieces."""
        return self.tokenizer.vocab_size

    lower = False
    """Texts are written as they are."""

    def fitted(self, text: str) -> str:
        """A text with single spaces."""
        return " ".join(text.split())

    def missing(self, text: str) -> set[str]:
        """The characters of a text that cannot be written: those that no piece has, else those that are not a piece."""
        unknown = self.tokenizer.special_id("unk_token", "<unk>")
        if unknown not in self.encode(text):
            return set()
        alone = {character for character in {*text} - {" "} if unknown in self.encode(character)}
        pieces = "".join(self.tokenizer.piece(number) or "" for number in range(self.vocab_size) if number != unknown)
        return alone - {*pieces} or alone

    def encode(self, text: str) -> list[int]:
        """The pieces of a text."""
        return self.tokenizer.encode(text, bos=False, eos=False, parse_special=False)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of pieces, without those that are special."""
        special = self.tokenizer.special_names
        return self.tokenizer.decode([t for t in tokens if self.tokenizer.piece(t) not in special]).strip()

    def begins(self, token: int) -> bool:
        """Whether a piece is the first of a word."""
        return (self.tokenizer.piece(token) or "").startswith(SPACE)

    def pieces(self, numbers: Sequence[int], first: int = 0) -> list[Spoken]:
        """The pieces of the numbers of each moment, which count from `first`: equal neighbours are one, and blanks are
        left out.
        """
        found, at = [], first
        for number, run in groupby(numbers):
            end = at + sum(1 for _ in run)
            if number != self.blank_number:
                found.append(Spoken("", at, end, (number,)))
            at = end
        return found

    def joined(self, pieces: Iterable[Spoken]) -> list[Spoken]:
        """The words of pieces."""
        words: list[list[Spoken]] = []
        for piece in pieces:
            if not words or self.begins(piece.tokens[0]):
                words.append([])
            words[-1].append(piece)
        found = []
        for word in words:
            tokens = tuple(token for piece in word for token in piece.tokens)
            text = self.decode(tokens)
            if text:
                found.append(Spoken(text, word[0].first, word[-1].end, tokens))
        return found

    def words(self, numbers: Sequence[int], first: int = 0) -> list[Spoken]:
        """The words of the numbers of each moment, which count from `first`."""
        return self.joined(self.pieces(numbers, first))

    def ended(self, numbers: Sequence[int]) -> int:
        """How many of the moments belong to words after which another one has begun."""
        at = len(numbers) - 1
        while at >= 0 and (numbers[at] == self.blank_number or not self.begins(numbers[at])):
            at -= 1
        while at > 0 and numbers[at - 1] == numbers[at]:
            at -= 1
        return max(at, 0)

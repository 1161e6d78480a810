"""Characters of models that name one for each moment (connectionist temporal classification, Graves et al. 2006,
https://doi.org/10.1145/1143844.1143891), from the files of transformers' Wav2Vec2CTCTokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError

LARGEST = 1 << 20  # number of a character
SETTINGS = {
    "pad_token": "<pad>", "word_delimiter_token": "|", "replace_word_delimiter_char": " ", "unk_token": "<unk>",
}  # fmt: skip
HINT = "Give the files that belong to the weights"


@dataclass(frozen=True)
class Spoken:
    """A character or a word, and the moments `first` to `end` (excluded) at which it is heard."""

    text: str
    first: int
    end: int
    tokens: tuple[int, ...] = ()


class CTCTokenizer:
    """The characters by number. `blank` stands between two equal characters, `delimiter` between two words: `space` is
    written for it. `lower`: texts have small letters.
    """

    def __init__(
        self, pieces: Mapping[int, str], *, blank: str = "<pad>", delimiter: str | None = "|", space: str = " ",
        unknown: str = "<unk>", lower: bool = False,
    ) -> None:  # fmt: skip
        self.pieces, self.blank, self.delimiter = dict(pieces), blank, delimiter
        self.space, self.unknown, self.lower = space, unknown, lower
        self.numbers = {piece: number for number, piece in self.pieces.items()}

    @classmethod
    def from_files(
        cls, vocabulary: Mapping[str, Any], settings: Mapping[str, Any] | None = None,
        added: Mapping[str, Any] | None = None, where: str = "vocab.json",
    ) -> CTCTokenizer:  # fmt: skip
        """From the objects of vocab.json, tokenizer_config.json (or special_tokens_map.json), and added_tokens.json.
        ModelError for a vocabulary of other values.
        """
        settings = settings or {}
        language = settings.get("target_lang")
        if language is not None:
            vocabulary = vocabulary.get(language, {}) if isinstance(language, str) else {}
            if not isinstance(vocabulary, Mapping) or not vocabulary:
                raise ModelError(f"it has no characters of the language {language!r:.40}", where=where, hint=HINT)
        pieces: dict[int, str] = {}
        for piece, number in [*vocabulary.items(), *(added or {}).items()]:
            if type(number) is not int or not 0 <= number < LARGEST:
                raise ModelError(f"the number of {piece!r:.40} is {number!r:.40}", where=where, hint=HINT)
            pieces.setdefault(number, piece)
        listed = settings.get("added_tokens_decoder")
        for number, entry in (listed if isinstance(listed, Mapping) else {}).items():
            content = entry.get("content") if isinstance(entry, Mapping) else None
            if isinstance(content, str) and str(number).isdecimal() and len(str(number)) < 8:
                pieces.setdefault(int(number), content)
        named = {name: _content(settings, name, usual) for name, usual in SETTINGS.items()}
        blank = named["pad_token"]
        if blank not in pieces.values():
            raise ModelError(f"it has no {blank!r:.40}, which stands between characters", where=where, hint=HINT)
        return cls(
            pieces, blank=str(blank), delimiter=named["word_delimiter_token"],
            space=named["replace_word_delimiter_char"] or " ", unknown=named["unk_token"] or "",
            lower=settings.get("do_lower_case") is True,
        )  # fmt: skip

    @property
    def vocab_size(self) -> int:
        """One more than the largest number."""
        return max(self.pieces) + 1

    @property
    def blank_number(self) -> int:
        """The number of the blank."""
        return self.numbers[self.blank]

    @cached_property
    def _writable(self) -> dict[str, int]:
        """The numbers of the characters of texts, and of the space."""
        found = {piece: number for piece, number in self.numbers.items() if len(piece) == 1}
        for piece in (self.blank, self.unknown, self.delimiter or ""):
            found.pop(piece, None)
        return found | ({" ": self.numbers[self.delimiter]} if self.delimiter in self.numbers else {})

    def fitted(self, text: str) -> str:
        """A text with single spaces, in capital or small letters if the characters have only these."""
        text = " ".join(text.split())
        letters = [piece for piece in self._writable if piece.lower() != piece.upper()]
        capital, small = (any(piece == case(piece) for piece in letters) for case in (str.upper, str.lower))
        return text.upper() if self.lower or capital > small else text.lower() if small > capital else text

    def missing(self, text: str) -> set[str]:
        """The characters of a text that are not known."""
        return {*text} - {*self._writable}

    def encode(self, text: str) -> list[int]:
        """The numbers of the characters of a text, one each; those that are not known are left out (transformers makes
        them unknown). Names of other tokens are ordinary text.
        """
        return [self._writable[character] for character in text if character in self._writable]

    def characters(self, numbers: Sequence[int], first: int = 0) -> list[Spoken]:
        """The characters of the numbers of each moment, which count from `first`: equal neighbours are one, and blanks
        are left out.
        """
        found, at = [], first
        for number, run in groupby(numbers):
            end = at + sum(1 for _ in run)
            piece = self.pieces.get(number, self.unknown)
            if piece != self.blank:
                text = self.space if piece == self.delimiter else piece
                found.append(Spoken(text.lower() if self.lower else text, at, end, (number,)))
            at = end
        return found

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of the numbers of each moment."""
        return "".join(character.text for character in self.characters(numbers)).strip()

    def words(self, numbers: Sequence[int], first: int = 0) -> list[Spoken]:
        """The words of the numbers of each moment, which count from `first`."""
        found: list[Spoken] = []
        for space, run in groupby(self.characters(numbers, first), lambda character: character.text == self.space):
            if not space:
                word = list(run)
                text = "".join(character.text for character in word)
                tokens = tuple(token for character in word for token in character.tokens)
                found.append(Spoken(text, word[0].first, word[-1].end, tokens))
        return found

    def ended(self, numbers: Sequence[int]) -> int:
        """How many of the moments belong to words that have ended: a delimiter stands after them, and something after
        it.
        """
        delimiter = self.numbers.get(self.delimiter or "")
        at = len(numbers) - 1
        while at >= 0 and numbers[at] == delimiter:
            at -= 1
        while at >= 0 and numbers[at] != delimiter:
            at -= 1
        return at + 1


def _content(settings: Mapping[str, Any], name: str, usual: str) -> Any:
    """A token of tokenizer_config.json, where it is a text or an object."""
    given = settings.get(name, usual)
    given = given.get("content") if isinstance(given, Mapping) else given
    return given if isinstance(given, str) else None if given is None else usual

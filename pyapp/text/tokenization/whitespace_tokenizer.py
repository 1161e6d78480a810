"""The words of a text between white space, for tables of word vectors: sentence-transformers' WhitespaceTokenizer."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import FileFormatError, OptionError

from .encoding import Encoding

FILE = "whitespacetokenizer_config.json"


class WhitespaceTokenizer:
    """Words that are not in the vocabulary, and stop words, are left out. A word counts as it is written, else without
    punctuation around it, else in small letters too. FileFormatError for a malformed document.
    """

    def __init__(self, document: Mapping[str, Any], where: str = FILE) -> None:
        words, stops = document.get("vocab"), document.get("stop_words", [])
        for name, value in (("vocab", words), ("stop_words", stops)):
            if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
                raise FileFormatError(f"{name} is not a list of words", where=where)
        assert isinstance(words, list)
        self._numbers = {word: number for number, word in enumerate(words)}
        self._stops = frozenset(stops)
        self._lower = document.get("do_lower_case") is True
        self.vocab_size = len(words)
        self.max_length: int | None = None
        self.pad_id = 0

    def encode(self, text: str, **options: Any) -> list[int]:
        """The ids of the words of a text."""
        found = []
        for word in (text.lower() if self._lower else text).split():
            bare = word.strip(string.punctuation)
            for form in (word, bare, bare.lower()):
                if form in self._stops:
                    break
                if form in self._numbers:
                    found.append(self._numbers[form])
                    break
        return found

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, max_length: int | None = None, **options: Any
    ) -> list[Encoding]:
        """The encodings of texts, at most `max_length` tokens each. OptionError for pairs."""
        if pairs is not None:
            raise OptionError("a table of words reads single texts", where="pairs")
        found = []
        for whole in map(self.encode, texts):
            ids = whole[:max_length]
            found.append(Encoding(ids, [0] * len(ids), [1] * len(ids), [0] * len(ids), cut=len(whole) - len(ids)))
        return found

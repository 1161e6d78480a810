"""How letters sound in English words that no dictionary has (scripts/letter_sounds.py)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

# The letter itself, then those around it by what they tell, the nearest first.
OFFSETS = (0, 1, -1, 2, -2, 3, -3, 4, -4)
EDGE = "_"  # stands around a word


def context(word: str, at: int) -> str:
    """The letter at a place of a word and the letters around it, in the order of OFFSETS."""
    places = (at + offset for offset in OFFSETS)
    return "".join(word[place] if 0 <= place < len(word) else EDGE for place in places)


class LetterSounds:
    """The sounds of letters by their contexts: the longest that is known counts."""

    def __init__(self, sounds: Mapping[str, str]) -> None:
        self._sounds = sounds

    @classmethod
    def of_dialect(cls, dialect: str) -> LetterSounds:
        """Those of "us" or "gb"."""
        text = (resources.files(__package__) / f"{dialect}_letters.txt").read_text("utf-8")
        return cls(dict(line.split("\t") for line in text.splitlines()))

    def read(self, word: str) -> str:
        """The phonemes of a word of small letters from a to z."""
        return "".join(self._sound(context(word, at)) for at in range(len(word)))

    def _sound(self, around: str) -> str:
        lengths = range(len(around), 0, -1)
        return next((self._sounds[around[:n]] for n in lengths if around[:n] in self._sounds), "")

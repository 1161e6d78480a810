"""How English words are pronounced: the dictionary of the package misaki, and the forms of words that it lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import TypeAlias

from .stress import FIRST, SECOND, stressed, weakened

# The phonemes of a word, or of its uses: "DEFAULT", "NOUN", "VERB", "ADJ", "VBD" …, "None" at the end of a phrase. A
# use without phonemes is spelled.
Entry: TypeAlias = str | Mapping[str, str | None]
PACKAGE = "misaki.data"
_DOUBLED = re.compile(r"([bcdgklmnprstvxz])\1ing$|cking$")
_FLAPPED = frozenset("AIOWYiuæɑəɛɪɹʊʌ")  # sounds behind which an American t is a tap


class Dictionary:
    """The words of a dialect, "us" or "gb". `checked` has those that people looked through; the `others` are used where
    a word is not among them.
    """

    def __init__(self, checked: Mapping[str, Entry], others: Mapping[str, Entry], dialect: str) -> None:
        self._checked, self._others, self._british = checked, others, dialect == "gb"

    @classmethod
    def of_dialect(cls, dialect: str) -> Dictionary:
        """ModuleNotFoundError without misaki."""
        folder = resources.files(PACKAGE)
        checked, others = (
            json.loads((folder / f"{dialect}_{kind}.json").read_text("utf-8")) for kind in ("gold", "silver")
        )
        return cls(checked, others, dialect)

    def entry(self, word: str, name: bool = False) -> Entry | None:
        """What the dictionary has of a word: as it is written, with or without a capital. Of names in capitals only
        what people looked through.
        """
        other = word.capitalize() if word.islower() else word.lower() if word == word.capitalize() else word
        for words in (self._checked,) if name else (self._checked, self._others):
            for form in (word, other):
                if form in words and (form == word or len(word) > 1):
                    return words[form]
        return None

    def spelled(self, letters: str) -> str | None:
        """The names of letters, with the first stress on the last one."""
        names = [self._checked.get(letter.upper()) for letter in letters if letter.isalpha()]
        if not names or not all(isinstance(name, str) for name in names):
            return None
        sounds = weakened(stressed("".join(map(str, names)), SECOND))
        before, mark, last = sounds.rpartition(SECOND)
        return before + (FIRST if mark else "") + last

    def form(self, word: str, use: str, last: bool) -> str | None:
        """The phonemes of a word in small letters, or of a form of one: with -s, -ed, -ing. `use`: as what; `last`: it
        ends a phrase.
        """
        found = self.chosen(word, use, last)
        if found is not None:
            return found
        for stems, ending in ((self._before_s(word), self._s), (self._before_ed(word), self._ed)):
            for stem in stems:
                if (found := self.chosen(stem, use, last)) is not None:
                    return ending(found)
        for stem in self._before_ing(word):
            if (found := self.chosen(stem, use, last)) is not None:
                return self._ing(stressed(found, SECOND))
        return None

    def chosen(self, word: str, use: str, last: bool) -> str | None:
        """The phonemes of an entry for its use."""
        entry = self.entry(word)
        if entry is None or isinstance(entry, str):
            return entry
        if last and "None" in entry:
            return entry["None"]
        for name in (use, PARENTS.get(use, ""), "DEFAULT"):
            if name in entry:
                return entry[name]
        return None

    def plural(self, phonemes: str) -> str:
        """The word's sounds with that of -s."""
        return self._s(phonemes)

    @staticmethod
    def _before_s(word: str) -> list[str]:
        if len(word) < 3 or not word.endswith("s"):
            return []
        stems = [] if word.endswith("ss") else [word[:-1]]
        if word.endswith("'s") or (len(word) > 4 and word.endswith("es") and not word.endswith("ies")):
            stems.append(word[:-2])
        if len(word) > 4 and word.endswith("ies"):
            stems.append(f"{word[:-3]}y")
        return stems

    @staticmethod
    def _before_ed(word: str) -> list[str]:
        if len(word) < 4 or not word.endswith("d"):
            return []
        stems = [] if word.endswith("dd") else [word[:-1]]
        if len(word) > 4 and word.endswith("ed") and not word.endswith("eed"):
            stems.append(word[:-2])
        return stems

    @staticmethod
    def _before_ing(word: str) -> list[str]:
        if len(word) < 5 or not word.endswith("ing"):
            return []
        stems = [word[:-3]] if len(word) > 5 else []
        stems.append(f"{word[:-3]}e")
        if len(word) > 5 and _DOUBLED.search(word):
            stems.append(word[:-4])
        return stems

    def _s(self, stem: str) -> str:
        if stem[-1] in "ptkfθ":
            return f"{stem}s"
        return f"{stem}{('ɪ' if self._british else 'ᵻ') if stem[-1] in 'szʃʒʧʤ' else ''}z"

    def _ed(self, stem: str) -> str:
        if stem[-1] in "pkfθʃsʧ":
            return f"{stem}t"
        if stem[-1] not in "dt":
            return f"{stem}d"
        if self._british or len(stem) < 2:
            return f"{stem}ɪd"
        return f"{self._tapped(stem)}ᵻd"

    def _ing(self, stem: str) -> str | None:
        if self._british:
            return None if stem[-1] in "əː" else f"{stem}ɪŋ"
        return f"{self._tapped(stem)}ɪŋ"

    @staticmethod
    def _tapped(stem: str) -> str:
        return f"{stem[:-1]}ɾ" if len(stem) > 1 and stem[-1] == "t" and stem[-2] in _FLAPPED else stem


PARENTS = {"VBD": "VERB", "VBN": "VERB", "VBP": "VERB"}

"""Text from the scores of a model that was trained with connectionist temporal classification (Graves et al. 2006,
https://doi.org/10.1145/1143844.1143891).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

from .character_model import BORDER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .character_model import CharacterModel

BLANK = 0
SURE = 0.95  # where the best class of each place is that probable, it is the text
LEAST = 0.01  # less probable classes of a place are not candidates
WIDTH = 8  # texts that are followed
MARGIN = 1e-3  # of the best text's probability: less probable ones are left
LANGUAGE, LENGTH = 0.3, 1.0  # the weight of the language, and what a character is worth, in nats
LENGTHS = {BORDER: 0, "…": 3}  # of characters that are none, or as long as several
MEMORY = 1 << 16  # contexts whose factors are remembered


@dataclass(frozen=True, slots=True)
class Mark:
    """A character: its class, the places `first` to `last` at which it is the best, and its probability there."""

    number: int
    first: int
    last: int
    probability: float


def best_path(scores: NDArray[np.float32]) -> list[Mark]:
    """The characters of the best class at each place, of scores (T, classes): repetitions are one, blanks none."""
    classes = scores.argmax(1)
    best = scores.max(1)
    # The probability of the best class: 1 / sum(exp(score - best)).
    probabilities = 1.0 / np.exp(scores - best[:, None], dtype=np.float32).sum(1)
    changes = np.flatnonzero(np.diff(classes)) + 1
    starts, ends = [0, *changes.tolist()], [*changes.tolist(), len(classes)]
    return [
        Mark(int(classes[first]), first, end - 1, float(probabilities[first:end].max()))
        for first, end in zip(starts, ends, strict=True)
        if first < end and classes[first] != BLANK
    ]


class TextSearch:
    """The most probable texts of scores and of a language together: prefixes are followed from place to place (Hannun
    et al. 2014, arXiv 1408.2873). `alphabet`: the characters of the classes from 1 on.
    """

    def __init__(self, alphabet: str, language: CharacterModel) -> None:
        self._alphabet, self._language = alphabet, language
        self._factors: dict[str, float] = {}

    def best(self, scores: NDArray[np.float32]) -> list[Mark]:
        """The characters of scores (T, classes)."""
        chances = np.exp(scores - scores.max(1, keepdims=True), dtype=np.float32)
        chances /= chances.sum(1, keepdims=True)
        if not len(chances) or chances.max(1).min() >= SURE:
            return best_path(scores)
        texts = [_Text(BORDER, BLANK, 1.0, 0.0, None)]
        for place, blank, candidates in _places(chances):
            texts = self._longer(texts, place, blank, candidates)
        best = max(texts, key=lambda one: (one.blank + one.character) * self._factor(one.text, BORDER))
        return self._marks(best, chances)

    def _longer(self, texts: list[_Text], place: int, blank: float, candidates: list[tuple[int, float]]) -> list[_Text]:
        """The texts that are followed after a place."""
        chance_of = dict(candidates)
        grown: dict[str, _Text] = {}
        for one in texts:
            total = one.blank + one.character
            grown[one.text] = _Text(
                one.text, one.number, total * blank, one.character * chance_of.get(one.number, 0.0), one.path
            )
        for one in texts:
            total = one.blank + one.character
            for number, chance in candidates:
                chance *= one.blank if number == one.number else total
                if not chance:
                    continue
                character = self._alphabet[number - 1]
                chance *= self._factor(one.text, character)
                text = one.text + character
                known = grown.get(text)
                if known is None:
                    grown[text] = _Text(text, number, 0.0, chance, (place, one.path))
                else:
                    if chance > known.blank + known.character:
                        known.path = place, one.path
                    known.character += chance
        found = sorted(grown.values(), key=lambda one: one.blank + one.character, reverse=True)[:WIDTH]
        most = found[0].blank + found[0].character
        found = [one for one in found if one.blank + one.character > MARGIN * most]
        for one in found:  # so that no number becomes too small
            one.blank /= most
            one.character /= most
        return found

    def _marks(self, text: _Text, chances: NDArray[np.float32]) -> list[Mark]:
        """The characters of a text; each ends before the next one begins."""
        begins: list[int] = []
        path = text.path
        while path is not None:
            begins.append(path[0])
            path = path[1]
        marks: list[Mark] = []
        behind = len(chances)
        for character, first in zip(reversed(text.text), begins, strict=False):  # not the border
            number = self._alphabet.index(character) + 1
            likely = chances[first:behind, number]  # (places,)
            ends = np.flatnonzero(likely < 0.5)
            last = first + max(0, int(ends[0]) - 1 if len(ends) else len(likely) - 1)
            marks.append(Mark(number, first, last, float(likely.max())))
            behind = first
        return marks[::-1]

    def _factor(self, text: str, character: str) -> float:
        """What a character after a text is worth."""
        key = text[max(0, len(text) - self._language.context) :] + character
        found = self._factors.get(key)
        if found is None:
            if len(self._factors) >= MEMORY:
                self._factors.clear()
            length = LENGTH * LENGTHS.get(character, 1)
            found = exp(LANGUAGE * self._language.log_probability(key[:-1], character) + length)
            self._factors[key] = found
        return found


class _Text:
    """A text, the class of its last character, its probability with a blank at the last place and with its last
    character there, and the places where its characters begin, the last first.
    """

    __slots__ = ("blank", "character", "number", "path", "text")

    def __init__(self, text: str, number: int, blank: float, character: float, path: Any) -> None:
        self.text, self.number, self.blank, self.character, self.path = text, number, blank, character, path


def _places(chances: NDArray[np.float32]) -> Iterator[tuple[int, float, list[tuple[int, float]]]]:
    """Each place where a character may be: its number, the probability of the blank, and the candidates; before it, the
    places in a row at which only the blank may be, as one.
    """
    likely = chances >= LEAST
    likely[:, BLANK] = False
    rows, classes = np.nonzero(likely)
    values = chances[rows, classes].tolist()
    candidates: dict[int, list[tuple[int, float]]] = {}
    for row, number, value in zip(rows.tolist(), classes.tolist(), values, strict=True):
        candidates.setdefault(row, []).append((number, value))
    blanks = chances[:, BLANK].tolist()
    behind = -1
    for row, found in candidates.items():
        if row > behind + 1:
            yield behind + 1, 1.0, []
        yield row, blanks[row], found
        behind = row
    if behind + 1 < len(chances):
        yield behind + 1, 1.0, []

"""Words of a sound that is decoded again and again: which of them two decodings agree on, which were final before."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FOUND = 0.2  # gained by a word that is found again; a word that is another one, too much or missing costs 1
LATER = 1.0  # a second that the found words end before or after the final ones


@dataclass(frozen=True)
class LiveWord:
    """A word with its space; times in seconds since the beginning of the stream."""

    text: str
    start: float
    end: float
    probability: float

    @property
    def key(self) -> str:
        """What two decodings are compared by: letters and digits, in one case."""
        return (
            "".join(character for character in self.text.casefold() if unicodedata.category(character)[0] in "LMN")
            or self.text.strip()
        )


def live_word(word: Mapping[str, Any], offset: float) -> LiveWord:
    """From a word of a segment, whose sound begins at `offset` seconds."""
    return LiveWord(word["word"], word["start"] + offset, word["end"] + offset, word["probability"])


def common(first: Sequence[LiveWord], second: Sequence[LiveWord]) -> int:
    """With how many words both begin."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.key != b.key), min(len(first), len(second)))


def known(final: Sequence[LiveWord], gone: int, words: Sequence[LiveWord]) -> int:
    """How many of the first `words` are the `final` ones again, whose sound was decoded anew.

    Of the final ones the first `gone` need not be among them: their sound is not held any more, or only a rest. What is
    looked for is the beginning of `words` with the least edit distance to the final words, and about their end: times
    alone mislead, because they differ from decoding to decoding by more than a short word.
    """
    if not final or not words:
        return 0
    costs = [float(count) for count in range(len(words) + 1)]  # of each beginning against no final word
    for number, word in enumerate(final):
        before, costs = costs, [costs[0] + (number >= gone)]
        for count, other in enumerate(words, 1):
            same = before[count - 1] + (-FOUND if word.key == other.key else 1)
            costs.append(min(same, before[count] + (number >= gone), costs[-1] + 1))
    ends = [words[0].start, *(word.end for word in words)]
    totals = [cost + LATER * abs(end - final[-1].end) for cost, end in zip(costs, ends, strict=True)]
    return totals.index(min(totals))

"""Compare the words of repeated decodings of the same sound: those on which two decodings agree, and those already
final.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass

FOUND = 0.2  # gain of a matching word; a different, extra or missing word costs 1
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "।")
CLOSING = "\"'”’)]»」』 "
LATER = 1.0  # cost of each second between the end of the found words and the end of the final words


@dataclass(frozen=True)
class LiveWord:
    """A word with its space; times in seconds since the beginning of the stream. `logprob` is the mean log-probability
    of its decoding.
    """

    text: str
    start: float
    end: float
    probability: float
    logprob: float = 0.0

    @property
    def ends_sentence(self) -> bool:
        return self.text.rstrip(CLOSING).endswith(SENTENCE_ENDS)

    @property
    def key(self) -> str:
        """The form for comparing decodings: letters and digits in lower case."""
        return (
            "".join(character for character in self.text.casefold() if unicodedata.category(character)[0] in "LMN")
            or self.text.strip()
        )


def live_word(word: Mapping[str, Any], offset: float, logprob: float = 0.0) -> LiveWord:
    """From a word of a segment with this mean log-probability; the segment's sound begins at `offset` seconds."""
    return LiveWord(word["word"], word["start"] + offset, word["end"] + offset, word["probability"], logprob)


def common(first: Sequence[LiveWord], second: Sequence[LiveWord]) -> int:
    """The number of words in the common prefix."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.key != b.key), min(len(first), len(second)))


def known(final: Sequence[LiveWord], gone: int, words: Sequence[LiveWord]) -> int:
    """The number of leading `words` that repeat the `final` words, because the sound of these was decoded again.

    The first `gone` final words may be missing: their sound is dropped, at least in part. The function finds the prefix
    of `words` with the least edit distance to the final words and about the same end. Times alone are not enough: they
    differ between decodings by more than a short word.
    """
    if not final or not words:
        return 0
    costs = [float(count) for count in range(len(words) + 1)]  # of each prefix against no final word
    for number, word in enumerate(final):
        before, costs = costs, [costs[0] + (number >= gone)]
        for count, other in enumerate(words, 1):
            same = before[count - 1] + (-FOUND if word.key == other.key else 1)
            costs.append(min(same, before[count] + (number >= gone), costs[-1] + 1))
    ends = [words[0].start, *(word.end for word in words)]
    totals = [cost + LATER * abs(end - final[-1].end) for cost, end in zip(costs, ends, strict=True)]
    return totals.index(min(totals))


def widened(words: Sequence[Mapping[str, Any]], before: float, shortest: float) -> list[dict[str, Any]]:
    """Words with `start` and `end`, in order and none before the time `before`, each at least `shortest` seconds long,
    as far as there is room: a word that is too short takes the time of those before it.
    """
    found = [dict(word) for word in words]
    if not found:
        return found
    end = found[-1]["end"]
    shortest = min(shortest, (end - before) / len(found))
    for word in reversed(found):
        word["end"] = min(word["end"], end)
        end = word["start"] = min(word["start"], word["end"] - shortest)
    return found

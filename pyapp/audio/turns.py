"""Turns of speakers, and whose the words of a transcript are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import accumulate

from pyapp.dataclass import dataclass

from .word_times import SENTENCE_ENDS, Draft, WordTime

REACH = 0.5  # seconds around a change of speakers in which it is put at a pause between words
SENTENCE = 0.5  # seconds of pause that the end of a sentence is worth


@dataclass(frozen=True, slots=True)
class Turn:
    """What a speaker, numbered from 0, says from `start` to `end` in seconds."""

    start: float
    end: float
    speaker: int


@dataclass
class Turns:
    """The turns of a recording, in order and disjoint."""

    turns: Sequence[Turn]
    _ends: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._ends = [turn.end for turn in self.turns]

    @property
    def speakers(self) -> int:
        return len({turn.speaker for turn in self.turns})

    def speaker(self, start: float, end: float) -> int | None:
        """Who speaks most from `start` to `end`; where nobody does, the one whose turn is nearest. None: there is no
        turn.
        """
        if not self.turns:
            return None
        shares: dict[int, float] = {}
        first = bisect_left(self._ends, start)
        for turn in self.turns[first:]:
            if turn.start >= end:
                break
            share = min(end, turn.end) - max(start, turn.start)
            if share > 0:
                shares[turn.speaker] = shares.get(turn.speaker, 0.0) + share
        if shares:
            return max(shares, key=shares.__getitem__)
        near = self.turns[max(0, first - 1) : first + 1] or self.turns[-1:]
        return min(near, key=lambda turn: max(turn.start - end, start - turn.end)).speaker

    def of_words(self, words: Sequence[WordTime]) -> list[int | None]:
        """Whose each word is. A change of speakers is moved to a longer pause or the end of a sentence that is near,
        because the times of turns are rough.
        """
        labels = [self.speaker(word.start, word.end) for word in words]
        for at in [place for place in range(1, len(words)) if labels[place] != labels[place - 1]]:
            if labels[at] == labels[at - 1]:  # an earlier change has been moved over it
                continue
            moved = max(self._near(words, labels, at), key=lambda place: (pause_before(words, place), -abs(place - at)))
            for place in range(moved, at):
                labels[place] = labels[at]
            for place in range(at, moved):
                labels[place] = labels[at - 1]
        return labels

    def _near(self, words: Sequence[WordTime], labels: Sequence[int | None], at: int) -> list[int]:
        """The places between words to which a change before word `at` may be moved."""
        first = last = at
        while first > 1 and labels[first - 1] == labels[at - 1] and words[at].start - words[first - 1].start <= REACH:
            first -= 1
        while last < len(words) - 1 and labels[last] == labels[at] and words[last + 1].start - words[at].start <= REACH:
            last += 1
        return list(range(first, last + 1))

    def parts(self, draft: Draft, first_time: int) -> list[Draft]:
        """The segment with its speaker, or the parts of it if the speaker changes between its words. Tokens from
        `first_time` on are times.
        """
        words = [word for word in draft.words if word.word]
        labels = self.of_words(words)
        cuts = [at for at in range(1, len(words)) if labels[at] != labels[at - 1]]
        if not cuts:
            speaker = labels[0] if labels else self.speaker(draft.start, draft.end)
            return [replace(draft, speaker=speaker_name(speaker))]
        heads = next((at for at, token in enumerate(draft.tokens) if token < first_time), 0)
        ends = list(accumulate((len(word.tokens) for word in words), initial=heads))
        parts = []
        for first, last in zip([0, *cuts], [*cuts, len(words)], strict=True):
            part = words[first:last]
            start = draft.start if first == 0 else part[0].start
            end = draft.end if last == len(words) else part[-1].end
            tokens = draft.tokens[ends[first] if first else 0 : ends[last] if last < len(words) else None]
            text = "".join(word.word for word in part)
            parts.append(Draft(draft.seek, start, max(start, end), text, tokens, part, speaker_name(labels[first])))
        return parts


def pause_before(words: Sequence[WordTime], place: int) -> float:
    """The seconds between a word and the one before it, longer if that ends a sentence."""
    before = words[place - 1]
    ends = before.word.strip()[-1:] in SENTENCE_ENDS if before.word.strip() else False
    return round(max(0.0, words[place].start - before.end), 2) + (SENTENCE if ends else 0.0)


def speaker_name(speaker: int | None) -> str | None:
    return None if speaker is None else f"Speaker {speaker + 1}"

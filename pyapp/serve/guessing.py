"""Guesses of how one text among several goes on, and how many of them are worth a row of the step."""

from __future__ import annotations

from collections.abc import Sequence

from pyapp.text.generation.speculation import PromptLookup

FIRST = 2  # guesses at a time
LONGEST_PAUSE = 32  # tokens


class Guesses:
    """Guesses at most `most` tokens at a time, by what the text and its prompt said before. A row of a step costs time:
    there are twice as many guesses where all were right, and as many as were right where some were wrong. Where all
    were wrong there is a pause, each time twice as long.
    """

    def __init__(self, most: int) -> None:
        self._lookup = PromptLookup()
        self._most, self._worth = most, min(FIRST, most)
        self._pause = self._next = 0

    def guess(self, known: Sequence[int], room: int) -> list[int]:
        """At most `room` tokens that may follow `known`."""
        most = min(self._worth, room)
        return self._lookup.guess(known, most) if most > 0 and len(known) >= self._next else []

    def learn(self, length: int, guessed: int, right: int) -> None:
        """Takes note that `right` of `guessed` guesses were right; the text now has `length` tokens."""
        self._worth = min(2 * right, self._most) if right == guessed else max(right, 1)
        self._pause = 0 if right else min(2 * self._pause + 1, LONGEST_PAUSE)
        self._next = length + self._pause

"""Speculative decoding: guessed tokens are read in one pass, and those that the model would have chosen are kept.

A pass over a few tokens costs little more than one over a single token, because the weights are read once (Leviathan
et al., 2023). A guess is kept if the sampler, asked for the token in its place, chooses it; so the tokens are those of
plain decoding, for sampling with a seed too. (The logits of a pass over several tokens differ from single steps in
their last bits; two tokens that are equally likely up to that may change places.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyapp.engine.ops.sampling import peaks
from pyapp.engine.tensor import Tensor
from pyapp.errors import ModelError
from pyapp.text.generation.session import Session

LONGEST_MATCH = 3


class Drafter(Protocol):
    """Guesses how a text goes on."""

    def guess(self, ids: Sequence[int], most: int) -> list[int]:
        """At most `most` tokens that may follow the text `ids`."""
        ...


class PromptLookup:
    """Guesses that the text repeats itself: what followed the latest occurrence of its last tokens follows again
    (Saxena,
    "Prompt lookup decoding", 2023; https://github.com/apoorvumang/prompt-lookup-decoding). Three tokens are looked for,
    then two.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}  # where the latest occurrence of some tokens ends

    def guess(self, ids: Sequence[int], most: int) -> list[int]:
        if self._ids != ids[: len(self._ids)]:
            self._ids, self._ends = [], {}
        known, count = len(self._ids), len(ids)
        self._ids.extend(ids[known:])
        # Occurrences that end before the last token: the last one is what is looked for.
        for end in range(max(known, 2), count):
            for size in range(2, min(LONGEST_MATCH, end) + 1):
                self._ends[tuple(self._ids[end - size : end])] = end
        for size in range(min(LONGEST_MATCH, count), 1, -1):
            place = self._ends.get(tuple(self._ids[count - size :]))
            if place is not None:
                return self._ids[place : place + most]
        return []


class DraftModel:
    """The likeliest tokens of a smaller model with the same tokenizer, in its own session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def guess(self, ids: Sequence[int], most: int) -> list[int]:
        most = min(most, self.session.capacity - len(ids))
        if most < 1:
            return []
        logits = self.session.continue_from(ids)
        guesses = peaks([logits])
        while len(guesses) < most:
            guesses += peaks([self.session.step(guesses[-1])])
        return guesses


class Speculation:
    """The steps of a session with guesses of a drafter, at most `most` at a time.

    `step` is Session.step. `passes` counts the model's passes, `guessed` the guesses, `accepted` those that were right.
    """

    def __init__(self, session: Session, drafter: Drafter, most: int) -> None:
        if isinstance(drafter, DraftModel) and drafter.session.vocab_size != session.vocab_size:
            raise ModelError(
                f"the draft model has {drafter.session.vocab_size} tokens, the model {session.vocab_size}",
                hint="Give a smaller model of the same family, with the same tokenizer",
            )
        self.session = session
        self._drafter = drafter
        self._most = most
        self._guesses: list[int] = []
        self._rows: Tensor | None = None  # (T, V): the logits after each token of the last pass
        self._right = 0
        self.passes = self.guessed = self.accepted = 0

    @property
    def position(self) -> int:
        """The number of tokens that were read and are part of the text."""
        return self.session.position - len(self._guesses) + self._right

    def step(self, token: int) -> Tensor:
        """Reads one token; returns the logits (V,) float32 of the next token."""
        if self._right < len(self._guesses) and token == self._guesses[self._right]:
            self._right += 1
            self.accepted += 1
            return self._row(self._right)
        self.settle()
        session = self.session
        # The pass and its guesses must fit; a guess for the last place would never be used.
        room = min(self._most, session.capacity - session.position - 1)
        guesses = self._drafter.guess(session.plain([*session.tokens, token]), room)[:room] if room > 0 else []
        self.passes += 1
        if not guesses:
            return session.step(token)
        self._guesses, self._right = guesses, 0
        self.guessed += len(guesses)
        self._rows = session.read([token, *guesses])
        return self._row(0)

    def settle(self) -> None:
        """Forgets the guesses that were wrong or have not been used."""
        self.session.rewind(self.position)
        self._guesses, self._right = [], 0

    def _row(self, place: int) -> Tensor:
        assert self._rows is not None
        return self._rows.narrow(0, place, 1).reshape(self.session.vocab_size)

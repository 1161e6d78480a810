"""Beam search: follows several texts at once and finds the most likely ones.

The search is that of transformers (GenerationMixin with num_beams, without sampling): rules change the
log-probabilities of the next tokens, and a text's score is their sum / length ** length_penalty.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, Self

from pyapp.dataclass import dataclass
from pyapp.engine.tensor import Tensor
from pyapp.text.generation.sampling import not_a_number


class Rules(Protocol):
    """What changes the choice of the next token of one text, and when the text ends."""

    def apply(self, scores: Tensor) -> Tensor:
        """The scores (V,) of the next token as the rules change them, -inf for one that may not come; `scores` stays as
        it is.
        """
        ...

    def accept(self, token: int) -> str | None:
        """Goes on with a token; the reason if it ends the text."""
        ...

    def copy(self) -> Self:
        """The rules of a text that goes on from here by itself."""
        ...


@dataclass
class Hypothesis:
    """A text of the search: its tokens, their log-probability (at the end: the text's score), its rules. `parent` is
    the place, in the step before, of the text that it goes on; `reason` says why it ended.
    """

    tokens: list[int]
    score: float
    rules: Rules
    parent: int = 0
    reason: str = ""


class BeamSearch:
    """The texts of some sources: `open[i]`, at most `beams` of source i, and `finished[i]`, the best complete ones.

    `start` has the rules of each source. `most`: the largest number of tokens; `ends`: the tokens that end a text,
    which are part of it. early_stopping: True ends with the first `beams` complete texts, False when better ones are
    unlikely, "never" when there can be none.
    """

    def __init__(
        self, start: Sequence[Rules], beams: int, most: int, ends: Collection[int], length_penalty: float,
        early_stopping: bool | str,
    ) -> None:  # fmt: skip
        self.open = [[Hypothesis([], 0.0, rules)] for rules in start]
        self.finished: list[list[Hypothesis]] = [[] for _ in start]
        self._last = list(self.open)
        self._beams, self._most, self._ends = beams, most, ends
        self._penalty, self._early = float(length_penalty), early_stopping
        self._width = max(2, 1 + len(ends)) * beams  # of candidates: enough that `beams` of them do not end
        self._length = 0

    def advance(self, logits: Tensor, stride: int = 0) -> bool:
        """Chooses how the open texts go on; whether any does. logits (R, V): row i * stride + j is for `open[i][j]`."""
        self._length += 1
        values = logits.detach().log_softmax(-1)  # (R, V)
        rows = [i * stride + j for i, texts in enumerate(self.open) for j in range(len(texts))]
        for row, text in zip(rows, (text for texts in self.open for text in texts), strict=True):
            scores = values[row]  # (V,)
            changed = text.rules.apply(scores)
            if changed is not scores:
                scores.copy_(changed)
        best, ids = (found.tolist() for found in values.topk(min(self._width, values.shape[1]), -1))  # (R, width)
        if any(best[row][0] != best[row][0] for row in rows):
            raise not_a_number()
        for i, texts in enumerate(self.open):
            if not texts:
                continue
            found = [
                (text.score + score, place, token)
                for place, text in enumerate(texts)
                for score, token in zip(best[i * stride + place], ids[i * stride + place], strict=True)
                if score > -1e9
            ]
            found.sort(key=lambda entry: -entry[0])
            self.open[i] = self._chosen(i, texts, found[: self._width])
            if not self._goes_on(i):
                self._last[i], self.open[i] = self.open[i] or texts, []
        return any(self.open)

    def best(self, source: int) -> list[Hypothesis]:
        """The texts of a source, the best first: complete ones; where there are none, those that were open last."""
        return self.finished[source] or self.open[source] or self._last[source]

    def _chosen(
        self, source: int, texts: Sequence[Hypothesis], found: Sequence[tuple[float, int, int]]
    ) -> list[Hypothesis]:
        """The next open texts of candidates (score, text, token) in descending order; those that end are finished."""
        chosen: list[Hypothesis] = []
        for rank, (score, place, token) in enumerate(found):
            if len(chosen) == self._beams:
                break
            text = texts[place]
            rules, reason = text.rules, "stop" if token in self._ends else None
            if reason is None:
                rules = rules.copy()
                reason = rules.accept(token) or ("length" if self._length >= self._most else None)
            new = Hypothesis([*text.tokens, token], score, rules, place, reason or "")
            if reason is None:
                chosen.append(new)
            elif rank < self._beams:
                new.score = score / self._length**self._penalty
                self.finished[source].append(new)
        self.finished[source].sort(key=lambda text: -text.score)
        del self.finished[source][self._beams :]
        return chosen

    def _goes_on(self, source: int) -> bool:
        """Whether an open text of a source may become better than the worst complete one."""
        finished = self.finished[source]
        if not self.open[source] or len(finished) < self._beams:
            return bool(self.open[source])
        if self._early is True:
            return False
        longest = self._most if self._early == "never" and self._penalty > 0 else self._length
        return self.open[source][0].score / longest**self._penalty > finished[-1].score

"""A trigram model over tokens, to compare with: interpolated Kneser-Ney smoothing with one discount per order.

Kneser and Ney 1995; formulas as in Chen and Goodman 1999, section 2.7 (https://doi.org/10.1006/csla.1999.0128).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

BOUNDARY = 1
"""The token that begins a text. One more of it comes before, because a trigram needs two tokens on its left."""


class _Order:
    """The counts of all n-grams of one length, (context, token) -> count, and for each context what smoothing needs.

    A context is one number; so is an n-gram: context * vocabulary + token.
    """

    def __init__(self, keys: Array, counts: Array, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.keys, self.counts = keys, counts.astype(np.float64)
        contexts = keys // vocabulary
        self.contexts, starts = np.unique(contexts, return_index=True)
        self.totals = np.add.reduceat(self.counts, starts)
        self.kinds = np.diff(np.append(starts, len(keys))).astype(np.float64)
        once, twice = float((counts == 1).sum()), float((counts == 2).sum())
        self.discount = once / (once + 2 * twice) if once and twice else 0.5

    def probability(self, contexts: Array, tokens: Array, lower: Array) -> Array:
        """p(token | context); `lower` is the probability after the shorter context."""
        counts = _look_up(self.keys, self.counts, contexts * self.vocabulary + tokens)
        totals = _look_up(self.contexts, self.totals, contexts)
        kinds = _look_up(self.contexts, self.kinds, contexts)
        known = totals > 0
        safe = np.where(known, totals, 1)
        interpolated = (np.maximum(counts - self.discount, 0) + self.discount * kinds * lower) / safe
        return np.where(known, interpolated, lower)


class TrigramModel:
    """Counts texts of token ids, each of which begins with the boundary token. It predicts each text's tokens and the
    boundary after it. Raises ValueError without texts.
    """

    def __init__(self, texts: Iterable[Sequence[int]], vocabulary: int) -> None:
        self.vocabulary = vocabulary
        one, two, three = self._windows(texts)
        if not len(three):
            raise ValueError("a trigram model needs texts to count")
        keys, counts = np.unique((one * vocabulary + two) * vocabulary + three, return_counts=True)
        self.three = _Order(keys, counts, vocabulary)
        # Lower orders count the different tokens before an n-gram, not its occurrences: the idea of Kneser and Ney.
        pairs, before = np.unique(keys % (vocabulary * vocabulary), return_counts=True)
        self.two = _Order(pairs, before, vocabulary)
        tokens, before = np.unique(pairs % vocabulary, return_counts=True)
        self.one = _Order(tokens, before, vocabulary)

    def nats(self, texts: Iterable[Sequence[int]]) -> tuple[float, int]:
        """(sum of -log p, number of predicted tokens)."""
        one, two, three = self._windows(texts)
        uniform = np.full(len(three), 1 / self.vocabulary)
        single = self.one.probability(np.zeros(len(three), np.int64), three, uniform)
        double = self.two.probability(two, three, single)
        triple = self.three.probability(one * self.vocabulary + two, three, double)
        return float(-np.log(triple).sum()), len(three)

    def _windows(self, texts: Iterable[Sequence[int]]) -> tuple[Array, Array, Array]:
        """The three tokens of every trigram, as columns."""
        parts = [np.array([BOUNDARY, *text, BOUNDARY], np.int64) for text in texts]
        columns = [np.concatenate([part[i : len(part) - 2 + i] for part in parts]) for i in range(3)] if parts else []
        empty = np.zeros(0, np.int64)
        return (columns[0], columns[1], columns[2]) if columns else (empty, empty, empty)


def _look_up(keys: Array, values: Array, wanted: Array) -> Array:
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0.0)

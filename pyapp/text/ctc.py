"""Text from the scores of a model that was trained with connectionist temporal classification (Graves et al. 2006,
https://doi.org/10.1145/1143844.1143891).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLANK = 0


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

"""Reproducible random choices on every platform: the results of a recipe depend only on names and numbers."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chooser:
    """Random choices determined by `name`.

    Only random() of random.Random is used: Python documents that its sequence for a given seed stays the same.
    """

    def __init__(self, *name: object) -> None:
        # Seeded with an int: Python does not promise that the seeding of strings stays the same.
        digest = hashlib.sha256("/".join(map(str, name)).encode()).digest()
        self.random = random.Random(int.from_bytes(digest[:8], "little")).random

    def choose(self, values: Sequence[T]) -> T:
        """One of `values`, all equally likely."""
        return values[int(self.random() * len(values))]

    def between(self, low: float, high: float) -> float:
        """A number from `low` up to, but not including, `high`."""
        return low + (high - low) * self.random()

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return self.random() < probability

"""What the embedded speech model can hear: sentences from a closed grammar, about 320 different words.

Numbers, times, dates, commands, places, weather, shopping, people, short questions and answers. Numbers are written as
words, as they are spoken. `[rule]` in a template is replaced by one of the rule's alternatives; `sentence(seed, index)`
is the same text on every platform, for ever.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from pyapp.train.speech_words import RULES, TOPICS

TEST_SEED = 2_000_000_023
"""Of the sentences for tests."""

RESERVED = 12
"""One of so many sentences is never trained on."""

SHORTEST_RESERVED = 5
"""Words. Of shorter sentences there are so few that a word might occur in reserved ones alone."""

_SLOT = re.compile(r"\[([a-z_]+)\]")
_WORD = re.compile(r"[a-z']+")
T = TypeVar("T")


class Chooser:
    """Choices that only use random() of random.Random: its sequence for a given seed is documented to stay the same."""

    def __init__(self, *name: object) -> None:
        # Seeded with an int: the seeding of strings is not promised to stay the same.
        digest = hashlib.sha256("/".join(map(str, name)).encode()).digest()
        self.random = random.Random(int.from_bytes(digest[:8], "little")).random

    def choose(self, values: Sequence[T]) -> T:
        return values[int(self.random() * len(values))]

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def chance(self, probability: float) -> bool:
        return self.random() < probability


def sentence(seed: object, index: int) -> str:
    """The sentence number `index` of `seed`: one to about 20 words, with a first capital and a last mark."""
    chooser = Chooser("sentence", seed, index)
    names, weights = list(TOPICS), list(TOPICS.values())
    draw = chooser.random() * sum(weights)
    topic = next(name for number, name in enumerate(names) if draw < sum(weights[: number + 1]))
    text = expand(f"[{topic}]", chooser)
    return text[0].upper() + text[1:]


def expand(template: str, chooser: Chooser) -> str:
    """The template with every [rule] replaced, from left to right, outer before inner."""
    parts, end = [], 0
    for slot in _SLOT.finditer(template):
        parts += [template[end : slot.start()], expand(chooser.choose(RULES[slot[1]]), chooser)]
        end = slot.end()
    return "".join([*parts, template[end:]])


def is_unseen(text: str) -> bool:
    """Whether a sentence is reserved for tests: a property of its text, so that no seed can ever train on it."""
    digest = hashlib.sha256(text.encode()).digest()
    return len(words(text)) >= SHORTEST_RESERVED and digest[0] % RESERVED == 0


def training_sentences(seed: object) -> Iterator[str]:
    """The sentences of `seed` that may be trained on, without end."""
    return (text for text in _from(seed) if not is_unseen(text))


def unseen_sentences(seed: object = TEST_SEED) -> Iterator[str]:
    """The sentences of `seed` that are reserved for tests, without end."""
    return (text for text in _from(seed) if is_unseen(text))


def _from(seed: object) -> Iterator[str]:
    return (sentence(seed, index) for index in itertools.count())


def words(text: str) -> list[str]:
    """Lower-case words without marks: what the word error rate compares."""
    return _WORD.findall(text.lower())


def vocabulary() -> set[str]:
    """Every word that a sentence can have."""
    reachable, waiting = set(), list(TOPICS)
    while waiting:
        rule = waiting.pop()
        if rule not in reachable:
            reachable.add(rule)
            waiting += [name for template in RULES[rule] for name in _SLOT.findall(template)]
    return {word for rule in reachable for template in RULES[rule] for word in words(_SLOT.sub(" ", template))}

"""The sentences that the embedded speech model knows: a closed grammar of about 320 different words.

It covers numbers, times, dates, commands, places, weather, shopping, people, short questions and answers. Numbers are
written as words, as they are spoken. In a template, `[rule]` is replaced by one of the rule's alternatives.
`sentence(seed, index)` is the same text on every platform.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator

from pyapp.recipes.chooser import Chooser
from pyapp.recipes.speech.grammar.words import RULES, TOPICS

TEST_SEED = 2_000_000_023
"""The seed of the sentences for tests."""

RESERVED = 12
"""One sentence in so many is reserved for tests: no training sees it."""

SHORTEST_RESERVED = 5
"""Words of the shortest sentence that may be reserved. There are few shorter ones: a word might occur in reserved
sentences alone."""

_SLOT = re.compile(r"\[([a-z_]+)\]")
_WORD = re.compile(r"[a-z']+")


def sentence(seed: object, index: int) -> str:
    """The sentence number `index` of `seed`: one to about 20 words, from a capital letter to a full stop or a question
    mark.
    """
    chooser = Chooser("sentence", seed, index)
    names, weights = list(TOPICS), list(TOPICS.values())
    draw = chooser.random() * sum(weights)
    topic = next(name for number, name in enumerate(names) if draw < sum(weights[: number + 1]))
    text = expand(f"[{topic}]", chooser)
    return text[0].upper() + text[1:]


def expand(template: str, chooser: Chooser) -> str:
    """The template with every [rule] replaced: from left to right, outer rules before inner ones."""
    parts, end = [], 0
    for slot in _SLOT.finditer(template):
        parts += [template[end : slot.start()], expand(chooser.choose(RULES[slot[1]]), chooser)]
        end = slot.end()
    return "".join([*parts, template[end:]])


def is_unseen(text: str) -> bool:
    """Whether a sentence is reserved for tests. Its text alone decides, so no seed can ever train on it."""
    digest = hashlib.sha256(text.encode()).digest()
    return len(words(text)) >= SHORTEST_RESERVED and digest[0] % RESERVED == 0


def training_sentences(seed: object) -> Iterator[str]:
    """The sentences of `seed` that training may use, without end."""
    return (text for text in _from(seed) if not is_unseen(text))


def unseen_sentences(seed: object = TEST_SEED) -> Iterator[str]:
    """The sentences of `seed` that are reserved for tests, without end."""
    return (text for text in _from(seed) if is_unseen(text))


def _from(seed: object) -> Iterator[str]:
    return (sentence(seed, index) for index in itertools.count())


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation: the word error rate compares these."""
    return _WORD.findall(text.lower())


def vocabulary() -> set[str]:
    """Every word that can occur in a sentence."""
    reachable, waiting = set(), list(TOPICS)
    while waiting:
        rule = waiting.pop()
        if rule not in reachable:
            reachable.add(rule)
            waiting += [name for template in RULES[rule] for name in _SLOT.findall(template)]
    return {word for rule in reachable for template in RULES[rule] for word in words(_SLOT.sub(" ", template))}

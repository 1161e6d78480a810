"""The trigram model: its probabilities are valid and follow the formulas."""

from collections import Counter
from math import log

import numpy as np
import pytest

from pyapp.recipes.story.trigram import TrigramModel

RANDOM = np.random.default_rng(5)
VOCABULARY = 9
TEXTS = [
    [1, *RANDOM.choice([2, 3, 4, 5, 6, 7], int(n), p=[0.4, 0.3, 0.1, 0.1, 0.06, 0.04])]
    for n in RANDOM.integers(3, 30, 40)
]
MODEL = TrigramModel(TEXTS, VOCABULARY)


def reference(texts: list[list[int]]) -> dict[tuple[int, int, int], float]:
    """p(c | a, b) for all a, b, c, counted with dicts."""
    three = Counter(t for text in texts for t in zip([1, *text, 1], [*text, 1], [*text[1:], 1], strict=False))
    two = Counter((b, c) for _, b, c in three)
    one = Counter(c for _, c in two)
    orders = []
    for counts in (one, two, three):
        n1, n2 = (sum(n == k for n in counts.values()) for k in (1, 2))
        orders.append(n1 / (n1 + 2 * n2) if n1 and n2 else 0.5)

    def smooth(counts: Counter, context: tuple, c: int, discount: float, lower: float) -> float:
        same = {key: n for key, n in counts.items() if (key[:-1] if isinstance(key, tuple) else ()) == context}
        total = sum(same.values())
        key = (*context, c) if context else c
        return (max(same.get(key, 0) - discount, 0) + discount * len(same) * lower) / total if total else lower

    found = {}
    for a in range(VOCABULARY):
        for b in range(VOCABULARY):
            for c in range(VOCABULARY):
                p = smooth(one, (), c, orders[0], 1 / VOCABULARY)
                p = smooth(two, (b,), c, orders[1], p)
                found[a, b, c] = smooth(three, (a, b), c, orders[2], p)
    return found


def test_by_the_formulas() -> None:
    expected = reference(TEXTS)
    text = [1, 2, 3, 2, 8, 2, 2, 7]
    total, count = MODEL.nats([text])
    seen = [1, *text, 1]
    assert count == len(text)
    assert total == pytest.approx(
        -sum(log(expected[a, b, c]) for a, b, c in zip(seen, seen[1:], seen[2:], strict=False))
    )


def test_probabilities_add_up() -> None:
    for a in range(VOCABULARY):
        for b in range(VOCABULARY):
            contexts = np.full(VOCABULARY, b, np.int64)
            tokens = np.arange(VOCABULARY)
            single = MODEL.one.probability(0 * contexts, tokens, np.full(VOCABULARY, 1 / VOCABULARY))
            double = MODEL.two.probability(contexts, tokens, single)
            triple = MODEL.three.probability(a * VOCABULARY + contexts, tokens, double)
            for p in (single, double, triple):
                assert p.min() > 0
                assert p.sum() == pytest.approx(1)


def test_more_text_predicts_better() -> None:
    few = TrigramModel(TEXTS[:4], VOCABULARY)
    held_out = [[1, 2, 3, 2, 4, 2], [1, 3, 2, 2]]
    assert MODEL.nats(held_out)[0] < few.nats(held_out)[0]


def test_no_texts() -> None:
    with pytest.raises(ValueError, match="texts"):
        TrigramModel([], 5)

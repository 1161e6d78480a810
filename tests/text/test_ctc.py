"""Decoding of CTC against its definition: the best class at each place, and the best text over all paths."""

from __future__ import annotations

from itertools import groupby, product
from math import exp
from typing import Any

import numpy as np
import pytest

from pyapp.text.generation import ctc
from pyapp.text.generation.ctc import BLANK, TextSearch, best_path


def test_marks_are_those_of_the_definition() -> None:
    scores = np.random.default_rng(2).standard_normal((300, 4)).astype(np.float32) * 3
    classes = scores.argmax(1)
    wanted = [number for number, _ in groupby(classes.tolist()) if number != BLANK]
    marks = best_path(scores)
    assert [mark.number for mark in marks] == wanted
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    for mark in marks:
        assert (classes[mark.first : mark.last + 1] == mark.number).all()
        assert mark.probability == pytest.approx(chances[mark.first : mark.last + 1, mark.number].max(), rel=1e-5)


def test_a_blank_parts_a_double_letter() -> None:
    rows = [1, 1, 0, 1, 2, 2, 0]
    marks = best_path(np.eye(3, dtype=np.float32)[rows] * 20)
    assert [(mark.number, mark.first, mark.last) for mark in marks] == [(1, 0, 1), (1, 3, 3), (2, 4, 5)]
    assert best_path(np.zeros((0, 3), np.float32)) == []


class Language:
    """A model of characters by a function of the text before and the character."""

    context = 2

    def __init__(self, chance: Any) -> None:
        self.log_probability = chance


def every_text(chances: np.ndarray, alphabet: str) -> dict[str, float]:
    """The probability of each text, summed over all paths."""
    found: dict[str, float] = {}
    for path in product(range(len(alphabet) + 1), repeat=len(chances)):
        text = "".join(alphabet[number - 1] for number, _ in groupby(path) if number != BLANK)
        found[text] = found.get(text, 0.0) + float(np.prod([chances[i, number] for i, number in enumerate(path)]))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_search_finds_the_most_probable_text_of_all_paths(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctc, "LEAST", 0.0)
    monkeypatch.setattr(ctc, "MARGIN", 0.0)
    monkeypatch.setattr(ctc, "WIDTH", 10_000)
    scores = np.random.default_rng(seed).standard_normal((6, 3)).astype(np.float32) * 1.5
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    liked = {("a", "b"): -0.2, ("b", "a"): -0.9, ("a", "a"): -4.0}

    def chance(before: str, character: str) -> float:
        return liked.get((before[-1], character), -2.0)

    texts = every_text(chances, "ab")
    for text in texts:
        whole = "\n" + text + "\n"
        language = sum(chance(whole[:i], whole[i]) for i in range(1, len(whole)))
        texts[text] *= exp(ctc.LANGUAGE * language + ctc.LENGTH * len(text))
    marks = TextSearch("ab", Language(chance)).best(scores)
    assert "".join("ab"[mark.number - 1] for mark in marks) == max(texts, key=lambda text: texts[text])
    assert all(one.first <= one.last < other.first for one, other in zip(marks, marks[1:], strict=False))


def test_what_is_seen_well_needs_no_language() -> None:
    rows = np.eye(3, dtype=np.float32)[[1, 1, 0, 2, 0]] * 20
    search = TextSearch("ab", Language(lambda before, character: 1 / 0))
    assert search.best(rows) == best_path(rows)
    assert search.best(np.zeros((0, 3), np.float32)) == []


def test_the_language_decides_between_what_looks_alike() -> None:
    """Two characters that are as probable at a place; the place of each is told."""
    rows = np.array([[0, 9, 0, 0], [9, 0, 0, 0], [0, 0, 4.0, 4.1], [9, 0, 0, 0]], np.float32)
    for wanted in "bc":
        language = Language(lambda before, character, wanted=wanted: 0.0 if character == wanted else -5.0)
        marks = TextSearch("abc", language).best(rows)
        assert [(mark.number, mark.first) for mark in marks] == [(1, 0), ("abc".index(wanted) + 1, 2)]
        assert 0.4 < marks[1].probability < 0.6

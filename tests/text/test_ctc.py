"""Greedy decoding of CTC against the definition: the best class at each place, repetitions and blanks removed."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from pyapp.text.ctc import BLANK, best_path


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

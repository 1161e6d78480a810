"""Random programs give what torch gives (random_programs.py made them)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import pyapp

from .random_programs import GOLDEN, difference, results

TOGETHER = 20  # programs of a test
KEPT: list[dict[str, Any]] = json.loads(GOLDEN.read_text())


def check(program: dict[str, Any]) -> None:
    """AssertionError unless a program gives on the default device what it gave in torch."""
    text = "\n".join(program["lines"])
    found = results(pyapp, program["lines"], program["inputs"], program["names"])
    assert found.keys() == program["results"].keys(), text
    for name, (dtype, shape, values) in program["results"].items():
        expected = dtype, shape, np.array(values).reshape(found[name][2].shape if shape == found[name][1] else -1)
        assert not (told := difference(expected, found[name])), f"{text}\n{name}: {told}"


@pytest.mark.filterwarnings("ignore:.*Using a target size")  # of shapes that are broadcast
@pytest.mark.parametrize("first", range(0, len(KEPT), TOGETHER))
def test_programs(first: int) -> None:
    for program in KEPT[first : first + TOGETHER]:
        check(program)

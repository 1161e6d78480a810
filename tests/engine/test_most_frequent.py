"""mode of many elements, which are sorted, not compared with each other; and of none."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp


def test_many_elements() -> None:
    values = np.random.default_rng(0).integers(0, 500, (2, 100_000))
    found = pyapp.from_numpy(values).mode()
    for row, value, index in zip(values, found.values.tolist(), found.indices.tolist(), strict=True):
        names, counts = np.unique(row, return_counts=True)
        assert value == names[counts.argmax()] and index == np.flatnonzero(row == value)[-1]


def test_what_is_no_number_counts_once() -> None:
    nan = float("nan")
    assert pyapp.tensor([nan, 2.0, nan, 1.0, 2.0]).mode().values.item() == 2
    assert np.isnan(pyapp.tensor([nan, nan]).mode().values.item())


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_nothing_has_no_mode(shape: tuple[int, ...]) -> None:
    with pytest.raises(IndexError, match=r"mode: dim \d of .* has no elements"):
        pyapp.zeros(shape).mode()


@pytest.mark.parametrize("limits", [(0, float("inf")), (0, float("nan")), (0, 1, float("inf"))])
def test_ranges_have_ends(limits: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        pyapp.arange(*limits)

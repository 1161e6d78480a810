"""Complex numbers against torch's golden values and gradients, and what belongs to them beside functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tensor
from tests.together import check_each, fewer_in_browser

from .complex_cases import CASES, REFUSED, array_of, gradients, inputs, run

GOLDEN = np.load(Path(__file__).with_name("golden_complex.npz"))
INDEX: dict[str, Any] = json.loads(GOLDEN["index"].tobytes())


def name_of(x: Any) -> str:
    return x.dtype.name if hasattr(x, "dtype") else type(x).__name__


def _places() -> dict[str, int]:
    """Where the numbers of each case begin."""
    found, at = {}, 0
    for case, entry in INDEX.items():
        found[case] = at
        if not isinstance(entry, str):
            shapes = [shape for shape, _, _ in entry[0]] + [shape for shape in entry[1] if shape is not None]
            at += sum(int(np.prod(shape)) for shape in shapes)
    assert at == len(GOLDEN["values"])
    return found


PLACES, VALUES = _places(), GOLDEN["values"]


def check(case: str) -> None:
    entry, at = INDEX[case], PLACES[case]
    tensors = inputs(pyapp, True)
    results = run(case, tensors)
    if isinstance(entry, str):
        assert results[0].name == entry
        return
    narrow = run(case, inputs(pyapp, False))
    for y, z, (shape, wide_name, narrow_name) in zip(results, narrow, entry[0], strict=True):
        assert (name_of(y), name_of(z)) == (wide_name, narrow_name)
        size = int(np.prod(shape))
        expected = VALUES[at : at + size].reshape(shape)
        at += size
        for found, tolerance in ((y, 1e-6), (z, 1e-4)):
            np.testing.assert_allclose(array_of(found), expected, rtol=10 * tolerance, atol=tolerance)
    for g, shape in zip(gradients(pyapp, results, tensors), entry[1], strict=True):
        if shape is None:
            assert g is None or not array_of(g).round(8).any()
            continue
        size = int(np.prod(shape))
        np.testing.assert_allclose(array_of(g), VALUES[at : at + size].reshape(shape), rtol=1e-5, atol=2e-5)
        at += size


@pytest.mark.parametrize("part", range(6))
def test_values_and_gradients_are_torchs(part: int) -> None:
    check_each(check, [(case,) for case in fewer_in_browser(CASES[part::6])])


def test_what_complex_numbers_do_not_have_is_refused() -> None:
    def refuse(case: str) -> None:
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            run(case, inputs(pyapp, True))

    check_each(refuse, [(case,) for case in REFUSED])
    with pytest.raises(TypeError, match="lt: takes real numbers, not complex64.2. on cpu, .*use abs"):
        assert tensor([1j, 2]) < tensor([1j, 2])

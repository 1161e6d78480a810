"""Random programs (tests/engine/random_programs.py) give torch's results where the host cannot see the memory."""

from __future__ import annotations

import pytest

import pyapp
from tests.engine.test_random_programs import KEPT, check

from . import device as _device  # noqa: F401 (registers the mirror)


@pytest.mark.filterwarnings("ignore:.*Using a target size")
def test_programs() -> None:
    computed = 0
    pyapp.set_default_device("mirror")
    try:
        for program in KEPT:
            try:
                check(program)
                computed += 1
            except NotImplementedError as error:
                assert "it runs on the host" in str(error)
    finally:
        pyapp.set_default_device("cpu")
    assert computed > 0.8 * len(KEPT)

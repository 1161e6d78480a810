"""The number of threads that the environment sets for the kernels."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.native_only


def threads(**environment: str) -> tuple[int, str]:
    """The number of threads of a process with these variables, and its stderr."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYAPP_NUM_THREADS", "OMP_NUM_THREADS")}
    code = "import pyapp; print(pyapp.get_num_threads())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout), done.stderr


def test_variables_set_threads() -> None:
    default, _ = threads()
    assert threads(OMP_NUM_THREADS="3") == (3, "") and threads(PYAPP_NUM_THREADS="5") == (5, "")
    assert threads(PYAPP_NUM_THREADS="2", OMP_NUM_THREADS="7") == (2, "")
    assert threads(OMP_NUM_THREADS="3,2") == (3, "") and threads(OMP_NUM_THREADS=" 4 ") == (4, "")
    assert threads(OMP_NUM_THREADS="1000")[0] == 64
    for text in ("", "none", "0", "-1", "9" * 30):
        assert threads(OMP_NUM_THREADS=text) == (default, "")


@pytest.mark.parametrize("text", ["none", "0", "-1", "2,3", "1.5"])
def test_a_variable_of_ours_that_is_no_number_is_warned_of(text: str) -> None:
    found, said = threads(PYAPP_NUM_THREADS=text, OMP_NUM_THREADS="2")
    assert found == 2 and "PYAPP_NUM_THREADS is" in said and "expected a number from 1 to 64" in said

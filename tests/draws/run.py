"""Draws as tests, for browsers: python -m tests.pyodide relaxed tests/draws/run.py -s"""

import pytest

import pyapp
from tests.mirror import device as _device  # noqa: F401 (registers the mirror, which is the pool in a page)

from .compare import Runner

FIRST, COUNT = 0, 1000


@pytest.mark.parametrize("device", ["cpu", "mirror", "webgpu"])
def test_draws(device: str) -> None:
    if device == "webgpu" and not pyapp.webgpu.is_available():
        pytest.skip(pyapp.webgpu.reason())
    floats = ("float32", "float32", "float16", "bfloat16") if device == "webgpu" else None
    assert Runner(device, floats).run(FIRST, COUNT) == 0

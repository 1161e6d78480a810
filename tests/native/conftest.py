"""Every kernel test runs once for each instruction set of this machine."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.native.kernels import LIBRARY, Kernels, load_all


@cache
def loaded() -> list[Kernels]:
    if not LIBRARY.exists():
        raise pytest.UsageError(f"{LIBRARY} is missing: run `python native/build.py host`")
    with tempfile.TemporaryDirectory() as folder:  # a loaded library outlives its file
        return load_all(Path(folder))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernels" in metafunc.fixturenames:
        metafunc.parametrize("kernels", loaded(), ids=lambda kernels: kernels.name, scope="session")

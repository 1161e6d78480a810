"""Every kernel test runs once for each instruction set of this machine, and for the WebAssembly builds under node."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.native.kernels import LIBRARY, Kernels, load_all
from tests.native.wasm import WasmKernels, load_wasm


@cache
def loaded() -> list[Kernels]:
    if not LIBRARY.exists():
        raise pytest.UsageError(f"{LIBRARY} is missing: run `python native/build.py host`")
    with tempfile.TemporaryDirectory() as folder:  # a loaded library outlives its file
        return load_all(Path(folder))


@cache
def loaded_wasm() -> list[WasmKernels]:
    return [] if "PYAPP_LIBRARY" in os.environ else load_wasm()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernels" in metafunc.fixturenames:
        host_only = metafunc.definition.get_closest_marker("native_only")
        every = loaded() if host_only else [*loaded(), *loaded_wasm()]
        metafunc.parametrize("kernels", every, ids=lambda kernels: kernels.name, scope="session")

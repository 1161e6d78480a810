"""Every kernel test runs for each instruction set of this machine, and for the WebAssembly builds under node; with
sanitizers, for the first set or the widest, case by case, or for both where PYAPP_SANITIZED is "all"; on a card
(PYAPP_TEST_CUDA), for CUDA's kernels alone; with PYAPP_TEST_SYSTEM for those of another system alone.
"""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pyapp.engine.launch import MissingKernel
from tests.cuda.emulated import COMPILER, REAL, SANITIZE
from tests.native.emulated import CHECKED, EmulatedKernels, runs
from tests.native.kernels import LIBRARY, Kernels, load_all
from tests.native.other_systems import CHOSEN as OTHER_SYSTEM
from tests.native.other_systems import load_other_system
from tests.native.piped import PipedKernels
from tests.native.wasm import load_wasm


@cache
def loaded() -> list[Kernels]:
    if SANITIZE or REAL or OTHER_SYSTEM:  # those kernels alone
        return []
    if not LIBRARY.exists():
        raise pytest.UsageError(f"{LIBRARY} is missing: run `python native/build.py host`")
    with tempfile.TemporaryDirectory() as folder:  # a loaded library outlives its file
        return load_all(Path(folder))


def loaded_for(name: str) -> list[Kernels]:
    """The libraries of a case. Sanitizers look at the same C in each: one for each case finds what both would."""
    found = loaded()
    if "PYAPP_LIBRARY" not in os.environ or os.environ.get("PYAPP_SANITIZED") == "all":
        return found
    return [found[zlib.crc32(name.encode()) % len(found)]]


@cache
def loaded_piped() -> list[PipedKernels]:
    if OTHER_SYSTEM:
        return [*load_other_system()]
    return [] if "PYAPP_LIBRARY" in os.environ or SANITIZE or REAL else [*load_wasm()]


@cache
def loaded_emulated() -> list[EmulatedKernels]:
    """CUDA's kernels; none with sanitizers of C, for another system, or without a C++ compiler."""
    if OTHER_SYSTEM:
        return []
    there = REAL or shutil.which(COMPILER) is not None
    return [EmulatedKernels()] if there and "PYAPP_LIBRARY" not in os.environ else []


@pytest.fixture
def kernels() -> None:
    """Each library in turn: pytest_pyfunc_call runs the test with every one of them."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test once for each library, as one test of pytest's: its own work would take longer than the kernels'."""
    if "kernels" not in pyfuncitem.fixturenames:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    found: list[Any] = [*loaded_for(pyfuncitem.name)]
    if not pyfuncitem.get_closest_marker("native_only"):
        found += loaded_piped()
    chosen = SANITIZE or runs(pyfuncitem.name, pyfuncitem.originalname)
    if chosen and not pyfuncitem.get_closest_marker("host_library"):
        found += loaded_emulated()
    for kernels in found:
        try:
            pyfuncitem.obj(**{**arguments, "kernels": kernels})
        except MissingKernel:
            assert isinstance(kernels, EmulatedKernels)  # not every kernel has a CUDA source yet
        except Exception as error:
            error.add_note(f"with the kernels for {kernels.name}")
            raise
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Of what sanitizers check, the kernels that no test runs, or only large ones."""
    if CHECKED and (left := [name for kernels in loaded_emulated() for name in kernels.not_checked()]):
        terminalreporter.write_line(f"no case of {', '.join(left)} is small enough")

"""Runs inside Pyodide, in the browser's worker (worker.mjs): pytest over the tests, with the wheels of the site."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp.engine.native import instruction_set

PROJECT = Path("/home/pyodide/project")
INSTRUCTION_SETS = {"relaxed": "relaxed", "simd": "simd128"}  # by the library's name
KINDS = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


class Summary:
    """Counts what pytest's last line says."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.counts: dict[str, int] = {}

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        self.counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in KINDS}

    def __str__(self) -> str:
        found = ", ".join(f"{count} {kind}" for kind, count in self.counts.items() if count) or "nothing ran"
        return f"{found} in {time.perf_counter() - self.start:.1f} s"


def prepare(job: dict[str, Any]) -> str | None:
    """Finds the tests; what is wrong with the kernels, or None."""
    libraries = Path(sysconfig.get_paths()["purelib"]) / "pyapp" / "_native"
    library = libraries / f"libpyapp_{job['kernels']}.wasm"
    if not library.is_file():
        return f"{library.name} is not in the wheel"
    if instruction_set() != INSTRUCTION_SETS[job["kernels"]]:
        return f"the kernels of {instruction_set()} were loaded"
    os.chdir(PROJECT)
    sys.path.insert(0, str(PROJECT))
    pyapp.__path__.append(str(PROJECT / "outside_the_wheel"))  # pyapp.recipes, pyapp.serve
    return None


PROBLEM = prepare(json.loads(globals()["job"]))


def run(arguments: str) -> tuple[int, str]:
    """(exit status, summary) of pytest with these arguments, a JSON list: never 0 when no test passed."""
    if PROBLEM:
        return 3, PROBLEM
    summary = Summary()
    status = int(pytest.main([*json.loads(arguments), "-p", "no:cacheprovider", "--color=no"], plugins=[summary]))
    if status == 0 and not summary.counts.get("passed"):
        status = 5
    return status, str(summary)

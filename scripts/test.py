"""Runs every suite of tests, one more at a time than there are cores: python -m scripts.test [names of suites]

Each line of a suite's output is printed immediately, after the suite's name. At the end the last lines of all suites
are printed together.

A browser on a busy machine can miss a deadline that has nothing to do with the page. So the suite of the page goes
before the others, which take the time that it leaves. Up to three of its tests that fail are run once more, and of
those that start programs; those that pass then are named in the last lines. A test that fails twice fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]  # two processes would write one cache
PYODIDE = [sys.executable, "-m", "tests.pyodide", "--yielding"]
# Rewritten assertions tell more, but compiling the tests anew takes a third longer there: `python -m tests.pyodide` has
# them.
QUIET = ["-q", "-rfE", "--assert=plain"]
# With the other build of the kernels, Python is the same. So it runs the ops, and models of each kind.
SIMD = [
    *(f"tests/models/test_{name}.py" for name in ("llama2c", "gguf_models", "whisper", "whisper_quantised")),
    "tests/mirror",
]
# The native tests that start programs, and wait for them: suites of their own, so that no core is idle meanwhile.
PROGRAMS = ["tests/distributed", "tests/recipes", "tests/serve"]
COMMANDS = [
    *("tests/cli", "tests/project", "tests/tasks"),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py")),
]


def again(name: str, *arguments: str) -> list[str]:
    """pytest with a cache of its own, which tells which tests failed."""
    return [sys.executable, "-m", "pytest", "-o", f"cache_dir={ROOT / 'build' / f'{name}-tests'}", *arguments]


# The longest first, so that none is left to run alone at the end. The kernels' own tests (tests/native) run both
# WebAssembly builds under node, in the native suite, and need not run inside Pyodide again. Those of another device
# (tests/mirror) run there with one build, SIMD's. `make test-sanitize` also
# runs CUDA's kernels in their emulator, which takes minutes.
SUITES = {
    "page": again("page", "e2e"),
    "native": [*PYTEST, "tests", *(f"--ignore={path}" for path in (*PROGRAMS, *COMMANDS))],
    "Pyodide, relaxed": [*PYODIDE, "relaxed", "tests", "--ignore", "tests/native", "--ignore", "tests/mirror", *QUIET],
    "programs": again("program", *PROGRAMS),
    "commands": again("command", *COMMANDS),
    "sanitizers": [sys.executable, "-m", "scripts.sanitize", "tests/native", "-q", "-p", "no:cacheprovider"],
    "Pyodide, simd": [*PYODIDE, "simd", *SIMD, *QUIET],
}
RUN_AGAIN = ("page", "programs", "commands")  # suites whose failed tests get a second run
MOST_AGAIN = 3  # tests
FIRST = "page"
YIELDING = 10  # how much the other suites yield to it: their niceness
# A suite waits for processes, timers and files about a fifth of its time.
AT_ONCE = (os.cpu_count() or 1) + 1
_printing = threading.Lock()


def run_suite(name: str) -> tuple[str, int, list[str]]:
    """(name, exit status, last lines) of a suite, whose lines are printed as they come."""
    began = time.monotonic()
    status, lines = run_command(name, SUITES[name])
    failed = [line for line in closing_lines(lines) if line.startswith(("FAILED", "ERROR"))]
    if status and name in RUN_AGAIN and 0 < len(failed) <= MOST_AGAIN:
        status, second = run_command(name, [*SUITES[name], "--last-failed", "--last-failed-no-failures", "none"])
        lines = [*lines, *(second if status else [f"passed in a second run: {line}" for line in failed])]
    lines.append(
        f"{name}: {'passed' if status == 0 else f'FAILED, exit status {status}'}, {time.monotonic() - began:.0f} s"
    )
    return name, status, lines


def run_command(name: str, command: list[str]) -> tuple[int, list[str]]:
    """(exit status, last lines) of a command, whose lines are printed as they come."""
    lines: list[str] = []
    # Tests start hundreds of Pythons, which would compile the package each time if they could not keep byte code. The
    # cores are busy with other suites: threads would wait for each other.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment = {"OMP_NUM_THREADS": "1", **environment, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, text=True, errors="replace", env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if name != FIRST:
        os.setpriority(os.PRIO_PROCESS, process.pid, YIELDING)
    assert process.stdout is not None
    for line in process.stdout:
        lines = [*lines[-400:], line.rstrip("\n")]
        with _printing:
            print(f"{name} | {lines[-1]}", flush=True)
    return process.wait(), lines


def closing_lines(lines: list[str]) -> list[str]:
    """The lines from pytest's list of failures on, or the last two lines."""
    at = next((i for i, line in enumerate(lines) if "short test summary info" in line), len(lines) - 2)
    return lines[max(at, 0) :]


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        sys.exit(f"there is no suite {unknown[0]!r}; there are {', '.join(repr(name) for name in SUITES)}")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(run_suite, names or SUITES))
    print()
    for _, _, lines in results:
        print("\n".join(closing_lines(lines)))
    return max(status != 0 for _, status, _ in results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Rules for all tests: in a browser, tests of what it does not have are left out."""

from __future__ import annotations

import gc
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.together import examples, spread

# A file whose tests all need what a browser does not have (a process, the repository's files, the command line's
# libraries) is not even imported there.
NATIVE = re.compile(r"^pytestmark = .*\bnative_only\b", re.MULTILINE)
# In a browser, of a test's cases as many at most: the Python is the same there, and each case has run natively. What
# differs are the kernels, sizes in files, the tokenizers, and threads: their tests keep every case. Mutants of code for
# browsers, and of integers of 64 bits made 32, are found by so few cases and by those tests.
CASES_IN_BROWSER = 4
WHOLE_IN_BROWSER = re.compile(r"tests/(engine|formats|mirror|nn|pool|webgpu)/|tests/text/test_tokenizer")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if sys.platform != "emscripten" or collection_path.suffix != ".py":
        return None
    return True if NATIVE.search(collection_path.read_text("utf-8")) else None


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job ignores Ctrl-C, and so would the processes that tests start.
    if sys.platform != "emscripten" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        from hypothesis import settings
    except ImportError:
        pass
    else:  # the same examples each time: a run says something about the change, not about the day
        settings.register_profile("pyapp", derandomize=True, deadline=None, max_examples=examples(60))
        settings.load_profile("pyapp")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if sys.platform != "emscripten":
        return
    outside = {item for item in items if item.get_closest_marker("native_only") or item.get_closest_marker("browser")}
    cases: dict[str, list[pytest.Item]] = {}  # by the test's name without its parameters
    for item in items:
        if item not in outside and not WHOLE_IN_BROWSER.match(item.nodeid):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        outside.update(set(found).difference(spread(found, CASES_IN_BROWSER)))
    if outside:  # pytest would spend time on skipping them
        config.hook.pytest_deselected(items=list(outside))
        items[:] = [item for item in items if item not in outside]


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end: Python's collector need not look at them again and again."""
    gc.collect()
    gc.freeze()

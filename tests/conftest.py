"""Rules for all tests: in a browser, tests of what it does not have are left out."""

from __future__ import annotations

import gc
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.together import examples

# A file whose tests all need what a browser does not have (a process, the repository's files, the command line's
# libraries) is not even imported there.
NATIVE = re.compile(r"^pytestmark = .*\bnative_only\b", re.MULTILINE)


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
    outside = [item for item in items if item.get_closest_marker("native_only") or item.get_closest_marker("browser")]
    if outside:  # pytest would spend time on skipping them
        config.hook.pytest_deselected(items=outside)
        left_out = set(outside)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end: Python's collector need not look at them again and again."""
    gc.collect()
    gc.freeze()

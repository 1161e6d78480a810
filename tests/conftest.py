"""Rules for all tests: native_only tests are skipped in a browser, and the last lines show the runs inside Pyodide."""

from __future__ import annotations

import sys

import pytest

# The command line's libraries are not in the page; the repository's files are not there either.
NATIVE = ["test_cli.py", "test_transcribe_cli.py", "test_architecture.py", "test_packaging.py", "test_hub_names.py"]
collect_ignore = NATIVE if sys.platform == "emscripten" else []

PYODIDE_SUMMARIES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    try:
        from hypothesis import settings
    except ImportError:
        pass
    else:  # the same examples each time: a run says something about the change, not about the day
        settings.register_profile("pyapp", derandomize=True, deadline=None)
        settings.load_profile("pyapp")
    config.stash[PYODIDE_SUMMARIES] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sys.platform == "emscripten":
        for item in items:
            if item.get_closest_marker("native_only") or item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason="needs what a browser tab lacks"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[PYODIDE_SUMMARIES]:
        terminalreporter.write_line(line)

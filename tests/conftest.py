"""Rules for all tests: in a browser, tests of what it does not have are left out."""

from __future__ import annotations

import sys

import pytest

# The command line's libraries are not in the page; the repository's files are not there either.
NATIVE = [
    "test_cli.py",
    "test_chat_cli.py",
    "test_transcribe_cli.py",
    "test_architecture.py",
    "test_packaging.py",
    "test_hub_names.py",
]
collect_ignore = NATIVE if sys.platform == "emscripten" else []


def pytest_configure(config: pytest.Config) -> None:
    try:
        from hypothesis import settings
    except ImportError:
        pass
    else:  # the same examples each time: a run says something about the change, not about the day
        examples = 30 if sys.platform == "emscripten" else 100  # the same logic runs there, in five times the time
        settings.register_profile("pyapp", derandomize=True, deadline=None, max_examples=examples)
        settings.load_profile("pyapp")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if sys.platform != "emscripten":
        return
    outside = [item for item in items if item.get_closest_marker("native_only") or item.get_closest_marker("browser")]
    if outside:  # pytest would spend time on skipping them
        config.hook.pytest_deselected(items=outside)
        left_out = set(outside)
        items[:] = [item for item in items if item not in left_out]

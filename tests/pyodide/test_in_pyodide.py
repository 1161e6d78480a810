"""The unit tests once more, inside Pyodide in Chromium, with the wheels that the page loads."""

from __future__ import annotations

import pytest

from tests.conftest import PYODIDE_SUMMARIES
from tests.pyodide.runner import run_suite

pytestmark = [pytest.mark.browser, pytest.mark.native_only]


@pytest.mark.parametrize("kernels, arguments", [("relaxed", ["tests"]), ("simd", ["tests/native", "tests/models"])])
def test_suite_passes(kernels: str, arguments: list[str], pytestconfig: pytest.Config) -> None:
    """All tests with the fast kernels; what depends on kernels once more with those for other browsers."""
    lines: list[str] = []
    result = run_suite([*arguments, "-q", "-rfE"], kernels, echo=lines.append)
    pytestconfig.stash[PYODIDE_SUMMARIES].append(f"Inside Pyodide, {kernels} kernels: {result.summary}")
    assert result.status == 0, "\n".join(lines[-200:])


def test_a_failing_test_is_seen() -> None:
    result = run_suite(["tests/test_tiny.py", "-q", "-k", "nothing_has_this_name"], echo=lambda line: None)
    assert result.status == 5

"""The suite that runs inside Pyodide (python -m tests.pyodide) answers with pytest's own status."""

from __future__ import annotations

import pytest

from tests.pyodide.runner import run_suite

pytestmark = [pytest.mark.browser, pytest.mark.native_only]


def test_a_failing_test_is_seen() -> None:
    result = run_suite(["tests/test_tiny.py", "-q", "-k", "nothing_has_this_name"], echo=lambda line: None)
    assert result.status == 5

"""docs/ops.md equals the registry of ops."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[1]


def test_the_table_of_ops_is_up_to_date() -> None:
    from scripts.op_table import render

    assert (ROOT / "docs" / "ops.md").read_text() == render(), "run `python -m scripts.op_table`"

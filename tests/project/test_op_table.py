"""docs/ops.md equals the registry of ops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_ops_is_up_to_date() -> None:
    """In a process of its own: other tests add ops."""
    code = "import sys; from scripts.op_table import render; sys.stdout.buffer.write(render().encode())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert (ROOT / "docs" / "ops.md").read_bytes() == done.stdout, "run `python -m scripts.op_table`"

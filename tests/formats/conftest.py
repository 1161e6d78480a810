"""Fixtures of the format tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import hostile

GOLDEN = Path(__file__).parent / "golden"
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture
def golden() -> Path:
    """The folder of files that torch, safetensors and sentencepiece have written (make_golden.py)."""
    return GOLDEN


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """The path of a public file that is not part of the project; skips where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.is_file():
            pytest.skip(f"{name} is not here")
        return path

    return find


@pytest.fixture
def peak_memory() -> Any:
    """`with peak_memory(limit_in_bytes):` fails when Python allocated more at once."""

    return hostile.peak_memory

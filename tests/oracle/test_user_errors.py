"""The classes of torch's errors are still those of the golden file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.cases_user_errors import CASES
from tests.engine.make_golden_user_errors import GOLDEN, error_of

torch = pytest.importorskip("torch")
KNOWN = json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(("name", "call"), CASES, ids=[name for name, _ in CASES])
def test_torch_raises_what_is_written(name: str, call: Any) -> None:
    assert type(error_of(torch, call)).__name__ == KNOWN[name]

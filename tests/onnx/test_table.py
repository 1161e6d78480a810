"""docs/onnx.md equals what the functions declare and the tests run."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.native_only


def test_the_table_of_operators_is_up_to_date() -> None:
    from scripts.onnx_table import TARGET, render

    assert TARGET.read_text() == render(), "run `python -m scripts.onnx_table`"

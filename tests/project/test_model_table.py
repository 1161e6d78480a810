"""docs/models.md equals what the modules declare and the tests compare."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.native_only


def test_the_table_of_models_is_up_to_date() -> None:
    from scripts.model_table import TARGET, render

    assert TARGET.read_text() == render(TARGET.read_text()), "run `python -m scripts.model_table`"

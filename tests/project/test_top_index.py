"""pyapp/_index.py lists the names that modules declare in `__top_level__`, and pyapp has each of them."""

from __future__ import annotations

import pytest

import pyapp
from pyapp._index import TOP_LEVEL


@pytest.mark.native_only
def test_the_index_equals_the_declarations() -> None:
    from scripts.top_index import TARGET, source

    assert TARGET.read_text() == source(), "run python -m scripts.top_index"


def test_every_name_is_there_once() -> None:
    names = " ".join(TOP_LEVEL.values()).split()
    assert len(names) == len(set(names)) > 40
    assert set(names) <= set(dir(pyapp)) and not [name for name in names if not hasattr(pyapp, name)]

"""What a user reads is what Keras prints (make_golden_printed.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyapp import keras
from tests.keras.printed import PRINTED
from tests.together import fewer_in_browser

GOLDEN = json.loads(Path(__file__).with_name("golden_printed.json").read_text())


@pytest.mark.parametrize("name", fewer_in_browser(PRINTED))
def test_texts_are_those_of_keras(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    keras.utils.clear_session()
    for found, wanted in zip(PRINTED[name](keras), GOLDEN[name], strict=True):
        assert found == wanted

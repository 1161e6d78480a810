"""A fixture for tests of whole models in the browser."""

from __future__ import annotations

import sys

import pytest

from pyapp.text.tokenization import tokenizer


@pytest.fixture(autouse=True)
def page_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the browser, tests with simpler tokenizers replace the page's library."""
    if sys.platform == "emscripten":
        from pyapp.browser import PageTokenizer

        monkeypatch.setattr(tokenizer, "_backend_factory", PageTokenizer)

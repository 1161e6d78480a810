"""The tokenizers of XLM and FlauBERT against transformers (make_golden_moses.py). What sacremoses makes of texts is in
the golden file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyapp.errors import FileFormatError, OptionError
from pyapp.text.tokenization import moses
from pyapp.text.tokenization.tokenizer_files import load_tokenizer
from pyapp.text.tokenization.tokenizers_library import NativeBackend
from tests.text.moses_vocabulary import CASES, DASHED, MERGES, PAIR, SENTENCE, TARGET, TEXTS, VOCABULARY

pytestmark = pytest.mark.native_only  # the page has no sacremoses
GOLDEN = json.loads(Path(__file__).with_name("golden_moses.json").read_text())


def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """sacremoses, as it answers in the golden file."""

    class Recorded:
        def __init__(self, lang: str) -> None:
            self.lang = lang

        def normalize(self, text: str) -> Any:
            return GOLDEN["made"][f"normalize {self.lang}: {text}"]

        def tokenize(self, text: str, return_str: bool, escape: bool, aggressive_dash_splits: bool = False) -> Any:
            assert not return_str and escape == aggressive_dash_splits
            return GOLDEN["made"][f"tokenize {self.lang}{' escaped' if escape else ''}: {text}"]

        def detokenize(self, tokens: list[str]) -> Any:
            return GOLDEN["made"][f"detokenize {self.lang}: {tokens}"]

    made: Any = ModuleType("sacremoses")
    made.MosesPunctNormalizer = made.MosesTokenizer = made.MosesDetokenizer = Recorded
    monkeypatch.setitem(sys.modules, "sacremoses", made)


def load(folder: Path, settings: dict[str, Any], vocabulary: Any = VOCABULARY) -> Any:
    for name, text in (
        ("vocab.json", json.dumps(vocabulary)), ("merges.txt", MERGES), ("tokenizer_config.json", json.dumps(settings)),
    ):  # fmt: skip
        (folder / name).write_text(text)
    return load_tokenizer(folder)


def test_ids_are_those_of_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch)
    for settings, expected in zip(CASES, GOLDEN["ids"], strict=True):
        tokenizer = load(tmp_path, settings)
        assert [tokenizer.encode(text) for text in TEXTS] == expected[:-1]
        assert list(tokenizer(TEXTS[0], TEXTS[2]).ids) == expected[-1]
        assert (tokenizer.bos_id, tokenizer.pad_id, tokenizer.special_id("mask_token")) == (0, 2, 5)
        again = type(tokenizer).from_json(tokenizer.to_json())
        assert again.encode(TEXTS[0]) == expected[0]
        assert tokenizer.decode(expected[2]).split() == ["the", "fox"]


def test_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token is where its characters are; a quotation mark that Moses has moved is at those before it."""
    library(monkeypatch)
    parts = {0: "The fox . L ' É T É , les « c h a t s … … … …", 2: "the <special1> fox"}
    backend = moses.MosesBackend(load(tmp_path, CASES[0]).to_json(), NativeBackend)
    for number, expected in parts.items():
        text = TEXTS[number]
        _, spans = backend.encode_with_offsets(text)
        assert [text[start:end] for start, end in spans] == expected.split()


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    tokenizer = load(tmp_path, CASES[0])
    with pytest.raises(OptionError, match=r"sacremoses, which is not installed.*pyapp\[moses\]"):
        tokenizer.encode("a")
    with pytest.raises(FileFormatError, match="no '<s>'"):
        load(tmp_path, CASES[0], {"a": 0, "</s>": 1, "<unk>": 2})
    library(monkeypatch)
    step = {"type": "Moses", "language": "E!"}
    with pytest.raises(FileFormatError, match="'E!'"):
        moses.MosesBackend(json.dumps({"pre_tokenizer": step}), NativeBackend)


def test_translators_have_a_vocabulary_for_each_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch)
    for name, text in (
        ("vocab-src.json", json.dumps(VOCABULARY)), ("vocab-tgt.json", json.dumps(TARGET)), ("merges.txt", MERGES),
        ("tokenizer_config.json", json.dumps(PAIR)),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    tokenizer = load_tokenizer(tmp_path)
    assert [tokenizer.encode(text) for text in (*TEXTS, DASHED)] == GOLDEN["pair"]
    assert tokenizer.decode([TARGET[piece] for piece in SENTENCE]) == GOLDEN["written"]
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(FileFormatError, match="the codes of two languages"):
        load_tokenizer(tmp_path)

"""What the `tokenizers` library does not survive: tables that it ends on are refused before, and its failures are
errors of the tokenizer.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pyapp.errors import FileFormatError, ModelError
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizers_library import NativeBackend

WHERE = "folder/tokenizer.json"
TABLES = {
    "too short": b"\0\0\0",
    "its trie is missing": struct.pack("<I", 1000),
    "a trie of no whole words": struct.pack("<I", 6) + bytes(6),
    "replacements that are not text": struct.pack("<I", 4) + bytes(4) + b"\xff\0",
}


def document(table: str, nested: bool = False) -> dict[str, Any]:
    step: dict[str, Any] = {"type": "Precompiled", "precompiled_charsmap": table}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, step]} if nested else step
    return {
        "normalizer": normalizer, "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
    }  # fmt: skip


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", [*TABLES, "not base64"])
def test_damaged_tables_of_normalisers(name: str, nested: bool) -> None:
    table = base64.b64encode(TABLES[name]).decode() if name in TABLES else "?!"
    with pytest.raises(FileFormatError, match=r"^folder/tokenizer\.json: .*(damaged|base64)"):
        Tokenizer(document(table, nested), where=WHERE)


def test_tables_without_entries_and_none_at_all() -> None:
    for table in (base64.b64encode(struct.pack("<I", 0) + b"ok\0").decode(), "", None):
        assert Tokenizer(document(table), where=WHERE).vocab_size == 2  # type: ignore[arg-type]


class PanicException(BaseException):
    """As the library's failures in Rust are: no Exception."""


@pytest.mark.parametrize("error", [PanicException("a table"), ValueError("a table"), KeyboardInterrupt()])
def test_failures_of_the_library_are_errors(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(text: str) -> Any:
        raise error

    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace(Tokenizer=SimpleNamespace(from_str=fail)))
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            NativeBackend("{}", where=WHERE)
        return
    with pytest.raises(ModelError, match=r"^folder/tokenizer\.json: the tokenizers library refuses it: a table"):
        NativeBackend("{}", where=WHERE)


def test_words_with_marked_ends_are_written_as_by_the_library() -> None:
    """The form of GPT's tokenizer.json (2018), but for the space after the last word."""
    tokenizers = pytest.importorskip("tokenizers")
    pieces = ["<unk>", *"abc.", *(f"{letter}</w>" for letter in "abc."), "ab", "abc</w>"]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocab={piece: i for i, piece in enumerate(pieces)}, merges=[("a", "b"), ("ab", "c</w>")], unk_token="<unk>",
        end_of_word_suffix="</w>",
    ))  # fmt: skip
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.decoder = tokenizers.decoders.BPEDecoder(suffix="</w>")
    own = Tokenizer.from_json(made.to_str())
    for text in ("abc ab abca. c", "b", ""):
        ids = made.encode(text).ids
        assert own.encode(text) == ids
        assert own.decode(ids).removesuffix(" ") == made.decode(ids)


PAIRS: dict[str, dict[str, Any]] = {
    "tuples": {"merges": [("a", "b"), ("ab", "c")]},
    "texts": {"merges": ["a b", "ab c"], "fuse_unk": True, "unk_token": "a", "dropout": None},
    "lists": {"merges": [["a", "b"], ["ab", "c"]], "byte_fallback": True, "ignore_merges": True},
}


@pytest.mark.native_only  # the page has another library
@pytest.mark.parametrize("form", PAIRS)
def test_large_vocabularies_of_pairs_are_assembled_as_the_library_reads_them(form: str) -> None:
    """From objects comes the same as from the text; what the library refuses, it refuses in its own words."""
    vocabulary = {piece: number for number, piece in enumerate(["a", "b", "c", "ab", "abc", "<s>", " "])}
    added = [
        {"id": 5, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": True, "normalized": False,
         "special": True},
        {"id": 7, "content": "new", "single_word": True, "lstrip": True, "rstrip": False, "normalized": True,
         "special": False},
    ]  # fmt: skip
    whole: dict[str, Any] = {
        "added_tokens": added, "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None, "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": vocabulary, **PAIRS[form]},
    }  # fmt: skip
    found, expected = NativeBackend.of_pairs(whole), NativeBackend(json.dumps(whole))
    assert json.loads(found.to_json()) == json.loads(expected.to_json())
    text = "ABC<s>  a b new news abcab"
    assert found.encode_with_offsets(text) == expected.encode_with_offsets(text)
    whole["model"]["merges"] = [("a", "z")]
    with pytest.raises(ModelError, match="refuses it: .*`z` out of vocabulary"):
        NativeBackend.of_pairs(whole)

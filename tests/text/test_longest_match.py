"""The tokenizer of RWKV's World models against its author's package (make_golden_longest_match.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyapp.errors import FileFormatError
from pyapp.text.tokenization.gguf_vocabulary import GgufVocabulary
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import load_tokenizer

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_longest_match.json").read_text(encoding="utf-8"))
FILE = "rwkv_vocab_v20230424.txt"


def world(lines: list[str], **settings: Any) -> Tokenizer:
    files = {FILE: ("\n".join(lines) + "\n").encode(), "tokenizer_config.json": json.dumps(settings).encode()}
    return load_tokenizer(files)


def test_ids_are_those_of_the_package() -> None:
    tokenizer = world(GOLDEN["lines"])
    assert [list(tokenizer.encode(text)) for text in GOLDEN["texts"]] == GOLDEN["ids"]
    assert [tokenizer.decode(ids) for ids in GOLDEN["ids"]] == GOLDEN["texts"]
    assert tokenizer.eos_ids == {0} and tokenizer.encode("a<|endoftext|>") == [98, 0]
    assert 0 not in tokenizer.encode("a<|endoftext|>", parse_special=False)
    named = {"added_tokens_decoder": {"0": {"content": "<end>", "special": True}}, "eos_token": "<end>"}
    assert world(GOLDEN["lines"], **named).encode("a<end>") == [98, 0]


def test_through_tokenizer_json_and_gguf() -> None:
    tokenizer = world(GOLDEN["lines"])
    metadata = tokenizer.gguf_metadata(65536)
    assert metadata["tokenizer.ggml.model"] == "rwkv" and len(metadata["tokenizer.ggml.tokens"]) == 65536
    assert [metadata["tokenizer.ggml.tokens"][i] for i in (1, 11, 93, 256)] == ["\\x00", "\\n", "\\\\", "\\xff"]
    vocabulary = GgufVocabulary(metadata, "x")
    read = Tokenizer(vocabulary.document, vocabulary.settings, end_ids=vocabulary.end_ids)
    for again in (Tokenizer.from_json(tokenizer.to_json()), read):
        assert [list(again.encode(text)) for text in GOLDEN["texts"]] == GOLDEN["ids"]
        assert again.eos_ids == {0}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("300 'ab' 3", "line 281 is"), ("300 __import__('os') 2", "line 281 is"), ("300 'a\\' 2", "line 281 is"),
        ("300 'é' 1", "line 281 is"), ("5 'abc' 3", "the id 5 again"), ("300 'a' 1", "98 and 300 are both"),
        ("300 '" + "a" * 5000 + "' 5000", "line 281 is"),
    ],
)  # fmt: skip
def test_damaged_lines_are_named(line: str, what: str) -> None:
    with pytest.raises(FileFormatError, match=what):
        world([*GOLDEN["lines"][:280], line])
    with pytest.raises(FileFormatError, match="lacks 1 of the 256 bytes"):
        world(GOLDEN["lines"][1:280])

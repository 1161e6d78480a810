"""The tokenizer of the small Blenderbot against transformers (make_golden_joined_pieces.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyapp.errors import FileFormatError
from pyapp.text.tokenization.tokenizer_files import load_tokenizer
from tests.text.joined_pieces_vocabulary import CTRL_VOCABULARY, MERGES, TEXTS, VOCABULARY

GOLDEN = json.loads(Path(__file__).with_name("golden_joined_pieces.json").read_text("utf-8"))


def files(vocabulary: dict[str, int], kind: str = "blenderbot-small") -> dict[str, bytes]:
    config = {"model_type": kind}
    texts = {"vocab.json": json.dumps(vocabulary), "merges.txt": MERGES, "config.json": json.dumps(config)}
    return {name: text.encode() for name, text in texts.items()}


def test_ids_and_texts_are_those_of_transformers() -> None:
    tokenizer = load_tokenizer(files(VOCABULARY))
    again = type(tokenizer).from_json(tokenizer.to_json())
    assert [tokenizer.encode(text) for text in TEXTS] == GOLDEN["ids"] == [again.encode(text) for text in TEXTS]
    assert [tokenizer.decode(ids).rstrip() for ids in GOLDEN["ids"]] == GOLDEN["texts"]
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.special_id("eos_token")) == (0, 1, 2)
    with pytest.raises(FileFormatError, match="no '__unk__'"):
        load_tokenizer(files({"a": 0}))
    with pytest.raises(FileFormatError, match="known_tokens is 2"):
        type(tokenizer).from_json(json.dumps(json.loads(tokenizer.to_json()) | {"known_tokens": 2}))


def test_ids_may_have_gaps_and_added_tokens_behind_them() -> None:
    spread = {piece: number + 10 * (number > 20) for piece, number in VOCABULARY.items()}
    added = {"added_tokens_decoder": {str(len(spread) + 20): {"content": "<new>", "special": True}}}
    tokenizer = load_tokenizer(files(spread) | {"tokenizer_config.json": json.dumps(added).encode()})
    ids = list(json.loads(tokenizer.to_json())["model"]["vocab"].values())
    assert len(ids) == len({*ids})
    assert tokenizer.encode("<new> fox") == [len(spread) + 20, spread["fox"]]


def test_the_words_of_ctrl_have_spaces_between_them() -> None:
    tokenizer, expected = load_tokenizer(files(CTRL_VOCABULARY, "ctrl")), GOLDEN["ctrl"]
    assert [tokenizer.encode(text) for text in TEXTS] == expected["ids"]
    written = [tokenizer.decode(ids).strip() for ids in expected["ids"]]
    assert written == [text.removesuffix("@@") for text in expected["texts"]]  # of a word that does not end

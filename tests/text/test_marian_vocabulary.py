"""The tokenizer of OPUS-MT against transformers' MarianTokenizer (make_golden_marian.py)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from pyapp.errors import FileFormatError
from pyapp.formats.sentencepiece_model import read_sentencepiece_model
from pyapp.formats.source import BytesSource
from pyapp.text.tokenization.marian_vocabulary import marian_document
from pyapp.text.tokenization.tokenizer import Tokenizer

pytest.importorskip("tokenizers")
GOLDEN = json.loads(Path(__file__).with_name("golden_marian.json").read_text())
SOURCE = read_sentencepiece_model(BytesSource(base64.b64decode(GOLDEN["source"])))
NUMBERS = {piece: number for number, piece in enumerate(GOLDEN["pieces"])}


def test_ids_are_those_of_transformers() -> None:
    tokenizer = Tokenizer(marian_document(SOURCE, NUMBERS, "source.spm"))
    assert {text: tokenizer.encode(text) for text in GOLDEN["ids"]} == GOLDEN["ids"]
    assert tokenizer.vocab_size == len(NUMBERS) and tokenizer.pad_id == NUMBERS["<pad>"]


def test_the_other_languages_pieces_become_text() -> None:
    tokenizer = Tokenizer(marian_document(SOURCE, NUMBERS, "source.spm"))
    foreign = [piece for piece in NUMBERS if len(piece) > 2 and piece not in SOURCE.pieces and piece[0] == "▁"]
    assert len(foreign) > 3
    for piece in foreign:
        assert tokenizer.decode([NUMBERS[piece], NUMBERS["</s>"]]) == piece.removeprefix("▁")


def test_vocabularies_that_mean_nothing_are_refused() -> None:
    with pytest.raises(FileFormatError, match="without gaps"):
        marian_document(SOURCE, {"</s>": 0, "<unk>": 2, "<pad>": 3}, "vocab.json")
    with pytest.raises(FileFormatError, match="has no <pad>"):
        marian_document(SOURCE, {"</s>": 0, "<unk>": 1}, "vocab.json")

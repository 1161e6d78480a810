"""Makes golden_marian.json with sentencepiece and transformers: a small source.spm, a vocab.json, and the ids of texts.

PYTHONPATH=. python tests/text/make_golden_marian.py
"""

from __future__ import annotations

import base64
import io
import json
import random
import tempfile
from pathlib import Path

import sentencepiece
from transformers import MarianTokenizer

SOURCE = "the cat dog house green blue runs sat mat of and she were walking running faster quickly bigger".split()
TARGET = "der hund katze haus grün blau läuft saß matte von ein und sie laufend schneller größer".split()
TEXTS = [
    "the cat sat", "The dog  runs!", "she were walking quickly, and zebra", " a cat ", ">>deu<< the cat runs", "",
    "bigger und faster", "x ü y", "the </s> cat",
]  # fmt: skip


def trained(words: list[str]) -> bytes:
    made = io.BytesIO()
    lines = (" ".join(random.choices(words, k=8)) + random.choice(".,!?") for _ in range(300))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines, model_writer=made, vocab_size=60, hard_vocab_limit=False, bos_id=-1, eos_id=0,
        unk_id=1, pad_id=-1, normalization_rule_name="identity", minloglevel=2,
    )  # fmt: skip
    return made.getvalue()


def pieces_of(model: bytes) -> list[str]:
    found = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [found.IdToPiece(i) for i in range(found.GetPieceSize())]


if __name__ == "__main__":
    random.seed(0)
    source, target = trained(SOURCE), trained(TARGET)
    pieces = list(dict.fromkeys(["</s>", "<unk>", *pieces_of(source), *pieces_of(target), ">>deu<<", "<pad>"]))
    numbers = {piece: i for i, piece in enumerate(pieces)}
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (
            ("source.spm", source),
            ("target.spm", target),
            ("vocab.json", json.dumps(numbers).encode()),
        ):
            Path(folder, name).write_bytes(data)
        tokenizer = MarianTokenizer.from_pretrained(folder)
        ids = {text: tokenizer(text).input_ids for text in TEXTS}
    written = {"source": base64.b64encode(source).decode(), "pieces": pieces, "ids": ids}
    text = json.dumps(written, ensure_ascii=False, separators=(",", ":"))
    Path(__file__).with_name("golden_marian.json").write_text(text + "\n")
    print(len(text))

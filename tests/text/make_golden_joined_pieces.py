"""Makes golden_joined_pieces.json with transformers: the ids of texts by the tokenizers of the small Blenderbot and
of CTRL with small vocabularies, and the texts of the ids.

    PYTHONPATH=. python tests/text/make_golden_joined_pieces.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from transformers import BlenderbotSmallTokenizer, CTRLTokenizer

from tests.text.joined_pieces_vocabulary import CTRL_VOCABULARY, MERGES, TEXTS, VOCABULARY

FILE = Path(__file__).with_name("golden_joined_pieces.json")


def golden(kind: Any, words: dict[str, int]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        vocabulary, merges = Path(place) / "vocab.json", Path(place) / "merges.txt"
        vocabulary.write_text(json.dumps(words))
        merges.write_text(MERGES)
        tokenizer = kind(str(vocabulary), str(merges))
    ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    return {"ids": ids, "texts": [tokenizer.decode(row, skip_special_tokens=True) for row in ids]}


if __name__ == "__main__":
    found = golden(BlenderbotSmallTokenizer, VOCABULARY) | {"ctrl": golden(CTRLTokenizer, CTRL_VOCABULARY)}
    FILE.write_text(json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n")

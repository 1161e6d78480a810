"""Makes golden_joined_pieces.json with transformers: the ids of texts by the tokenizer of the small Blenderbot with a
small vocabulary, and the texts of the ids.

    PYTHONPATH=. python tests/text/make_golden_joined_pieces.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from transformers import BlenderbotSmallTokenizer

from tests.text.joined_pieces_vocabulary import MERGES, TEXTS, VOCABULARY

FILE = Path(__file__).with_name("golden_joined_pieces.json")

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        vocabulary, merges = Path(place) / "vocab.json", Path(place) / "merges.txt"
        vocabulary.write_text(json.dumps(VOCABULARY))
        merges.write_text(MERGES)
        tokenizer = BlenderbotSmallTokenizer(str(vocabulary), str(merges))
    ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in ids]
    FILE.write_text(json.dumps({"ids": ids, "texts": texts}, ensure_ascii=False, separators=(",", ":")) + "\n")

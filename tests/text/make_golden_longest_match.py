"""Makes golden_longest_match.json with the rwkv package (`pip install rwkv`): lines of its vocabulary, and the ids of
texts.

    PYTHONPATH=. python tests/text/make_golden_longest_match.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import rwkv
from rwkv.rwkv_tokenizer import TRIE_TOKENIZER

TARGET = Path(__file__).with_name("golden_longest_match.json")
TEXTS = [
    "The cat sat on the mat, and the dog didn't.\n\n", "", "Zażółć gęślą jaźń 🦆 'a' \"b\" \\n",
    "\t\t\tx = 10000  # y\r\n",
    "User: hi\n\nAssistant: hello there", "の日本語とà",
]  # fmt: skip
STEP = 450

if __name__ == "__main__":
    file = Path(rwkv.__file__).with_name("rwkv_vocab_v20230424.txt")
    lines = file.read_text().split("\n")
    kept = [line for i, line in enumerate(lines) if line and (i < 280 or i % STEP == 0)]
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "vocabulary.txt"
        small.write_text("\n".join(kept) + "\n")
        split = TRIE_TOKENIZER(str(small))
    found = {"lines": kept, "texts": TEXTS, "ids": [split.encode(text) for text in TEXTS]}
    TARGET.write_text(json.dumps(found, separators=(",", ":"), ensure_ascii=False) + "\n")

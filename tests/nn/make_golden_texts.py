"""Writes golden_texts.json: the texts of text_cases.py that torch prints. Run with the extra `oracle`:

python -m tests.nn.make_golden_texts
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from tests.nn.text_cases import TEXTS, text_of

if __name__ == "__main__":
    golden = {name: text_of(torch, name) for name in TEXTS}
    Path(__file__).with_name("golden_texts.json").write_text(json.dumps(golden, indent=0) + "\n")

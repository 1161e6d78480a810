"""Pairs of answers, and the values of an adapter, that trl's and our training share."""

from __future__ import annotations

import json
from pathlib import Path

KINDS = ("sigmoid", "hinge", "ipo", "robust", "apo_zero", "apo_down")
REFERENCE_FREE = ("orpo", "cpo", "simpo")
BETA, SMOOTHING, GAMMA = 0.2, 0.1, 0.3
PAIRS = [
    {"prompt": "the sun is ", "chosen": "yellow and warm", "rejected": "a lamp"},
    {"prompt": "the moon ", "chosen": "white", "rejected": "is made of cheese"},
]
SCORES = ([0.5, -1.25, 2.0], [0.75, -2.0, 0.5], [0.1, 0.2, 0.3])  # preferred, other, margins


def write_pairs(path: Path) -> Path:
    path.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS))
    return path

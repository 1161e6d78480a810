"""Texts that models learn to write, for make_golden_hearing.py and the tests."""

from __future__ import annotations

TEXTS = ("Grüß Gott, it's 7", "a  small|zebra")
IGNORED = ",|"
SEGMENTS = [
    {"start": 0.009, "end": 0.609, "text": "Seven whales sing."}, {"start": 0.6101, "end": 1.2, "text": " Blue bread "},
    {"start": 1.7012, "end": 2.3, "text": "It's 7!"},
]  # fmt: skip

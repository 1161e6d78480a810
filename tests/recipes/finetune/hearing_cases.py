"""Texts that models learn to write, and that are compared, for make_golden_hearing.py and the tests."""

from __future__ import annotations

TEXTS = ("Grüß Gott, it's 7", "a  small|zebra")
IGNORED = ",|"
COMPARED = ('It\'s  "Ünïted" [music] — ½ 10.5 % (laughs) <x> (a [b) c]', "ＡＢＣ，你好。ﬁn…", " -\t!")
SEGMENTS = [
    {"start": 0.009, "end": 0.609, "text": "Seven whales sing."}, {"start": 0.6101, "end": 1.2, "text": " Blue bread "},
    {"start": 1.7012, "end": 2.3, "text": "It's 7!"},
]  # fmt: skip

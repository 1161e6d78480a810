"""Texts that models learn to write, for make_golden_hearing.py and the tests."""

from __future__ import annotations

TEXTS = ("Grüß Gott, it's 7", "a  small|zebra")
IGNORED = ",|"

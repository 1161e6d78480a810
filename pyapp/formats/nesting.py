"""JSON from strangers: json.loads recurses, and in a browser deep nesting overflows the stack of the whole worker."""

from __future__ import annotations

import re

DEEPEST, PASSES = 200, 64
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def check_nesting(data: bytes) -> None:
    """Raises ValueError for JSON that is nested much deeper than DEEPEST; what is not deeper passes, valid or not."""
    # The quick count takes brackets inside strings for real ones: if there seem too many, it is done without strings.
    if _unmatched(data) <= DEEPEST or _unmatched(data := _STRING.sub(b"", data)) <= DEEPEST:
        return
    depth = 0
    for bracket in data.translate(None, delete=_NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")


def _unmatched(data: bytes) -> int:
    """How many brackets are left after removing matching pairs, from the inside out, PASSES times."""
    brackets = data.translate(None, delete=_NO_BRACKETS)
    for _ in range(PASSES):
        rest = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(rest) == len(brackets):
            break
        brackets = rest
    return len(brackets)

"""Refuses normalizers of a tokenizer.json that would fill the memory: the tokenizers libraries run them.

Replacements multiply the text: `a` by `aa`, thirty times in a row, makes a gigabyte of one letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyapp.errors import ModelError

GROWTH = 64  # times the text may become longer
ADDED = 1 << 12  # characters that may be put before a text
_MAYBE_EMPTY = re.compile(r"[*?^$|]|\{0|\{,|\\[bBAzZG]|\A\Z")


def check_growth(normalizer: Any, where: str) -> None:
    """ModelError for a normalizer that could fill the memory."""
    if reason := growth(normalizer):
        raise ModelError(
            f"its normalizer {reason}", where=where,
            hint="A text could fill the memory; give a tokenizer from a source that you trust",
        )  # fmt: skip


def growth(normalizer: Any) -> str | None:
    """Why a normalizer could fill the memory; None if it cannot."""
    times, added = 1, 0
    for step in _steps(normalizer):
        pattern, content = step.get("pattern"), step.get("content")
        if step.get("type") == "Prepend" and isinstance(step.get("prepend"), str):
            added += len(step["prepend"])
        elif step.get("type") == "Replace" and isinstance(pattern, Mapping) and isinstance(content, str):
            plain = pattern.get("String")
            if isinstance(plain, str) and plain:
                times *= max(1, -(-len(content) // len(plain)))
            else:
                expression = pattern.get("Regex")
                empty = not isinstance(expression, str) or _MAYBE_EMPTY.search(expression) is not None
                times *= max(1, len(content)) + (1 if empty and content else 0)
        if times > GROWTH or added * times > ADDED:
            return f"can make a text more than {GROWTH} times as long" if times > GROWTH else "adds too much to a text"
    return None


def _steps(value: Any) -> Iterator[Mapping[str, Any]]:
    """The steps of nested sequences in order."""
    if isinstance(value, Mapping):
        inner = value.get("normalizers")
        if isinstance(inner, list):
            for step in inner:
                yield from _steps(step)
        else:
            yield value

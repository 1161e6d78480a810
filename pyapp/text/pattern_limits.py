"""Refuses regular expressions in a tokenizer.json that could take forever: the tokenizers libraries run them.

A search tries all ways to divide a text among repetitions. Repeated groups with repetitions or alternatives inside can
have exponentially many; several repetitions in one alternative have a power of the length of the text: `a*a*a*x` takes
15 seconds for 300 letters, `a*a*x` 7 seconds for 1,000. References and calls of groups can do the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyapp.errors import ModelError
from pyapp.text.word_patterns import KNOWN_PATTERNS

PATTERN_LIMIT = 1 << 14  # characters
REPETITIONS = 2  # in one alternative
_TOKEN = re.compile(
    r"\\[pPx]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?(?:[:=!>]|<[=!]|\w+:)|[()|]|[*+?][+?]?|\{\d*,?\d*\}[+?]?|.",
    re.DOTALL,
)


def check_patterns(document: Mapping[str, Any], where: str) -> None:
    """ModelError for a pattern of the normaliser or pretokenizer that could take forever."""
    for part in ("normalizer", "pre_tokenizer"):
        for pattern in _patterns(document.get(part)):
            if pattern not in KNOWN_PATTERNS and (reason := danger(pattern)):
                raise ModelError(
                    f"its pattern {pattern!r:.80} {reason}", where=where,
                    hint="A search with it could take forever; give a tokenizer from a source that you trust",
                )  # fmt: skip


def _patterns(value: Any) -> Iterator[str]:
    """The values of all keys "Regex"."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "Regex" and isinstance(item, str):
                yield item
            else:
                yield from _patterns(item)
    elif isinstance(value, list):
        for item in value:
            yield from _patterns(item)


def danger(pattern: str) -> str | None:
    """Why a pattern could take forever; None if it cannot."""
    if len(pattern) > PATTERN_LIMIT:
        return f"has {len(pattern):,} characters"
    # For each open group: repetitions of this alternative, whether it has an unlimited one, whether it has
    # alternatives, the most repetitions of an alternative.
    stack: list[list[Any]] = [[0, False, False, 0]]
    closed: list[Any] | None = None  # the group before this place
    for token in _TOKEN.findall(pattern):
        here = stack[-1]
        if re.fullmatch(r"\\[1-9kg]", token):
            return "refers to a group"
        if token.startswith("("):
            stack.append([0, False, False, 0])
            closed = None
        elif token == ")":
            closed = stack.pop() if len(stack) > 1 else None
            here = stack[-1]
            if closed:
                here[0] += max(closed[0], closed[3])
                here[1] |= closed[1]
        elif token == "|":
            here[0], here[2], here[3] = 0, True, max(here[0], here[3])
            closed = None
        elif token[0] in "*+" or re.fullmatch(r"\{\d*,\}[+?]?", token):
            if closed and (closed[1] or closed[2]):
                return "repeats a group with repetitions or alternatives"
            here[0] += 1
            here[1] = True
            closed = None
        elif token[0] != "?" and not re.fullmatch(r"\{\d+\}[+?]?|\{\d*,\d+\}[+?]?", token):
            closed = None
        if here[0] > REPETITIONS:
            return f"has more than {REPETITIONS} repetitions in one alternative"
    return None

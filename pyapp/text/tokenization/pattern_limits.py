"""Refuses regular expressions of a tokenizer.json that would take forever: the tokenizers libraries run them.

A search with a regular expression tries all ways to divide a text among repetitions. Repeated groups with choices
inside can have exponentially many; several repetitions in one alternative have a power of the length of the text:
`a*a*a*x` takes 15 seconds for 300 letters, `a*a*x` 7 seconds for 1,000. Optional parts and bounded repetitions
multiply: `a?` thirty times before `a` thirty times has 2^30 ways. References and calls of groups can do the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError
from pyapp.text.tokenization.word_patterns import KNOWN_PATTERNS

PATTERN_LIMIT = 1 << 14  # characters
REPETITIONS = 2  # without end, in one alternative
WAYS = 10_000  # in which bounded repetitions, optional parts and alternatives can divide a text
SIZE = 50_000  # characters that must match, repetitions written out
DEPTH = 100  # groups in one another
_TOKEN = re.compile(
    r"\\[pPx]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?\#[^)]*\)|\(\?[imsxnaULu-]+\)"
    r"|\(\?(?:[:=!>]|<[=!]|[imsxnaULu-]+:|P?<\w+>)|[()|]|[*+?][+?]?|\{\d*,?\d*\}[+?]?|.",
    re.DOTALL,
)
_BOUNDED = re.compile(r"\{(\d*)(,?)(\d*)\}[+?]?")


def check_patterns(patterns: Sequence[str], where: str) -> None:
    """ModelError for a pattern of a normalizer or pretokenizer that could take forever."""
    for pattern in patterns:
        if pattern not in KNOWN_PATTERNS and (reason := danger(pattern)):
            raise ModelError(
                f"its pattern {pattern!r:.80} {reason}", where=where,
                hint="A search with it could take forever; give a tokenizer from a source that you trust",
            )  # fmt: skip


@dataclass
class _Ways:
    """What is known of the parts so far: repetitions without end, ways to divide a text, characters that must match."""

    repetitions: int = 0
    ways: int = 1
    size: int = 0

    def join(self, part: _Ways) -> None:
        self.repetitions += part.repetitions
        self.ways *= part.ways
        self.size += part.size

    @property
    def certain(self) -> bool:
        """Whether there is one way at most."""
        return not self.repetitions and self.ways == 1


class _Group:
    """An open group: its finished alternatives, the one that is read, and the part before this place."""

    def __init__(self) -> None:
        self.options: list[_Ways] = []
        self.here, self.last = _Ways(), _Ways()

    def push(self, part: _Ways) -> None:
        self.here.join(self.last)
        self.last = part

    def next_option(self) -> None:
        self.push(_Ways())
        self.options.append(self.here)
        self.here = _Ways()

    def whole(self) -> _Ways:
        """The group as one part: a way for each alternative."""
        self.next_option()
        return _Ways(
            max(option.repetitions for option in self.options),
            sum(option.ways for option in self.options),
            max(option.size for option in self.options),
        )


def danger(pattern: str) -> str | None:
    """Why a pattern could take forever; None if it cannot."""
    if len(pattern) > PATTERN_LIMIT:
        return f"has {len(pattern):,} characters"
    stack = [_Group()]
    for token in _TOKEN.findall(pattern):
        here = stack[-1]
        if re.fullmatch(r"\\[1-9kg]", token):
            return "refers to a group"
        if token.startswith("(?#") or re.fullmatch(r"\(\?[\w-]+\)", token):
            continue
        if token.startswith("("):
            stack.append(_Group())
            if len(stack) > DEPTH:
                return f"has more than {DEPTH} groups in one another"
        elif token == ")":
            if len(stack) > 1:
                stack[-2].push(stack.pop().whole())
        elif token == "|":
            here.next_option()
        elif token[0] in "*+?" or _BOUNDED.fullmatch(token):
            if reason := _repeat(here, token):
                return reason
        else:
            here.push(_Ways(size=1))
        if reason := _excess(stack[-1]):
            return reason
    return None if len(stack) == 1 else "has a group without an end"


def _repeat(group: _Group, token: str) -> str | None:
    """Repeats the last part; why that could take forever."""
    part = group.last
    bounds = _BOUNDED.fullmatch(token)
    if token[0] == "?" and part.size == 0 and part.certain:
        return "has a group of an unknown kind"
    if token[0] in "*+" or (bounds and bounds[2] and not bounds[3]):
        if not part.certain:
            return "repeats a group with repetitions or alternatives"
        part.repetitions = 1
        return None
    least = int(bounds[1] or 0) if bounds else 0
    most = (int(bounds[3]) if bounds[2] else least) if bounds else 1
    if part.repetitions and most > 1:
        return "repeats a group with repetitions or alternatives"
    if max(least, most) > SIZE:
        return f"repeats a part {max(least, most):,} times"
    part.size *= max(least, most)
    part.ways = min(part.ways**most, WAYS + 1) * (most - least + 1)
    return None


def _excess(group: _Group) -> str | None:
    for part in (group.here, group.last):
        if part.size > SIZE:
            return f"matches more than {SIZE:,} characters at once"
    if group.here.repetitions + group.last.repetitions > REPETITIONS:
        return f"has more than {REPETITIONS} repetitions in one alternative"
    if group.here.ways * group.last.ways > WAYS:
        return f"can divide a text in more than {WAYS:,} ways"
    return None

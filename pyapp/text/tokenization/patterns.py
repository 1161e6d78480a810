"""Regular expressions, in Python's syntax, as expressions over bytes.

Python's own parser reads them. What is not regular, or has no meaning for a whole text, is refused by name:
look-around, references to groups, flags, word boundaries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from pyapp.errors import OptionError
from pyapp.text.structured_output.automata import (
    EMPTY,
    Either,
    Expression,
    Joined,
    Ranges,
    Repeat,
    characters,
    merged,
    others,
)

LONGEST_PATTERN = 10_000  # characters
DIGITS: Ranges = [(0x30, 0x39)]
SPACES: Ranges = [(0x09, 0x0D), (0x20, 0x20)]
WORDS: Ranges = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
CATEGORIES = {"DIGIT": DIGITS, "SPACE": SPACES, "WORD": WORDS}
NO_LINE_BREAK = others([(0x0A, 0x0A)])
BEGINNINGS, ENDS = ("AT_BEGINNING", "AT_BEGINNING_STRING"), ("AT_END", "AT_END_STRING")

Characters = Callable[[Iterable[tuple[int, int]]], Expression]


class Pattern:
    """Turns the parser's tree into an expression. `characters` spells a set of characters in bytes."""

    def __init__(self, pattern: str, where: str, spelled: Characters = characters) -> None:
        self._where, self._spelled = where, spelled
        if len(pattern) > LONGEST_PATTERN:
            raise self._refusal(f"has {len(pattern):,} characters")
        try:
            tree = parser.parse(pattern, re.ASCII)
        except (re.error, ValueError, OverflowError, RecursionError) as error:
            raise OptionError(f"{pattern!r:.80} is not a regular expression ({error})", where=where) from None
        if tree.state.flags & ~(re.ASCII | re.UNICODE):
            raise self._refusal("sets flags")
        self._items = list(tree)
        self._known: dict[tuple[tuple[int, int], ...], Expression] = {}

    def whole(self) -> Expression:
        """The texts that match as a whole."""
        return self._found(self._items, EMPTY, EMPTY)

    def inside(self) -> Expression:
        """The texts in which the pattern is found anywhere, as JSON Schema's `pattern` says."""
        more = Repeat(self._spelled([(0, 0x10FFFF)]), 0, None)
        return self._found(self._items, more, more)

    def _found(self, items: Sequence[Any], before: Expression, after: Expression) -> Expression:
        """Items at the top, where ^ and $ are allowed: they take away what may come before and after."""
        while items and _name(items[0]) == "AT" and str(items[0][1]) in BEGINNINGS:
            items, before = items[1:], EMPTY
        while items and _name(items[-1]) == "AT" and str(items[-1][1]) in ENDS:
            items, after = items[:-1], EMPTY
        if len(items) == 1 and _name(items[0]) == "BRANCH":
            return Either(tuple([self._found(list(option), before, after) for option in items[0][1][1]]))
        return Joined((before, self._sequence(items), after))

    def _sequence(self, items: Iterable[Any]) -> Expression:
        return Joined(tuple([self._item(*item) for item in items]))

    def _item(self, code: Any, value: Any) -> Expression:
        match str(code):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                ranges = tuple(self._ranges(code, value))
                if ranges not in self._known:
                    self._known[ranges] = self._spelled(ranges)
                return self._known[ranges]
            case "BRANCH":
                return Either(tuple([self._sequence(option) for option in value[1]]))
            case "SUBPATTERN":
                _, added, removed, inner = value
                if added or removed:
                    raise self._refusal("sets flags")
                return self._sequence(inner)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = value
                return Repeat(self._sequence(inner), int(least), None if most == parser.MAXREPEAT else int(most))
            case "AT":
                raise self._refusal(f"has {str(value).lower()} in the middle")
            case other:
                raise self._refusal(f"has {other.lower()}")

    def _ranges(self, code: Any, value: Any) -> Ranges:
        match str(code):
            case "LITERAL":
                return [(value, value)]
            case "NOT_LITERAL":
                return others([(value, value)])
            case "ANY":
                return NO_LINE_BREAK
            case "RANGE":
                return [value]
            case "CATEGORY":
                negated, name = re.fullmatch(r"CATEGORY_(NOT_)?(\w+)", str(value)).groups()  # type: ignore[union-attr]
                return others(CATEGORIES[name]) if negated else CATEGORIES[name]
            case "IN":
                inner = [pair for item in value if _name(item) != "NEGATE" for pair in self._ranges(*item)]
                return others(inner) if _name(value[0]) == "NEGATE" else merged(inner)
            case other:
                raise self._refusal(f"has {other.lower()}")

    def _refusal(self, what: str) -> OptionError:
        return OptionError(
            f"this regular expression {what}, which is not supported", where=self._where,
            hint="Supported are characters, sets, groups, alternatives and repetitions, and ^ and $ at the ends",
        )  # fmt: skip


def _name(item: Any) -> str:
    return str(item[0])

"""Numbers in decimal as expressions over bytes: ranges of whole numbers, multiples, ranges with digits after the point.

Whole numbers and fractions have at most fifteen digits: so many are exact as float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from pyapp.text.structured_output.automata import (
    EMPTY,
    NOTHING,
    Byte,
    Either,
    Expression,
    Repeat,
    compile_expression,
    explored,
    joined,
    literal,
    optional,
)

DIGITS = 15
LARGEST = 10**DIGITS - 1
ENUMERATED = 200  # multiples that are written one by one

DIGIT = Byte(0x30, 0x39)
MINUS, POINT = literal("-"), literal(".")
NATURAL = Either((literal("0"), joined(Byte(0x31, 0x39), Repeat(DIGIT, 0, DIGITS - 1))))
INTEGER = joined(optional(MINUS), NATURAL)
EXPONENT = joined(
    Either((literal("e"), literal("E"))), optional(Either((literal("+"), MINUS))), Repeat(DIGIT, 1, 2)
)  # fmt: skip
FRACTION = joined(optional(joined(POINT, Repeat(DIGIT, 1, DIGITS))), optional(EXPONENT))


def integers(low: int, high: int) -> Expression:
    """The whole numbers from low to high."""
    options = []
    if low < 0:
        options.append(joined(MINUS, _naturals(max(-high, 1), -low)))
    if high >= 0:
        options.append(_naturals(max(low, 0), high))
    return Either(tuple(options)) if low <= high else NOTHING


def _naturals(low: int, high: int) -> Expression:
    options = []
    for length in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        options.append(_between(str(first), str(min(high, 10**length - 1))))
    return Either(tuple(options))


def _between(low: str, high: str) -> Expression:
    """The numbers of one length from low to high."""
    if set(low) <= {"0"} and set(high) <= {"9"}:
        return Repeat(DIGIT, len(low), len(low))
    rest = len(low) - 1
    if low[0] == high[0]:
        return joined(literal(low[0]), _between(low[1:], high[1:]))
    options = [joined(literal(low[0]), _between(low[1:], "9" * rest))]
    if ord(high[0]) - ord(low[0]) > 1:
        options.append(joined(Byte(ord(low[0]) + 1, ord(high[0]) - 1), Repeat(DIGIT, rest, rest)))
    options.append(joined(literal(high[0]), _between("0" * rest, high[1:])))
    return Either(tuple(options))


def multiples(of: int, low: int, high: int, where: str) -> Expression:
    """The multiples of a number from low to high: the automaton of the range, with the remainder so far. OptionError,
    naming `where`, for too large a number.
    """
    first = -(-low // of) * of
    if (high - first) // of < ENUMERATED:
        return Either(tuple(literal(str(value)) for value in range(first, high + 1, of)))
    ranged = compile_expression(integers(low, high))

    def steps(state: tuple[int, int]) -> Iterator[tuple[int, int, tuple[int, int]]]:
        at, remainder = state
        for byte in (*b"-0123456789",):
            following = ranged.rows[at][ranged.column_of[byte]]
            if following >= 0:
                digit = byte - 0x30
                yield byte, byte, (following, (10 * remainder + digit) % of if digit >= 0 else 0)

    return explored((0, 0), steps, lambda state: ranged.accepting[state[0]] and state[1] == 0, where)


def with_decimals(
    places: int, low: Decimal | None, high: Decimal | None, open_low: bool, open_high: bool
) -> Expression:
    """The numbers from low to high with at most `places` digits after the point, without an exponent. None: no bound;
    `open_low`, `open_high`: the bound itself is outside.
    """
    least, most = Decimal(-LARGEST) if low is None else low, Decimal(LARGEST) if high is None else high
    options: list[Expression] = []
    if least < 0:  # the same without the sign, upside down
        upper = (-least, open_low)
        lower = (Decimal(0), False) if most > 0 else (-most, open_high)
        options.append(joined(MINUS, _positive(places, *lower, *upper)))
    if most >= 0:
        lower = (Decimal(0), False) if least < 0 else (least, open_low)
        options.append(_positive(places, *lower, most, open_high))
    return Either(tuple(options))


def _positive(places: int, low: Decimal, open_low: bool, high: Decimal, open_high: bool) -> Expression:
    first, last = int(low), int(high)
    if first > last:
        return NOTHING
    if first == last:
        return joined(literal(str(first)), _fractions(places, low, open_low, high, open_high))
    anything = optional(joined(POINT, Repeat(DIGIT, 1, places))) if places else EMPTY
    return Either((
        joined(literal(str(first)), _fractions(places, low, open_low, None, False)),
        joined(integers(first + 1, last - 1), anything),
        joined(literal(str(last)), _fractions(places, None, False, high, open_high)),
    ))  # fmt: skip


def _fractions(places: int, low: Decimal | None, open_low: bool, high: Decimal | None, open_high: bool) -> Expression:
    """What may follow the whole part of a bound: nothing, or a point and at most `places` digits, so that the fraction
    is between those of the bounds.
    """
    lower, upper = _digits(low), _digits(high)

    def steps(state: tuple[int, str, str]) -> Iterator[tuple[int, int, tuple[int, str, str]]]:
        """A state is the number of digits so far (-1: no point yet), and whether they are equal to the beginning of the
        lower bound's and of the upper one's ("="), or inside ("<"). A digit after the last one of a bound is compared
        with 0.
        """
        count, below, above = state
        if count < 0:
            if places:
                yield 0x2E, 0x2E, (0, below, above)
            return
        if count == places:
            return
        for digit in range(10):
            least = int(lower[count]) if count < len(lower) else 0
            most = int(upper[count]) if count < len(upper) else 0
            if (below == "=" and digit < least) or (above == "=" and digit > most):
                continue
            equal = "=" if below == "=" and digit == least else "<", "=" if above == "=" and digit == most else "<"
            yield 0x30 + digit, 0x30 + digit, (count + 1, *equal)

    def accepts(state: tuple[int, str, str]) -> bool:
        count, below, above = state
        rest = max(count, 0)  # the digits that are missing are zeros
        too_low = below == "=" and (open_low or lower[rest:].strip("0") != "")
        too_high = above == "=" and open_high and upper[rest:].strip("0") == ""
        return count != 0 and not too_low and not too_high

    start = (-1, "<" if low is None else "=", "<" if high is None else "=")
    return explored(start, steps, accepts)


def _digits(bound: Decimal | None) -> str:
    """The digits of a bound after the point."""
    return "" if bound is None else f"{bound - int(bound):f}".partition(".")[2]

"""Numbers and dates in texts, as TAPAS's training annotated them in the cells of tables and in questions.

Source: number_utils.py and number_annotation_utils.py of https://github.com/google-research/tapas (Apache 2.0).
"""

from __future__ import annotations

import calendar
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import inf, isnan
from typing import TypeAlias

Date: TypeAlias = tuple["int | None", "int | None", "int | None"]  # year, month, day
Value: TypeAlias = "float | Date"
Key: TypeAlias = Callable[[Value], tuple[float, ...]]

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = (
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip
ENDINGS = ("st", "nd", "rd", "th")
NUMBER = re.compile(r"((^|\s)[+-])?((\.\d+)|(\d+(,\d\d\d)*(\.\d*)?))")
YEARS = range(1700, 2017)
LONGEST = 5  # words of a date
LEAST_ALIKE = 0.7  # of the cells of a column have a value of the column's kind
# The forms of dates, as of datetime.strptime.
FORMS = (
    "%B", "%Y", "%Ys", "%b %Y", "%B %Y", "%B %d", "%b %d", "%d %b", "%d %B", "%B %d, %Y", "%d %B %Y", "%m-%d-%Y",
    "%Y-%m-%d", "%Y-%m", "%d %b %Y", "%b %d, %Y", "%d.%m.%Y", "%A, %b %d", "%A, %B %d",
)  # fmt: skip
# The names are those that strptime knows: it is slow where it fails.
NAMED = {"%A": [*calendar.day_name], "%B": [*calendar.month_name], "%b": [*calendar.month_abbr]}
FIELDS = {"%Y": r"\d{4}", "%d": r"\d{1,2}", "%m": r"\d{1,2}"} | {
    field: f"(?:{'|'.join(re.escape(name) for name in names if name)})" for field, names in NAMED.items()
}


def _pattern(form: str) -> re.Pattern[str]:
    """What a date of a form looks like."""
    found = re.escape(form).replace(r"\ ", r"\s+")
    for field, expression in FIELDS.items():
        found = found.replace(field, expression)
    return re.compile(found, re.IGNORECASE)


PATTERNS = [(form, _pattern(form)) for form in FORMS]
ANY = re.compile("|".join(pattern.pattern for _, pattern in PATTERNS), re.IGNORECASE)


def simplified(text: str) -> str:
    """A text in small letters with single spaces."""
    return " ".join(text.lower().split())


def number_of(text: str) -> float | None:
    """The number that a text is; None: it is none."""
    for ending in ENDINGS:
        if text.endswith(ending):
            text = text.removesuffix(ending)
            break
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return None if isnan(value) or value == inf else value


def date_of(text: str) -> Date | None:
    """The date that a text is; None: it is none."""
    for form, pattern in PATTERNS if ANY.fullmatch(text) else ():
        if not pattern.fullmatch(text):
            continue
        try:
            found = datetime.strptime(text, form)
        except ValueError:
            continue
        if found.year in YEARS:
            has_month = "%m" in form or "%b" in form or "%B" in form
            return (
                found.year if "%Y" in form else None, found.month if has_month else None,
                found.day if "%d" in form else None,
            )  # fmt: skip
    return None


def _spans(text: str, words: int) -> Iterator[tuple[int, int]]:
    """The characters of each run of at most so many words."""
    starts: list[int] = []
    for place, character in enumerate(text):
        if not character.isalnum():
            continue
        if place == 0 or not text[place - 1].isalnum():
            starts.append(place)
        if place + 1 == len(text) or not text[place + 1].isalnum():
            yield from ((start, place + 1) for start in starts[-words:])


def values_in(text: str) -> list[Value]:
    """The numbers and dates of a text in order, without those inside of longer ones."""
    found: dict[tuple[int, int], list[Value]] = {}
    for match in NUMBER.finditer(text):
        if (number := number_of(match.group())) is not None:
            found.setdefault(match.span(), []).append(number)
    for start, end in _spans(text, 1):
        if (start, end) in found:
            continue
        word, values = text[start:end], []
        if (number := number_of(word)) is not None:
            values.append(number)
        values += [float(names.index(word)) for names in (WORDS, ORDINALS) if word in names]
        if values:
            found[start, end] = list(values)
    for start, end in _spans(text, LONGEST):
        if (date := date_of(text[start:end])) is not None:
            found.setdefault((start, end), []).append(date)
    kept: list[tuple[int, int]] = []
    for start, end in sorted(found, key=lambda span: (span[0], -span[1])):
        if not kept or end > kept[-1][1]:  # else it is inside of the one before
            kept.append((start, end))
    return [value for span in kept for value in found[span]]


def column_values(cells: Sequence[str]) -> dict[int, Value]:
    """The value of each cell of a column, by its row, where most cells have one of the same kind."""
    found = [values_in(simplified(cell)) for cell in cells]
    kinds = Counter(kind for values in found for kind in {isinstance(value, tuple) for value in values})
    most = max(kinds.values(), default=0)
    if not most or most < len(cells) * LEAST_ALIKE:
        return {}
    dates = kinds[True] == most
    alike = ([value for value in values if isinstance(value, tuple) == dates] for values in found)
    return {row: values[0] for row, values in enumerate(alike) if values}


def comparable(values: Iterable[Value]) -> Key | None:
    """What makes numbers of values by which they can be compared: dates by the parts that all have; None: nothing."""
    values = list(values)
    kinds = {isinstance(value, tuple) for value in values}
    if len(kinds) != 1:
        return None
    if kinds == {False}:
        return lambda value: (value,)  # type: ignore[return-value]
    parts = [i for i in range(3) if all(value[i] is not None for value in values)]  # type: ignore[index]
    return (lambda value: tuple(value[i] for i in parts)) if parts else None  # type: ignore[index, misc]


def ranks(values: Mapping[int, Value]) -> dict[int, tuple[int, int]]:
    """The rank from the smallest and from the largest value, from 1, of each row."""
    key = comparable(values.values())
    if key is None:
        return {}
    order = sorted({key(value) for value in values.values()})
    place = {value: number for number, value in enumerate(order)}
    return {row: (place[key(value)] + 1, len(order) - place[key(value)]) for row, value in values.items()}


def relations(asked: Sequence[Value], values: Mapping[int, Value]) -> dict[int, int]:
    """How the values of a question compare with those of a column, by row: 1 if one is equal, 2 if one is less, 4 if
    one is greater, added.
    """
    found: dict[int, int] = {}
    for one in asked:
        key = comparable([*values.values(), one]) if values else None
        for row, value in values.items() if key is not None else ():
            first, second = key(one), key(value)  # type: ignore[misc]
            found[row] = found.get(row, 0) | (1 if first == second else 2 if first < second else 4)
    return found

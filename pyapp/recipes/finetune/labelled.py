"""Examples for encoders from the user's files: labelled texts, scored pairs, texts that belong together, tagged words.

A .jsonl file has an object in each line, a .csv or .tsv file a row below the names of its columns. FORMS lists the
fields; other fields are ignored.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.datasets.tables import undecodable_line
from pyapp.errors import FileFormatError
from pyapp.formats.source import open_regular

from .examples import LINE_LIMIT, TO_UTF8, check_size, json_lines

MOST_LABELS = 1 << 12
MOST_SHOWN = 8  # names of fields in an error
SEPARATORS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class Labelled:
    """An example: its texts, and what is to be learnt of them: a label, a score, nothing, or the words' tags."""

    texts: tuple[str, ...]
    target: Any = None


@dataclass(frozen=True)
class LabelledFile:
    """The examples of a file, which have one form, the name of that form, and their labels or tags, sorted."""

    form: str
    rows: list[Labelled]
    labels: tuple[str, ...]


def _label(value: Any) -> str:
    """A label as text. ValueError for anything but a text or a whole number."""
    if type(value) is int or (isinstance(value, str) and value.strip()):
        return str(value).strip()
    raise ValueError(f"the label is {value!r:.60}, expected a text or a whole number")


def _score(value: Any) -> float:
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):  # a whole number may have hundreds of digits
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"the score is {value!r:.60}, expected a number")
    return found


def _texts(entry: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    for name in names:
        if not isinstance(entry[name], str):
            raise ValueError(f"{name} is {entry[name]!r:.60}, expected a text")
    return tuple(entry[name] for name in names)


def _classified(entry: Mapping[str, Any]) -> Labelled:
    return Labelled(_texts(entry, "text"), _label(entry["label"]))


def _classified_pair(entry: Mapping[str, Any]) -> Labelled:
    return Labelled(_texts(entry, "text", "text_pair"), _label(entry["label"]))


def _scored_pair(entry: Mapping[str, Any]) -> Labelled:
    score = _score(entry["score"])
    if not 0 <= score <= 1:
        raise ValueError(f"the score is {score:g}, expected a number from 0 to 1")
    return Labelled(_texts(entry, "text", "text_pair"), score)


def _similar(entry: Mapping[str, Any]) -> Labelled:
    return Labelled(_texts(entry, "sentence1", "sentence2"), _score(entry["score"]))


def _triplet(entry: Mapping[str, Any]) -> Labelled:
    return Labelled(_texts(entry, "anchor", "positive", "negative"))


def _together(entry: Mapping[str, Any]) -> Labelled:
    return Labelled(_texts(entry, "anchor", "positive"))


def _tagged(entry: Mapping[str, Any]) -> Labelled:
    words, tags = entry["tokens"], entry["tags"]
    if not (isinstance(words, list) and isinstance(tags, list) and all(isinstance(word, str) for word in words)):
        raise ValueError("tokens and tags are not lists of words and of their tags")
    if len(words) != len(tags) or not words:
        raise ValueError(f"there are {len(words):,} tokens and {len(tags):,} tags")
    return Labelled(tuple(words), tuple(map(_label, tags)))


# name → (fields, how an entry is read); the first whose fields an entry has
READERS: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], Labelled]]] = {
    "pairs with labels": (("text", "text_pair", "label"), _classified_pair),
    "pairs with scores": (("text", "text_pair", "score"), _scored_pair),
    "texts with labels": (("text", "label"), _classified),
    "similar sentences": (("sentence1", "sentence2", "score"), _similar),
    "triplets": (("anchor", "positive", "negative"), _triplet),
    "texts that belong together": (("anchor", "positive"), _together),
    "tagged words": (("tokens", "tags"), _tagged),
}
FORMS = "; ".join(", ".join(fields) for fields, _ in READERS.values())
NEEDED = f"A line has the fields of one of these forms: {FORMS}"


def read_labelled(path: Path) -> LabelledFile:
    """The examples of a file. FileFormatError names the line that is not valid, or has another form than the first."""
    form: str | None = None
    rows: list[Labelled] = []
    labels: set[str] = set()
    for where, entry in entries(path):
        found = _form_of(entry, where)
        if form not in (None, found):
            raise FileFormatError(
                f"the line has {found}, the lines before have {form}", where=where,
                hint="Put them into files of their own",
            )  # fmt: skip
        form = found
        try:
            rows.append(READERS[form][1](entry))
        except ValueError as error:
            raise FileFormatError(str(error), where=where) from None
        target = rows[-1].target
        labels.update(target if isinstance(target, tuple) else (target,) if isinstance(target, str) else ())
        if len(labels) > MOST_LABELS:
            raise FileFormatError(f"there are more than {MOST_LABELS:,} labels", where=where)
    if form is None:
        raise FileFormatError("there is nothing to learn in this file", where=str(path), hint=NEEDED)
    return LabelledFile(form, rows, tuple(sorted(labels, key=_order)))


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, value) of each line of a .jsonl file, or of each row of a table, values by column."""
    check_size(path)
    separator = SEPARATORS.get(path.suffix.lower())
    return json_lines(path) if separator is None else _table(path, separator)


def _order(label: str) -> tuple[int, int | str]:
    """Whole numbers by their value, before other labels."""
    return (0, int(label)) if label.isascii() and label.isdigit() and len(label) < 16 else (1, label)


def _form_of(entry: Any, where: str) -> str:
    if isinstance(entry, dict):
        for name, (fields, _) in READERS.items():
            if all(entry.get(field) is not None for field in fields):
                return name
    what = "it is not an object"
    if isinstance(entry, dict):
        known = [str(name)[:40] for name, value in entry.items() if value is not None]
        more = ", …" if len(known) > MOST_SHOWN else ""
        what = f"it has only {', '.join(known[:MOST_SHOWN])}{more}" if known else "it has no values"
    raise FileFormatError(f"the line is not an example for this model: {what}", where=where, hint=NEEDED)


def _table(path: Path, separator: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, values by column) of each row of a table."""
    with TextIOWrapper(BufferedReader(open_regular(path)), "utf-8-sig", newline="") as file:
        before = csv.field_size_limit(LINE_LIMIT)
        rows = csv.DictReader(file, delimiter=separator, strict=True)
        try:
            for row in rows:
                where = f"{path}, line {rows.line_num}"
                if None in row:
                    raise FileFormatError("the row has more values than there are columns", where=where)
                yield where, {name: value for name, value in row.items() if value is not None}
        except csv.Error as error:
            raise FileFormatError(f"not a valid table: {error}", where=f"{path}, line {rows.line_num}") from None
        except UnicodeDecodeError as error:
            where = f"{path}, line {undecodable_line(path, 'utf-8')}"
            raise FileFormatError(f"not UTF-8 text ({error.reason})", where=where, hint=TO_UTF8) from None
        finally:
            csv.field_size_limit(before)

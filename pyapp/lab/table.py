"""Tables of a cell: lists of dicts, dicts of columns, data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from .output import show

MOST_ROWS = 200
MOST_COLUMNS = 50
MOST_LETTERS = 200  # of one value


def table(rows: Any, most: int = MOST_ROWS) -> None:
    """Shows a table: a list of dicts or of sequences, a dict of columns, or a data frame (pandas, polars).

    Of more than `most` rows, the first ones are shown, with the number of all.
    """
    columns, body, count = cells_of(rows, most)
    left_out = max(count - len(body), 0)
    output = {"kind": "table", "columns": columns, "rows": body, "count": count}
    show(output, as_text(columns, body) + (f"\n… {left_out:,} more rows" if left_out else ""))


def is_table(value: Any) -> bool:
    """Whether a cell's value is shown as a table: a data frame, or a list of dicts."""
    if hasattr(value, "columns") and callable(getattr(value, "to_dict", None)):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in islice(value, 1000))


def cells_of(rows: Any, most: int) -> tuple[list[str], list[list[str]], int]:
    """(names of the columns, texts of the first rows, number of all rows)."""
    if most < 1:
        raise ValueError(f"table: most is at least 1, not {most}")
    if hasattr(rows, "columns") and hasattr(rows, "head"):  # a data frame
        names = [str(name) for name in list(rows.columns)[:MOST_COLUMNS]]
        head = rows.head(most)
        body = [
            list(values)[:MOST_COLUMNS]
            for values in (head.itertuples(index=False) if hasattr(head, "itertuples") else head.rows())
        ]
        return names, [[short(value) for value in row] for row in body], len(rows)
    if isinstance(rows, Mapping):
        names = [str(name) for name in rows][:MOST_COLUMNS]
        columns = [list(column) for column in list(rows.values())[:MOST_COLUMNS]]
        count = max(map(len, columns), default=0)
        body = [[column[i] if i < len(column) else "" for column in columns] for i in range(min(count, most))]
        return names, [[short(value) for value in row] for row in body], count
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)):
        raise TypeError(f"table: rows are a list of dicts or of lists, or a dict of columns, not {type(rows).__name__}")
    every = list(rows)
    first = every[:most]
    if all(isinstance(row, Mapping) for row in first):
        keys = list(dict.fromkeys(key for row in first for key in row))[:MOST_COLUMNS]
        return [str(key) for key in keys], [[short(row.get(key, "")) for key in keys] for row in first], len(every)
    if any(not isinstance(row, Iterable) or isinstance(row, (str, bytes)) for row in first):
        raise TypeError("table: each row is a dict or a list")
    listed = [list(row)[:MOST_COLUMNS] for row in first]
    width = max(map(len, listed), default=0)
    body = [[*row, *[""] * (width - len(row))] for row in listed]
    return [str(i) for i in range(width)], [[short(value) for value in row] for row in body], len(every)


def short(value: Any) -> str:
    """A value of a table as a text of limited length."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def as_text(columns: list[str], rows: list[list[str]]) -> str:
    """The table in columns of equal width; numbers stand right."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)] if columns else []
    numeric = [all(is_number(row[i]) for row in rows) and bool(rows) for i in range(len(columns))]

    def line(values: list[str]) -> str:
        placed = [v.rjust(w) if n else v.ljust(w) for v, w, n in zip(values, widths, numeric, strict=True)]
        return "  ".join(placed).rstrip()

    return "\n".join(line(row) for row in [columns, *rows])


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

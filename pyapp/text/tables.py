"""A question and a table as TAPAS's tokens and their types (Herzig et al. 2020, arXiv 2004.02349, section 2)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError, OptionError

from .numbers_in_text import Value, column_values, ranks, relations, simplified, values_in

EMPTY = "[EMPTY]"  # the token of cells without a text
MARKS = re.compile(r"[^\w\d]+")
MISSING = ("n/a", "?", "nan")


@dataclass(frozen=True)
class TableTokens:
    """The ids (T) and the seven types (T, 7) of a question and a table's cells. rows: how many of the table's are among
    them.
    """

    ids: list[int]
    types: list[tuple[int, ...]]
    rows: int

    def after(self, cells: Collection[tuple[int, int]]) -> TableTokens:
        """The tokens of the question where the one before it chose these cells (row, column), from 0."""
        types = [
            (*own[:3], int(own[0] == 1 and (own[2] - 1, own[1] - 1) in cells), *own[4:]) for own in self.types
        ]  # fmt: skip
        return replace(self, types=types)


@dataclass(frozen=True)
class Piece:
    """A token of a cell: its row, with the names of columns as row 0, its column from 0, and where in the cell the word
    of the token begins.
    """

    token: int
    row: int
    column: int
    begin: int


class TableReader:
    """Puts questions before a table. sizes: of the types. ModelError for a tokenizer of other models, OptionError for
    too many columns.

    `numbers` has the value of each cell of each column, by its row, where most cells of the column have one.
    """

    def __init__(
        self, tokenizer: Any, columns: Sequence[str], rows: Sequence[Sequence[str]], sizes: Sequence[int]
    ) -> None:  # fmt: skip
        self._tokenizer, self._sizes = tokenizer, sizes
        self._start, self._end = (tokenizer.special_id(role) for role in ("cls_token", "sep_token"))
        if self._start is None or self._end is None or tokenizer.id_of(EMPTY) is None:
            raise ModelError("the tokenizer is not one for tables", hint=f"TAPAS's has [CLS], [SEP] and {EMPTY}")
        if len(columns) >= sizes[1]:
            raise OptionError(f"{len(columns):,} columns are more than {sizes[1] - 1:,}", where="table")
        readable = rows[: sizes[2] - 1]
        self._rows = len(readable)
        self._pieces = [
            Piece(token, row, column, begin)
            for row, cells in enumerate([columns, *readable])
            for column, cell in enumerate(cells)
            for token, begin in _with_words(tokenizer, _pieces(tokenizer, cell))
        ]
        self.numbers = [column_values([row[column] for row in rows]) for column in range(len(columns))]
        self._ranks = [ranks(column) for column in self.numbers]

    def tokens(self, question: str, most: int) -> TableTokens:
        """A question with the table in at most `most` tokens: long cells are cut, then the last rows are left out.
        OptionError where the question and the names of the columns are too long.
        """
        asked = _pieces(self._tokenizer, question)
        room = most - len(asked) - 2
        kept, longest = _fitting(self._pieces, self._rows, max(room, 0))
        shown = [piece for piece in self._pieces if piece.row <= kept and piece.begin < longest]
        if len(shown) > room:
            count = len(asked) + len(shown)
            raise OptionError(
                f"the question and the names of the columns are {count:,} tokens; the model reads {most:,}",
                where="table", hint="Shorten the question or leave columns out",
            )  # fmt: skip
        values = values_in(simplified(question))
        compared = [relations(values, column) for column in self.numbers]
        types: list[tuple[int, ...]] = [(0,) * len(self._sizes)] * (len(asked) + 2)
        for piece in shown:
            rank, inverse = self._ranks[piece.column].get(piece.row - 1, (0, 0)) if piece.row else (0, 0)
            relation = compared[piece.column].get(piece.row - 1, 0) if piece.row else 0
            found = (1, piece.column + 1, piece.row, 0, rank, inverse, relation)
            types.append(tuple(min(one, size - 1) for one, size in zip(found, self._sizes, strict=True)))
        return TableTokens([self._start, *asked, self._end, *(piece.token for piece in shown)], types, kept)


def _pieces(tokenizer: Any, text: str) -> Sequence[int]:
    """The tokens of a text; the token of empty cells for one without letters and digits, none for one that is empty."""
    if not text:
        return []
    text = text.strip()
    bare = "" if text.lower() in MISSING else MARKS.sub(" ", text).replace("_", " ").strip()
    found: Sequence[int] = tokenizer.encode(text, bos=False, eos=False, parse_special=False) if bare else ()
    return found or [tokenizer.id_of(EMPTY)]


def _with_words(tokenizer: Any, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Each token with the place where its word begins."""
    found, begin = [], 0
    for place, token in enumerate(tokens):
        begin = begin if tokenizer.continues_word(token) else place
        found.append((token, begin))
    return found


def _fitting(pieces: Sequence[Piece], rows: int, room: int) -> tuple[int, int]:
    """How many rows fit, and how many tokens of each cell: as many tokens as fit with all rows, or with fewer rows if
    not even the first word of each cell does.
    """
    longest = min(max((piece.begin for piece in pieces), default=0), room) + 1  # of a longer cell no more fits
    counts = [[0] * longest for _ in range(rows + 1)]  # by row, and by the word's place
    for piece in pieces:
        counts[piece.row][min(piece.begin, room)] += 1
    total = [sum(column) for column in zip(*counts, strict=True)]
    for kept in range(rows, 0, -1):
        used = fits = 0
        while fits < longest and used + total[fits] <= room:
            used += total[fits]
            fits += 1
        if fits:
            return kept, fits
        total = [whole - own for whole, own in zip(total, counts[kept], strict=True)]
    return 0, 1


def chosen_cells(tokens: TableTokens, chances: Sequence[float]) -> dict[tuple[int, int], float]:
    """The cells (row, column) from 0 that are probably of an answer, in order, with the mean chance of their tokens."""
    found: dict[tuple[int, int], list[float]] = {}
    for types, chance in zip(tokens.types, chances, strict=False):
        if types[0] == 1 and types[1] and types[2]:
            found.setdefault((types[2] - 1, types[1] - 1), []).append(chance)
    means = {cell: sum(values) / len(values) for cell, values in found.items()}
    return {cell: means[cell] for cell in sorted(means) if means[cell] > 0.5}


def aggregated(name: str, cells: Sequence[tuple[int, int]], numbers: Sequence[Mapping[int, Value]]) -> float | None:
    """The number that an aggregation makes of cells (row, column), by the `numbers` of the columns (TableReader); None:
    it makes none of them.
    """
    if name == "COUNT":
        return len(cells)
    if name not in ("SUM", "AVERAGE") or not cells:
        return None
    values = [value for row, column in cells if isinstance(value := numbers[column].get(row), float)]
    if len(values) < len(cells):
        return None
    return sum(values) / (len(values) if name == "AVERAGE" else 1)

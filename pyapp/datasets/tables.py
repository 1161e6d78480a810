"""Tables, of CSV files and of data frames; and rows of tensors in safetensors files."""

from __future__ import annotations

import codecs
import csv
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from pyapp.engine.ops import stack, tensor
from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError, OptionError, shown
from pyapp.formats import open_checkpoint
from pyapp.utils.data import Dataset

CELL_LIMIT = 16 << 20  # characters of a cell
Column = Tensor | list[Any]


class Table(Dataset[Any]):
    """Columns of equal length by name: numbers as tensors (N,) (int64 or float64), anything else as lists.

    `table["age"]` is a column, `table[3]` the row {name: value}; len() is the number of rows.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if not lengths or len({*lengths.values()}) != 1:
            raise OptionError(f"Table: takes columns of one length, got {lengths}")
        self.columns: dict[str, Column] = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.columns[self._known(key)]
        if not hasattr(key, "__index__"):
            raise TypeError(f"Table: a column has a name, a row a whole number, not {shown(key)}")
        if not -len(self) <= key < len(self):
            raise IndexError(f"Table: {key} is outside of {len(self):,} rows")
        return {
            name: column[key].item() if isinstance(column, Tensor) else column[key]
            for name, column in self.columns.items()
        }

    def _known(self, name: str) -> str:
        if name not in self.columns:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self.columns)}")
        return name

    def features(self, names: Sequence[str] | None = None, *, without: str | Sequence[str] = ()) -> Tensor:
        """Columns of numbers side by side: float32 (N, columns). By default all but those in `without`. OptionError for
        a column of texts.
        """
        left_out = [without] if isinstance(without, str) else list(without)
        for name in left_out:
            self._known(name)
        chosen = [self._known(name) for name in (names or [n for n in self.columns if n not in left_out])]
        for name in chosen:
            if not isinstance(self.columns[name], Tensor):
                raise OptionError(
                    f"Table: the column {name!r} has texts: turn it into numbers with codes(), or leave it out"
                )
        return stack([self.columns[name].float() for name in chosen], 1)  # type: ignore[union-attr]

    def codes(self, name: str) -> tuple[Tensor, list[Any]]:
        """A column as classes: int64 (N,), and the values by number, sorted. Missing values (NaN, None) are the last
        class. OptionError for values that have no order.
        """
        column = self.columns[self._known(name)]
        values = column.tolist() if isinstance(column, Tensor) else column
        there = [value for value in values if value is not None and value == value]
        try:
            classes = sorted({*there})
        except TypeError as error:
            raise OptionError(f"Table: the values of the column {name!r} cannot be sorted ({error})") from None
        number = {value: k for k, value in enumerate(classes)}
        if len(there) < len(values):
            classes.append(next(value for value in values if value is None or value != value))
        return tensor([number.get(value, len(number)) for value in values], dtype="int64"), classes

    def __repr__(self) -> str:
        return f"<Table: {len(self):,} rows of {', '.join(self.columns)}>"


def _column(values: list[str]) -> Column:
    """Texts as whole numbers, else as numbers (an empty cell is NaN), else unchanged."""
    if any("_" in value for value in values):  # "1_000" is a number for Python alone
        return values
    try:
        return tensor([int(value) for value in values], dtype="int64")
    except (ValueError, OverflowError, RuntimeError):
        pass
    try:
        return tensor([float(value) if value.strip() else float("nan") for value in values], dtype="float64")
    except ValueError:
        return values


def read_csv(
    path: str | os.PathLike[str], *, delimiter: str = ",", header: bool | Sequence[str] = True, encoding: str = "utf-8"
) -> Table:
    """A table of a CSV file. `header`: True if the first line has the names, False for names "0", "1" …, or the names.

    FileFormatError names the line whose number of cells is wrong. OptionError for an unknown encoding, and for a
    delimiter that is not one character.
    """
    names, rows = read_cells(path, delimiter=delimiter, header=header, encoding=encoding)
    return Table({name: _column([row[k] for row in rows]) for k, name in enumerate(names)})


def read_cells(
    path: str | os.PathLike[str], *, delimiter: str = ",", header: bool | Sequence[str] = True, encoding: str = "utf-8"
) -> tuple[list[str], list[list[str]]]:
    """The names of the columns of a CSV file, and its rows of texts; as `read_csv`."""
    if len(delimiter) != 1:
        raise OptionError(f"read_csv: the delimiter is one character, not {shown(delimiter)}")
    reader: Any = None
    limit = csv.field_size_limit(CELL_LIMIT)
    try:
        with open(path, newline="", encoding=encoding) as file:
            reader = csv.reader(file, delimiter=delimiter)
            rows = [(reader.line_num, row) for row in reader if row]
    except LookupError as error:
        raise OptionError(f"read_csv: the encoding {shown(encoding)} is not known") from error
    except UnicodeDecodeError as error:
        what = f"line {undecodable_line(path, encoding):,} is not text in {encoding} ({error.reason})"
        raise FileFormatError(what, where=str(path), hint="Give its encoding=") from error
    except csv.Error as error:
        what = f"this is not a CSV file ({error} in line {reader.line_num:,})"
        raise FileFormatError(what, where=str(path), hint="Write it again") from error
    finally:
        csv.field_size_limit(limit)
    if isinstance(header, bool):
        names = rows.pop(0)[1] if header and rows else [str(k) for k in range(len(rows[0][1]) if rows else 0)]
    else:
        names = list(header)
    names = [name.strip().removeprefix("\ufeff") for name in names]
    if not rows:
        raise FileFormatError("there are no rows", where=str(path), hint="A table has at least one row of cells")
    if len({*names}) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        hint = "Give header=False if the first line has cells, else other names"
        raise FileFormatError(f"two columns have the name {shown(twice)}", where=str(path), hint=hint)
    for line, row in rows:
        if len(row) != len(names):
            what, hint = f"line {line:,} has {len(row)} cells, expected {len(names)}", "Give the delimiter= of the file"
            raise FileFormatError(what, where=str(path), hint=hint)
    return names, [row for _, row in rows]


def undecodable_line(path: str | os.PathLike[str], encoding: str) -> int:
    """The number, from 1, of the first line that is not text in an encoding. A reader of text knows less: it decodes
    blocks of lines.
    """
    decoder, number = codecs.getincrementaldecoder(encoding)(), 1
    with open(path, "rb") as file:
        for line in file:
            try:
                number += decoder.decode(line).count("\n")
            except UnicodeDecodeError:
                break
    return number


def table_of(frame: Any) -> Table:
    """A table of a pandas or polars DataFrame."""
    return Table({str(name): of_values(frame[name].tolist() if hasattr(frame[name], "tolist") else
                                        frame[name].to_list()) for name in frame.columns})  # fmt: skip


def of_values(values: list[Any]) -> Column:
    """Whole numbers as int64, numbers and missing ones as float64, else unchanged."""
    kinds = {type(value) for value in values}
    if kinds <= {int}:
        fits = all(-(1 << 63) <= value < 1 << 63 for value in (min(values, default=0), max(values, default=0)))
        return tensor(values, dtype="int64") if fits else values
    if kinds <= {int, float, type(None)} and kinds != {type(None)}:
        return tensor([float("nan") if value is None else value for value in values], dtype="float64")
    return values


class TensorShards(Dataset[dict[str, Tensor]]):
    """Rows of tensors in several safetensors files (or any that `open_checkpoint` reads): the example i has row i of
    each tensor, by name. All files have the same names; within a file all tensors have the same length. Large tensors
    are mapped into memory. FileFormatError for files that do not fit together.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self.paths = [Path(path) for path in paths]
        if not self.paths:
            raise OptionError("TensorShards: takes the paths of the files")
        self._rows: list[int] = []
        self._form: dict[str, tuple[Any, ...]] = {}
        for path in self.paths:
            infos = open_checkpoint(path).tensors
            form = {name: (info.dtype, info.shape[1:]) for name, info in infos.items()}
            if not form or any(not info.shape for info in infos.values()):
                raise FileFormatError("every tensor needs a first dim, that of the examples", where=str(path))
            self._form = self._form or form
            if form != self._form:
                raise FileFormatError(f"it has the tensors {form}, {self.paths[0]} has {self._form}", where=str(path))
            lengths = {info.shape[0] for info in infos.values()}
            if len(lengths) != 1:
                raise FileFormatError(f"its tensors have the lengths {sorted(lengths)}", where=str(path))
            self._rows.append(lengths.pop())
        self._ends = list(accumulate(self._rows))
        self._open: tuple[int, dict[str, Tensor]] = (-1, {})

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"TensorShards: {index} is outside of {len(self):,} examples")
        which = bisect_right(self._ends, at)
        if self._open[0] != which:
            checkpoint = open_checkpoint(self.paths[which])
            self._open = which, {name: checkpoint.read(name) for name in checkpoint.tensors}
        row = at - (self._ends[which - 1] if which else 0)
        return {name: column[row] for name, column in self._open[1].items()}

    def __getstate__(self) -> dict[str, Any]:  # a worker process opens its own files
        return self.__dict__ | {"_open": (-1, {})}

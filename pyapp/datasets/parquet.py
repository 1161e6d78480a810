"""Parquet files, by pyarrow. What a column takes in memory is computed before it is made: its values may be packed a
million times smaller in the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import FileFormatError, OptionError, shown

from .tables import Column, Table, of_values

MOST_BYTES = 4 << 30  # of a table
ROWS = 1 << 13  # that are decoded together
NUMBER = 8  # bytes in a tensor
OBJECT = 56  # bytes of an object of Python and of the reference to it, beside its contents


def read_parquet(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, most_bytes: int = MOST_BYTES
) -> Table:
    """A table of a Parquet file, or of some of its columns. FileFormatError for a damaged file, an unknown column, and
    for one whose table would take more than `most_bytes` in memory (4 GiB). OptionError for most_bytes that is no
    number. ImportError without pyarrow.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    if type(most_bytes) is not int or most_bytes < 1:
        raise OptionError(f"read_parquet: most_bytes is a whole number of 1 or more, not {shown(most_bytes)}")
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("Parquet is read by pyarrow, which is not installed: pip install 'pyapp[data]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
        # Texts as the numbers of different ones, which many rows may share.
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            return Table(_columns(file, columns, most_bytes, os.fspath(path)))
    except (ValueError, OSError, ArithmeticError, pyarrow.ArrowException) as error:  # a date may be beyond Python's
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(
            f"this is not a Parquet file that can be read ({error})", where=str(path), hint="Write it again"
        ) from error


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return any(is_one(kind) for is_one in (types.is_string, types.is_binary))


def _is_number(kind: Any) -> bool:
    """Whether a tensor holds the values. The largest uint64 are beyond int64."""
    from pyarrow import types

    return (types.is_integer(kind) and not types.is_uint64(kind)) or types.is_floating(kind)


def _columns(file: Any, names: Sequence[str] | None, most: int, where: str) -> dict[str, Column]:
    """The columns of an open file. FileFormatError for more bytes."""
    schema, metadata = file.schema_arrow, file.metadata
    names = schema.names if names is None else list(names)
    if not names:
        raise FileFormatError("it has no columns", where=where)
    for name in names:
        if name not in schema.names:
            told = f"there is no column {name!r:.60}; there are {', '.join(schema.names)}"
            raise FileFormatError(told, where=where)

    used = 0

    def spend(nbytes: int, estimated: bool = False) -> None:
        nonlocal used
        needed = used + nbytes
        if needed > most:
            raise FileFormatError(
                f"its {metadata.num_rows:,} rows of {len(names):,} columns would take {needed:,} bytes in memory or "
                f"more, {most:,} are allowed", where=where, hint="Read fewer columns=, or raise most_bytes=",
            )  # fmt: skip
        used += 0 if estimated else nbytes

    leaves = [file.schema.column(number) for number in range(metadata.num_columns)]
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    stored = [
        (group.column(number), OBJECT if leaf.max_repetition_level else NUMBER)
        for group in groups
        for number, leaf in enumerate(leaves)
        if leaf.path in names or _top_name(leaf.path) in names
    ]
    spend(sum(part.num_values * size for part, size in stored), estimated=True)
    # An encoding with a dictionary of its own takes less than twice what the values do.
    spend(sum(part.total_uncompressed_size for part, _ in stored) // 2, estimated=True)
    columns = [_Column(name) for name in names]
    for number in range(metadata.num_row_groups):
        for column in columns:
            column.texts = []
        for batch in file.iter_batches(batch_size=ROWS, row_groups=[number], columns=names, use_threads=False):
            for column in columns:
                column.take(batch.column(column.name), spend)
    return {column.name: column.whole(schema.field(column.name).type) for column in columns}


class _Column:
    """A column while it is read. `texts`: the different ones of a group of rows, to which each batch adds some."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.texts: list[Any] = []
        self._arrays: list[Any] = []  # of numbers
        self._values: list[Any] = []

    def take(self, array: Any, spend: Callable[[int], None]) -> None:
        """Adds values. `spend` gets the bytes that they take, before they do."""
        from pyarrow import compute, types

        if not types.is_dictionary(array.type):
            spend(_nbytes(array))
            if _is_number(array.type):
                self._arrays.append(array)
            else:
                self._values += array.to_pylist()
            return
        texts, found = self.texts, array.dictionary
        if texts and (len(found) < len(texts) or found[len(texts) - 1].as_py() != texts[-1]):
            texts = self.texts = []  # not those of before, and more
        new = found[len(texts) :]
        spend(NUMBER * len(array) + _nbytes(new))
        texts += new.to_pylist()
        ends = compute.min_max(array.indices)
        if ends["min"].is_valid and not 0 <= ends["min"].as_py() <= ends["max"].as_py() < len(texts):
            raise ValueError(f"the column {self.name!r:.60} has numbers of texts that there are not")
        self._values += [None if number is None else texts[number] for number in array.indices.to_pylist()]

    def whole(self, kind: Any) -> Column:
        """All values. kind: their Arrow type."""
        return _numbers(self._arrays, kind) if _is_number(kind) else of_values(self._values)


def _top_name(path: str) -> str:
    return path.partition(".")[0]


def _nbytes(array: Any) -> int:
    """What the values take in memory as a tensor, or as objects of Python."""
    from pyarrow import types

    kind = array.type
    if _is_number(kind):
        return NUMBER * len(array)
    inner: list[Any] = []
    if types.is_struct(kind):
        inner = [array.field(number) for number in range(kind.num_fields)]
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = [array.flatten()]
    elif types.is_map(kind):
        inner = [array.keys, array.items]
    return OBJECT * len(array) + (sum(OBJECT * len(part) + _nbytes(part) for part in inner) if inner else array.nbytes)


def _numbers(arrays: list[Any], kind: Any) -> Column:
    """Whole numbers as int64; others, and where some are missing, as float64 with NaN."""
    import pyarrow

    missing = sum(array.null_count for array in arrays)
    count = sum(map(len, arrays))
    if missing == count:
        return [None] * count
    whole = not missing and pyarrow.types.is_integer(kind)
    values = [array.to_numpy(zero_copy_only=False) for array in arrays]
    return from_numpy(np.concatenate(values).astype(np.int64 if whole else np.float64))

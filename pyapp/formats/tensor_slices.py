"""Rows and columns of a tensor in a file, without the rest: for processes that share a model."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from pyapp.engine import Device, Tensor, quant
from pyapp.engine.blocks.layout import READABLE
from pyapp.engine.device import as_device, cpu
from pyapp.engine.dtype import DTYPES
from pyapp.engine.ops import cat

from .block_tensors import read_blocks
from .checkpoint import Checkpoint, TensorInfo
from .dense_tensors import read_dense
from .source import ByteSource, check_range, read_into

LISTED = ("float16", "bfloat16")  # of matrices that are read in blocks (models/loading/quantised)
Runs = Sequence[tuple[int, int]]  # (first, count) of rows, one run after the other


def read_part(
    checkpoint: Checkpoint, name: str, rows: Runs, columns: tuple[int, int] | None = None, *, finite: bool = False,
    device: Device | str | None = None,
) -> Tensor:  # fmt: skip
    """Rows of a tensor, and of a matrix the columns (first, count); None: all. A stack of matrices (E, N, K) is that of
    their rows (E * N, K). Only these bytes are read, where the file has the tensor row by row and no block is divided;
    else it is a part of the whole tensor, which is no longer in blocks: in the floats that the file lists, or float32.

    Errors as those of Checkpoint.read; ValueError for rows and columns that are not there.
    """
    info = checkpoint.tensors.get(name)
    if info is None:
        raise KeyError(f"{checkpoint.source.name} has no tensor {name!r}")
    if len(info.shape) == 3:
        info = replace(info, shape=(info.shape[0] * info.shape[1], info.shape[2]))
    width = info.shape[1] if len(info.shape) == 2 else 1
    first, count = columns or (0, width)
    inside = all(row >= 0 and n > 0 and row + n <= info.shape[0] for row, n in rows) if info.shape else False
    if not rows or not inside or len(info.shape) > 2 or first < 0 or count < 1 or first + count > width:
        raise ValueError(f"read_part: {name!r} {list(info.shape)} has no rows {list(rows)[:5]}, columns {columns}")
    part = _source(checkpoint, info, rows, first, count)
    if part is None:
        whole = quant.dequantize(checkpoint.read_rows(name, finite=finite, device=device)).reshape(info.shape)
        whole = whole.to(info.dtype) if info.dtype in LISTED else whole
        taken = whole if columns is None else whole.narrow(1, *columns)
        return cat([taken.narrow(0, row, n) for row, n in rows]).contiguous()
    height = sum(n for _, n in rows)
    own = replace(info, shape=(height, count) if len(info.shape) == 2 else (height,), nbytes=part.size)
    place = as_device(device)
    read = read_blocks if info.dtype in READABLE else read_dense
    return read(part, 0, own, finite, None if place is cpu else place)


def _source(checkpoint: Checkpoint, info: TensorInfo, rows: Runs, first: int, count: int) -> SliceSource | None:
    """The bytes of rows, and of columns from `first` on; None if they cannot be read by themselves."""
    place, block = checkpoint._place(info.name), READABLE.get(info.dtype)
    if place is None or (block is None and (info.dtype not in DTYPES or DTYPES[info.dtype].is_quantized)):
        return None
    width = info.shape[1] if len(info.shape) == 2 else 1
    values, nbytes = (block.values, block.nbytes) if block else (1, DTYPES[info.dtype].itemsize)
    if any(number % values for number in (width, first, count)):
        return None
    row_bytes = width // values * nbytes
    if not place[2] == info.nbytes == row_bytes * info.shape[0]:
        return None
    begin, size = (number // values * nbytes for number in (first, count))
    return SliceSource(place[0], place[1], row_bytes, rows, begin, size)


class SliceSource:
    """Of the rows of `row_bytes` bytes each, which begin at byte `offset` of a source: the rows `runs` (first, count),
    one run after the other, and of each row the `width` bytes from `begin` on. Nothing else of the source is read.
    """

    def __init__(self, source: ByteSource, offset: int, row_bytes: int, runs: Runs, begin: int, width: int) -> None:
        self.name = source.name
        self._source, self._offset, self._row_bytes = source, offset, row_bytes
        self._runs, self._begin, self._width = list(runs), begin, width
        self._starts = [0, *accumulate(count * width for _, count in runs)]  # where the runs begin, and the end
        self.size = self._starts[-1]

    def read(self, offset: int, length: int) -> bytes | memoryview:
        data = bytearray(length)
        self.read_into(offset, memoryview(data))
        return memoryview(data).toreadonly()

    def read_into(self, offset: int, view: memoryview) -> None:
        check_range(self, offset, len(view))
        whole, done = self._width == self._row_bytes, 0
        while done < len(view):
            run = bisect_right(self._starts, offset + done) - 1
            row, within = divmod(offset + done - self._starts[run], self._width)
            left = self._starts[run + 1] - offset - done if whole else self._width - within
            count = min(left, len(view) - done)
            place = self._offset + (self._runs[run][0] + row) * self._row_bytes + self._begin + within
            read_into(self._source, place, view[done : done + count])
            done += count


def runs_of(rows: Sequence[int]) -> list[tuple[int, int]]:
    """(first, count) of the rows that follow one another in a sequence of rows."""
    found: list[tuple[int, int]] = []
    for row in rows:
        if found and found[-1][0] + found[-1][1] == row:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((row, 1))
    return found

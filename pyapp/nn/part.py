"""What one process has of a parameter that several divide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyapp.dataclass import dataclass

from ..engine import Tensor, no_grad, quant
from ..engine.dtype import float32, uint8
from ..engine.ops import cat, zeros
from ..engine.processes.differentiable import summed_gradient
from ..engine.processes.group import ProcessGroup
from ..engine.tensor import make


@dataclass(frozen=True)
class Part:
    """What a process has of a parameter of `shape`: `ranges` (first, count) of its dim `dim`, one after the other.

    `outer`: the parameter is itself such a part of another, which other processes divide. `gathered`: a module gathers
    it for each of its calls.
    """

    shape: tuple[int, ...]
    dim: int
    ranges: tuple[tuple[int, int], ...]
    outer: Part | None = None
    gathered: bool = False

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The shape of what all processes have together."""
        return self.shape if self.outer is None else self.outer.whole_shape

    @property
    def own_shape(self) -> tuple[int, ...]:
        """The shape of the part."""
        count = sum(count for _, count in self.ranges)
        return *self.shape[: self.dim], count, *self.shape[self.dim + 1 :]

    def flat(self) -> Part:
        """The same part of the matrix (E * N, K) of the rows of a stack of matrices (E, N, K)."""
        count, rows, columns = self.shape
        if self.dim == 2:
            return Part((count * rows, columns), 1, self.ranges)
        ranges = tuple((i * rows + first, n) for i in range(count) for first, n in self.ranges)
        return Part((count * rows, columns), 0, ranges)

    def of_rows(self, start: int, count: int) -> Part:
        """What the process has of some rows, as a part of those rows."""
        shape = (count, *self.shape[1:])
        if self.dim:
            return Part(shape, self.dim, self.ranges)
        inside = [(max(first, start), min(first + n, start + count)) for first, n in self.ranges]
        return Part(shape, 0, tuple((first - start, end - first) for first, end in inside if first < end))

    def of(self, x: Tensor) -> Tensor:
        """The part of a whole tensor, as a copy. Of a matrix in blocks it is one, unless it begins or ends within
        blocks or bands; then it is float32.
        """
        x = x if self.outer is None else self.outer.of(x)
        if not self.shape:  # a number, which is a row
            x = x.reshape(1)
        if x.dtype.is_quantized and len(self.shape) == 3:  # a stack, as the matrix of its rows
            own = self.flat().of(x)
            return own if own.dtype.is_quantized else own.reshape(self.own_shape)
        if x.dtype.is_quantized and self.dim == 0:
            x = quant.concatenate([quant.copied_rows(x, *taken) for taken in self.ranges])
            return x if x.dtype.is_quantized else x.to(float32)
        if x.dtype.is_quantized:
            return _columns_of(x, self.ranges)
        taken = [x.narrow(self.dim, first, count) for first, count in self.ranges]
        return cat(taken, self.dim).contiguous() if len(taken) > 1 else taken[0].contiguous().clone()

    def boxes(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Which boxes of the whole the process has: (first index of each dim, size, first index in the part). Of a
        number (), as long as the process has it.
        """
        if not self.shape:
            if self.own_shape[0]:
                yield (), (), ()
            return
        known = ((0,) * len(self.shape), self.shape, (0,) * len(self.shape))
        at = 0
        for first, count in self.ranges:
            for offsets, sizes, inside in (known,) if self.outer is None else self.outer.boxes():
                begin, end = inside[self.dim], inside[self.dim] + sizes[self.dim]
                low, high = max(begin, first), min(end, first + count)
                if low > high or (low == high and 0 not in self.shape):
                    continue
                yield (
                    _replaced(offsets, self.dim, offsets[self.dim] + low - begin),
                    _replaced(sizes, self.dim, high - low),
                    _replaced(inside, self.dim, at + low - first),
                )
            at += count


def _replaced(values: tuple[int, ...], dim: int, value: int) -> tuple[int, ...]:
    return *values[:dim], value, *values[dim + 1 :]


def _columns_of(x: Tensor, ranges: Sequence[tuple[int, int]]) -> Tensor:
    """A copy of columns (first, count) of a block-quantised matrix, one range beside the other, in its type; in float32
    if one of them begins or ends within a block.
    """
    (rows, columns), kind = x.shape, x.dtype
    if quant.is_transposed(x) or any(n % kind.block for n in (columns, *(n for taken in ranges for n in taken))):
        dense = quant.dequantize(x)
        return cat([dense.narrow(1, *taken) for taken in ranges], 1).contiguous().clone()
    # A band of rows, or a row of other types, is its blocks, one after the other.
    lines = -(-rows // quant.BAND) if kind.name in quant.BANDED else rows
    blocks = columns // kind.block
    size = quant.packed_bytes(x.shape, kind) // max(lines * blocks, 1)
    whole = make(x._storage, (lines, blocks * size), (blocks * size, 1), uint8)
    parts = [whole.narrow(1, first // kind.block * size, count // kind.block * size) for first, count in ranges]
    return quant.from_words(cat(parts, 1).contiguous().clone(), (rows, sum(n for _, n in ranges)), kind)


def kept_of(value: Any, like: Tensor | None) -> Any:
    """What this process keeps of a whole value for the parameter `like`: of a tensor of the whole's shape its part,
    where processes divide the parameter; all else as it is.
    """
    part = None if like is None else like.part
    if part is None or not isinstance(value, Tensor) or tuple(value.shape) != part.whole_shape:
        return value
    return part.of(value)


def whole_of(own: Tensor, part: Part, groups: Sequence[ProcessGroup]) -> Tensor:
    """The whole parameter from the parts of every rank of the groups that divide it, the outermost first. All of them
    call it.
    """
    *outer, group = groups
    with no_grad():
        whole = zeros(part.shape or (1,), dtype=own.dtype, device=own.device)  # a number is a row
        at = 0
        for first, count in part.ranges:
            whole.narrow(part.dim, first, count).copy_(own.detach().narrow(part.dim, at, count))
            at += count
        whole = summed_gradient(whole, group).reshape(part.shape)
        return whole if part.outer is None else whole_of(whole, part.outer, outer)

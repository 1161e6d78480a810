"""The numbers of a quantised matrix, and the tensors that hold them.

Integers that share a scale along a row become one of GGML's block types where that type holds each number exactly:
the integers of 4 bits of AWQ and GPTQ, less their zero point, are the five bits of q5_0, or the four of q4_0 where the
zero points are in the middle. What no block type holds becomes floats of 16 bits, each the nearest to its number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.engine import quant
from pyapp.engine.blocks.layout import BLOCK_TYPES, READABLE, gather
from pyapp.engine.device import cpu
from pyapp.engine.dtype import as_dtype
from pyapp.engine.lazy import np
from pyapp.engine.tensor import adopt_array, empty_contiguous
from pyapp.formats.finite import check_finite

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.engine.device import Device
    from pyapp.engine.tensor import Tensor

PIECE = 1 << 20  # numbers computed together
BLOCK = 32  # numbers of a block
# Block types by the integers that they hold with one scale in float16, the smallest first. Blocks of q2_K are made of
# those of tq2_0, which are for such numbers.
HOLDS = {"q2_K": (-1, 1), "q4_0": (-8, 7), "q5_0": (-16, 15), "q8_0": (-128, 127)}


@dataclass(frozen=True)
class Integers:
    """A matrix (N, K) of scale * (code - zero). codes: a function of the first row and their number that gives codes
    (rows, K) from `lowest` to `highest`. scales: (N, G) float32. zeros: (N, G) integers, or one for all. groups: (K,)
    the column of scales of each column of the matrix; None: each `group` columns share one. halves: whether scales may
    be rounded to float16.
    """

    shape: tuple[int, int]
    codes: Callable[[int, int], Array]
    lowest: int
    highest: int
    scales: Array
    zeros: Any
    group: int
    groups: Array | None = None
    halves: bool = False


@dataclass(frozen=True)
class Floats:
    """A matrix (N, K): a function of the first row and their number that gives float32 (rows, K)."""

    shape: tuple[int, int]
    rows: Callable[[int, int], Array]


@dataclass(frozen=True)
class MxFloats:
    """A matrix (N, K) of E2M1 numbers, of which each 32 share a power of two (OCP Microscaling Formats 1.0): functions
    of the first row and their number that give numbers (rows, K / 2) uint8, the first of two in the low half, and
    exponents (rows, K / 32) uint8.
    """

    shape: tuple[int, int]
    pairs: Callable[[int, int], Array]
    exponents: Callable[[int, int], Array]


Numbers: TypeAlias = Integers | Floats | MxFloats


def exact_type(numbers: Numbers) -> str | None:
    """The block type that holds each number of a matrix; None if there is none."""
    if isinstance(numbers, MxFloats):
        return "mxfp4"
    if isinstance(numbers, Floats) or numbers.groups is not None or numbers.group % BLOCK or numbers.shape[1] % BLOCK:
        return None
    zeros = np.asarray(numbers.zeros)
    lowest, highest = numbers.lowest - int(zeros.max()), numbers.highest - int(zeros.min())
    fitting = [
        name for name, (first, last) in HOLDS.items()
        if first <= lowest and highest <= last
        and numbers.shape[1] % BLOCK_TYPES[name].values == 0 and numbers.group % BLOCK_TYPES[name].values == 0
    ]  # fmt: skip
    if not fitting:
        return None
    with np.errstate(over="ignore"):
        halves = numbers.scales.astype(np.float16)
    return fitting[0] if numbers.halves or np.array_equal(halves, numbers.scales) else "q8_group"


def filled(numbers: Numbers, name: str, dtype: str, device: Device | None, where: str | None) -> Tensor:
    """The matrix (N, K) on a device (None: the CPU), in the block type that holds its numbers, else in `dtype`. With
    `where`, the file's name, ModelError for NaN and infinite numbers of the matrix `name`.
    """
    (rows, columns), place = numbers.shape, device or cpu
    kind = as_dtype(exact_type(numbers) or dtype)
    if where is not None and isinstance(numbers, Integers):
        check_finite(numbers.scales.astype(np.float32).tobytes(), "float32", f"{name} (scales)", where)
    make = quant.empty if kind.is_quantized else empty_contiguous
    result = make((rows, columns), kind, place)
    step = max(1, PIECE // max(columns, 1) // quant.BAND) * quant.BAND
    for first in range(0, rows, step):
        count = min(step, rows - first)
        if kind.is_quantized:
            part = _in_blocks(numbers, kind.name, first, count)
            begin, size = (quant.packed_bytes((n, columns), kind) for n in (first, count))
        else:
            part = adopt_array(_dense(numbers, first, count)).to(kind)
            begin, size = (n * columns * kind.itemsize for n in (first, count))
        data = part._storage.bytes_view()[:size]
        if where is not None and not kind.is_quantized:
            check_finite(data, kind.name, name, where, first * columns)
        result._storage.write(begin, data)
    return result


def _dense(numbers: Numbers, first: int, count: int) -> Array:
    """Rows as float32."""
    if isinstance(numbers, Floats):
        return np.ascontiguousarray(numbers.rows(first, count), np.float32)
    assert isinstance(numbers, Integers)
    scales, zeros = numbers.scales[first : first + count], numbers.zeros
    zeros = zeros if np.ndim(zeros) == 0 else zeros[first : first + count]
    columns = numbers.shape[1]
    groups = numbers.groups if numbers.groups is not None else np.arange(columns) // numbers.group
    codes = numbers.codes(first, count).astype(np.int16)
    codes -= np.int16(zeros) if np.ndim(zeros) == 0 else zeros[:, groups].astype(np.int16)
    return codes.astype(np.float32) * scales[:, groups]


def _in_blocks(numbers: Numbers, kind: str, first: int, count: int) -> Tensor:
    """Rows as a matrix in a block type that holds them."""
    shape = count, numbers.shape[1]
    if isinstance(numbers, MxFloats):
        pairs = numbers.pairs(first, count).reshape(-1, BLOCK // 2)
        each_code = np.stack([pairs & np.uint8(15), pairs >> np.uint8(4)], -1).reshape(-1, BLOCK)
        blocks = _empty_blocks(kind, len(each_code))
        blocks["exponent"], blocks["low"] = numbers.exponents(first, count).reshape(-1), gather(each_code, 16, 4)
        return quant.from_blocks(blocks.tobytes(), shape, kind)
    assert isinstance(numbers, Integers)
    each = np.arange(0, shape[1], BLOCK) // numbers.group  # the column of scales of each block
    scales = numbers.scales[first : first + count][:, each].reshape(-1)
    offset = -HOLDS[kind][0] if kind in ("q2_K", "q4_0", "q5_0") else 0
    codes: Any = numbers.codes(first, count).reshape(count, -1, BLOCK)
    if np.ndim(numbers.zeros) == 0:
        shift: Any = offset - int(numbers.zeros)
    else:
        shift = (offset - numbers.zeros[first : first + count].astype(np.int16))[:, each, None]
    # Sums of bytes wrap around, and the result is one byte.
    codes = (codes.view(np.uint8) + np.asarray(shift).astype(np.uint8)).reshape(-1, BLOCK)
    if kind == "q8_group":
        quants = codes.view(np.int8).reshape(-1)
        return quant.from_groups(quants, np.ascontiguousarray(scales, np.float32), shape, BLOCK)
    if kind == "q2_K":
        blocks = _empty_blocks("tq2_0", codes.size // BLOCK_TYPES[kind].values)
        blocks["d"] = scales[:: BLOCK_TYPES[kind].values // BLOCK]
        blocks["low"] = gather(codes.reshape(len(blocks), -1), 32, 2)
        return quant.from_blocks(blocks.tobytes(), shape, "tq2_0")
    blocks = _empty_blocks(kind, len(codes))
    blocks["d"] = scales
    if kind == "q8_0":
        blocks["low"] = codes.view(np.int8)
    else:
        blocks["low"] = gather(codes & np.uint8(15), 16, 4)
    if kind == "q5_0":
        blocks["high"] = np.packbits(codes >> np.uint8(4), axis=1, bitorder="little")
    return quant.from_blocks(blocks.tobytes(), shape, kind)


def _empty_blocks(kind: str, count: int) -> Array:
    return np.empty(count, np.dtype(list(READABLE[kind].fields)))


# -- numbers in words


def numbers_in(words: Array, bits: int, count: int) -> Array:
    """The numbers of `bits` bits that follow one another in rows of little-endian words: (rows, words) int32 → (rows,
    count) uint8.
    """
    data = np.ascontiguousarray(words).view(np.uint8)  # (rows, bytes)
    if bits == 8:
        return data[:, :count]
    if bits == 4:
        found = np.empty((*data.shape, 2), np.uint8)
        np.bitwise_and(data, 15, out=found[..., 0])
        np.right_shift(data, 4, out=found[..., 1])
        return found.reshape(len(data), -1)[:, :count]
    single = np.unpackbits(data, axis=1, bitorder="little")[:, : count * bits].reshape(len(data), count, bits)
    return np.packbits(single, axis=2, bitorder="little")[..., 0]

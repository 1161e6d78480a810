"""GGML's block types: the bytes of a block, and what reading and writing share.

Source of the layouts: ggml-common.h of https://github.com/ggml-org/ggml (MIT). A row of a matrix is divided into blocks
of 32 or 256 values that share scales. All numbers are little-endian.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.dataclass import dataclass

from ..lazy import np

if TYPE_CHECKING:
    import numpy

    Array: TypeAlias = numpy.ndarray[Any, Any]

CHUNK = 1 << 18  # values computed at a time, to limit the memory of intermediate results


@dataclass(frozen=True, slots=True)
class BlockType:
    """A block of `values` values in `nbytes` bytes. `code` is ggml's number of the type; `fields` are the members of
    its struct, as a NumPy dtype lists them. `shorter`: the type that llama.cpp uses instead where rows are
    not a multiple of 256. `read_as`: the type of tensors for one that only files have (conversion.py).
    """

    code: int
    values: int
    nbytes: int
    fields: tuple[tuple[Any, ...], ...]
    shorter: str = ""
    read_as: str = ""


_D, _M = ("d", "<f2"), ("m", "<f2")


def _u(name: str, count: int) -> tuple[str, str, int]:
    """A field of bytes."""
    return name, "u1", count


BLOCK_TYPES: dict[str, BlockType] = {
    "q4_0": BlockType(2, 32, 18, (_D, _u("low", 16))),
    "q4_1": BlockType(3, 32, 20, (_D, _M, _u("low", 16))),
    "q5_0": BlockType(6, 32, 22, (_D, _u("high", 4), _u("low", 16))),
    "q5_1": BlockType(7, 32, 24, (_D, _M, _u("high", 4), _u("low", 16))),
    "q8_0": BlockType(8, 32, 34, (_D, ("low", "i1", 32))),
    "q8_1": BlockType(9, 32, 36, (_D, ("sum", "<f2"), ("low", "i1", 32))),
    "q2_K": BlockType(10, 256, 84, (_u("scales", 16), _u("low", 64), _D, _M), shorter="q4_0"),
    "q3_K": BlockType(11, 256, 110, (_u("high", 32), _u("low", 64), _u("scales", 12), _D), shorter="q4_0"),
    "q4_K": BlockType(12, 256, 144, (_D, _M, _u("scales", 12), _u("low", 128)), shorter="q5_0"),
    "q5_K": BlockType(13, 256, 176, (_D, _M, _u("scales", 12), _u("high", 32), _u("low", 128)), shorter="q5_1"),
    "q6_K": BlockType(14, 256, 210, (_u("low", 128), _u("high", 64), ("scales", "i1", 16), _D), shorter="q8_0"),
    "q8_K": BlockType(15, 256, 292, (("d", "<f4"), ("low", "i1", 256), ("sums", "<i2", 16))),
    "iq4_nl": BlockType(20, 32, 18, (_D, _u("low", 16))),
    "iq4_xs": BlockType(
        23, 256, 136, (_D, _u("scales_high", 2), _u("scales_low", 4), _u("low", 128)), shorter="iq4_nl"
    ),
    "mxfp4": BlockType(39, 32, 17, (("exponent", "u1"), _u("low", 16))),
}
# Types that only files have.
FILE_TYPES: dict[str, BlockType] = {
    "iq2_xxs": BlockType(16, 256, 66, (_D, ("pairs", "<u4", 16)), read_as="q8_0"),
    "iq2_xs": BlockType(17, 256, 74, (_D, ("codes", "<u2", 32), _u("scales", 8)), read_as="q8_0"),
    "iq3_xxs": BlockType(18, 256, 98, (_D, _u("codes", 64), ("words", "<u4", 8)), read_as="q6_K"),
    "iq1_s": BlockType(19, 256, 50, (_D, _u("low", 32), ("words", "<u2", 8)), read_as="q4_K"),
    "iq3_s": BlockType(
        21, 256, 110, (_D, _u("low", 64), _u("high", 8), _u("signs", 32), _u("scales", 4)), read_as="q4_K"
    ),
    "iq2_s": BlockType(
        22, 256, 82, (_D, _u("low", 32), _u("signs", 32), _u("high", 8), _u("scales", 8)), read_as="q8_0"
    ),
    "iq1_m": BlockType(29, 256, 56, (_u("low", 32), _u("high", 16), ("words", "<u2", 4)), read_as="q6_K"),
    "tq1_0": BlockType(34, 256, 54, (_u("low", 48), _u("high", 4), _D), read_as="q2_K"),
    "tq2_0": BlockType(35, 256, 66, (_u("low", 64), _D), read_as="q2_K"),
    "nvfp4": BlockType(40, 64, 36, (_u("scales", 4), _u("low", 32)), read_as="q8_0"),
    "q1_0": BlockType(41, 128, 18, (_D, _u("low", 16)), read_as="q4_0"),
}
READABLE = BLOCK_TYPES | FILE_TYPES
READ_AS = {name: block.read_as for name, block in FILE_TYPES.items()}
SHORTER = {name: block.shorter for name, block in BLOCK_TYPES.items() if block.shorter}
# The value of each four-bit number, in the non-linear types and in mxfp4 (E2M1, doubled).
IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
MXFP4_VALUES = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


@dataclass(frozen=True, slots=True)
class GgmlBlocks:
    """A tensor in blocks, as files store it: its type `kind` ("q4_0" ...), its logical `shape`, and the blocks row by
    row."""

    kind: str
    shape: tuple[int, ...]
    data: bytes | memoryview

    def __post_init__(self) -> None:
        expected = block_bytes(self.kind, self.shape)
        if memoryview(self.data).nbytes != expected:
            raise ValueError(
                f"a {self.kind} tensor of shape {tuple(self.shape)} needs {expected} bytes, not "
                f"{memoryview(self.data).nbytes}"
            )


def block_bytes(kind: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor in blocks. ValueError if the kind is unknown, or if a row is not a whole number of blocks."""
    block = block_type(kind)
    if not shape or shape[-1] % block.values:
        raise ValueError(f"{kind} needs rows of whole blocks of {block.values} values, not the shape {tuple(shape)}")
    count = 1
    for size in shape:
        count *= size
    return count // block.values * block.nbytes


def block_type(kind: str) -> BlockType:
    if kind not in READABLE:
        raise ValueError(f"unknown block type {kind!r}; known: {', '.join(READABLE)}")
    return READABLE[kind]


# -- Bits


def spread(packed: Array, run: int, bits: int) -> Array:
    """Unpacks numbers of `bits` bits: (n, bytes) → (n, bytes * 8 / bits), uint8.

    Each `run` bytes give 8 / bits runs of `run` numbers: first those in the lowest bits of all bytes, then the next
    bits.
    """
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    runs = packed.reshape(len(packed), -1, 1, run) >> shifts
    return (runs & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def gather(numbers: Array, run: int, bits: int) -> Array:
    """The inverse of `spread`: uint8 numbers (n, count) → (n, count * bits / 8) bytes."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    runs = numbers.reshape(len(numbers), -1, 8 // bits, run) << shifts
    return np.bitwise_or.reduce(runs, axis=2).reshape(len(numbers), -1)


# -- Scales


def single(field: Array) -> Array:
    """A field with one number for each block, as float32 (n, 1)."""
    return field.astype(np.float32)[:, None]


def scaled(scales: Array, values: Array, minimums: Array | None = None) -> Array:
    """scales (n, r) * values (n, ...) - minimums (n, r), where each scale and minimum applies to an r-th of the values
    of a block → (n, values)."""
    table = values.astype(np.float32, copy=False).reshape(*scales.shape, -1) * scales[:, :, None]
    if minimums is not None:
        table -= minimums[:, :, None]
    return table.reshape(len(values), -1)

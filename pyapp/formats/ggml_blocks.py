"""GGML's block types: read to float32, and the legacy ones written, with NumPy.

Source of the layouts: ggml-common.h and ggml-quants.c of https://github.com/ggml-org/ggml (MIT). A row of a matrix is
cut into blocks of 32 or 256 values that share scales. Results equal those of the `gguf` package bit for bit (but for
the payload of a NaN); it has no q8_1 and q8_K, which follow ggml's structs. All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.engine.lazy import np

if TYPE_CHECKING:
    import numpy

    Array: TypeAlias = numpy.ndarray[Any, Any]

CHUNK = 1 << 18  # values computed together: bounds the memory of intermediate results


@dataclass(frozen=True, slots=True)
class BlockType:
    """A block of `values` values in `nbytes` bytes; `fields` are the members of ggml's struct, as NumPy spells them."""

    values: int
    nbytes: int
    fields: tuple[tuple[Any, ...], ...]


_HALF, _BYTES = "<f2", "u1"
BLOCK_TYPES: dict[str, BlockType] = {
    "q4_0": BlockType(32, 18, (("d", _HALF), ("low", _BYTES, 16))),
    "q4_1": BlockType(32, 20, (("d", _HALF), ("m", _HALF), ("low", _BYTES, 16))),
    "q5_0": BlockType(32, 22, (("d", _HALF), ("high", _BYTES, 4), ("low", _BYTES, 16))),
    "q5_1": BlockType(32, 24, (("d", _HALF), ("m", _HALF), ("high", _BYTES, 4), ("low", _BYTES, 16))),
    "q8_0": BlockType(32, 34, (("d", _HALF), ("low", "i1", 32))),
    "q8_1": BlockType(32, 36, (("d", _HALF), ("sum", _HALF), ("low", "i1", 32))),
    "q2_K": BlockType(256, 84, (("scales", _BYTES, 16), ("low", _BYTES, 64), ("d", _HALF), ("m", _HALF))),
    "q3_K": BlockType(256, 110, (("high", _BYTES, 32), ("low", _BYTES, 64), ("scales", _BYTES, 12), ("d", _HALF))),
    "q4_K": BlockType(256, 144, (("d", _HALF), ("m", _HALF), ("scales", _BYTES, 12), ("low", _BYTES, 128))),
    "q5_K": BlockType(
        256, 176, (("d", _HALF), ("m", _HALF), ("scales", _BYTES, 12), ("high", _BYTES, 32), ("low", _BYTES, 128))
    ),
    "q6_K": BlockType(256, 210, (("low", _BYTES, 128), ("high", _BYTES, 64), ("scales", "i1", 16), ("d", _HALF))),
    "q8_K": BlockType(256, 292, (("d", "<f4"), ("low", "i1", 256), ("sums", "<i2", 16))),
    "iq4_nl": BlockType(32, 18, (("d", _HALF), ("low", _BYTES, 16))),
    "iq4_xs": BlockType(
        256, 136, (("d", _HALF), ("scales_high", _BYTES, 2), ("scales_low", _BYTES, 4), ("low", _BYTES, 128))
    ),
    "mxfp4": BlockType(32, 17, (("exponent", _BYTES), ("low", _BYTES, 16))),
}
QUANTIZABLE = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
# The values that four bits stand for: of the non-linear types, and of mxfp4 (E2M1, doubled).
IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
MXFP4_VALUES = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


@dataclass(frozen=True, slots=True)
class GgmlBlocks:
    """A tensor in blocks as a file stores it: `kind` ("q4_0" ...), its logical `shape`, and the blocks row by row."""

    kind: str
    shape: tuple[int, ...]
    data: bytes | memoryview

    def __post_init__(self) -> None:
        expected = block_bytes(self.kind, self.shape)
        if memoryview(self.data).nbytes != expected:
            raise ValueError(
                f"{tuple(self.shape)} of {self.kind} holds {expected} bytes, not {memoryview(self.data).nbytes}"
            )


def block_bytes(kind: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor in blocks. ValueError for an unknown kind, or rows that are not whole blocks."""
    block = _block_type(kind)
    if not shape or shape[-1] % block.values:
        raise ValueError(f"{kind} needs rows of whole blocks of {block.values} values, not the shape {tuple(shape)}")
    count = 1
    for size in shape:
        count *= size
    return count // block.values * block.nbytes


def dequantize_blocks(data: Any, kind: str, out: Array | None = None) -> Array:
    """Blocks (bytes, memoryview or uint8 array) to a flat float32 array, `out` when given.

    ValueError for an unknown kind, or a length that is not one of whole blocks.
    """
    block = _block_type(kind)
    view = memoryview(data).cast("B")
    if len(view) % block.nbytes:
        raise ValueError(f"{kind} blocks have {block.nbytes} bytes: {len(view)} bytes are not whole blocks")
    blocks = np.frombuffer(view, np.dtype(list(block.fields)))
    result = np.empty(len(blocks) * block.values, np.float32) if out is None else out
    if result.shape != (len(blocks) * block.values,) or result.dtype != np.float32:
        raise ValueError(f"out must be float32 of shape ({len(blocks) * block.values},), not {result.shape}")
    table = result.reshape(-1, block.values)
    step = CHUNK // block.values
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(blocks), step):
            table[start : start + step] = _READERS[kind](blocks[start : start + step])
    return result


def quantize_blocks(values: Any, kind: str) -> GgmlBlocks:
    """An array (float, last dimension in whole blocks) in one of the legacy types q4_0 q4_1 q5_0 q5_1 q8_0.

    ValueError for other kinds and shapes, and for NaN or infinite values, which no block can hold.
    """
    if kind not in QUANTIZABLE:
        raise ValueError(f"cannot quantize to {kind}; possible are {', '.join(QUANTIZABLE)}")
    array = np.ascontiguousarray(values, np.float32)
    shape = tuple(int(size) for size in np.shape(values))
    block_bytes(kind, shape)
    if not np.isfinite(array).all():
        raise ValueError(f"cannot quantize NaN or infinite values to {kind}")
    block = BLOCK_TYPES[kind]
    table = array.reshape(-1, block.values)
    result = np.zeros(len(table), np.dtype(list(block.fields)))
    step = CHUNK // block.values
    with np.errstate(all="ignore"):
        for start in range(0, len(table), step):
            _WRITERS[kind](table[start : start + step], result[start : start + step])
    return GgmlBlocks(kind, shape, result.tobytes())


def _block_type(kind: str) -> BlockType:
    if kind not in BLOCK_TYPES:
        raise ValueError(f"unknown block type {kind!r}; known: {', '.join(BLOCK_TYPES)}")
    return BLOCK_TYPES[kind]


# -- bits


def _spread(packed: Array, run: int, bits: int) -> Array:
    """(n, bytes) of packed small numbers to (n, bytes * 8 / bits) uint8.

    Each run of `run` bytes holds 8 / bits runs of as many numbers, those of the lowest bits first.
    """
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    runs = packed.reshape(len(packed), -1, 1, run) >> shifts
    return (runs & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def _single(field: Array) -> Array:
    """One float32 number for each block, as a column."""
    return field.astype(np.float32)[:, None]


def _scaled(scales: Array, values: Array, run: int, minimums: Array | None = None) -> Array:
    """scales (n, r) times values (n, r * run), less minimums (n, r)."""
    table = values.astype(np.float32).reshape(len(values), -1, run) * scales[:, :, None]
    if minimums is not None:
        table -= minimums[:, :, None]
    return table.reshape(len(values), -1)


# -- reading


def _read_legacy(blocks: Array, middle: int) -> Array:
    """4 or 5 bits per value, and either a minimum (`m`) or zero in the middle."""
    values = _spread(blocks["low"], 16, 4)
    if "high" in blocks.dtype.names:
        values = values | _spread(blocks["high"], 1, 1) << np.uint8(4)
    if middle:
        return (values.astype(np.int8) - np.int8(middle)).astype(np.float32) * _single(blocks["d"])
    return values.astype(np.float32) * _single(blocks["d"]) + _single(blocks["m"])


def _read_bytes(blocks: Array) -> Array:
    return blocks["low"].astype(np.float32) * _single(blocks["d"])


def _read_q2_k(blocks: Array) -> Array:
    scales = (blocks["scales"] & np.uint8(15)).astype(np.float32) * _single(blocks["d"])
    minimums = (blocks["scales"] >> np.uint8(4)).astype(np.float32) * _single(blocks["m"])
    return _scaled(scales, _spread(blocks["low"], 32, 2), 16, minimums)


def _read_q3_k(blocks: Array) -> Array:
    packed = blocks["scales"]
    six_bits = _spread(packed[:, :8], 8, 4) | _spread(packed[:, 8:], 4, 2) << np.uint8(4)
    scales = (six_bits.astype(np.int8) - np.int8(32)).astype(np.float32) * _single(blocks["d"])
    values = _spread(blocks["low"], 32, 2) | _spread(blocks["high"], 32, 1) << np.uint8(2)
    return _scaled(scales, values.astype(np.int8) - np.int8(4), 16)


def _scales_and_minimums(blocks: Array) -> tuple[Array, Array]:
    """The eight scales and minimums of q4_K and q5_K, six bits each in twelve bytes, times the block's two numbers."""
    first, second, both = np.split(blocks["scales"], 3, axis=1)
    two, four = np.uint8(2), np.uint8(4)
    low, high = np.uint8(0x3F), np.uint8(0x30)
    scales = np.concatenate([first & low, both & np.uint8(15) | first >> two & high], axis=1)
    minimums = np.concatenate([second & low, both >> four | second >> two & high], axis=1)
    return scales.astype(np.float32) * _single(blocks["d"]), minimums.astype(np.float32) * _single(blocks["m"])


def _read_q4_k(blocks: Array) -> Array:
    scales, minimums = _scales_and_minimums(blocks)
    return _scaled(scales, _spread(blocks["low"], 32, 4), 32, minimums)


def _read_q5_k(blocks: Array) -> Array:
    scales, minimums = _scales_and_minimums(blocks)
    values = _spread(blocks["low"], 32, 4) | _spread(blocks["high"], 32, 1) << np.uint8(4)
    return _scaled(scales, values, 32, minimums)


def _read_q6_k(blocks: Array) -> Array:
    scales = blocks["scales"].astype(np.float32) * _single(blocks["d"])
    values = _spread(blocks["low"], 64, 4) | _spread(blocks["high"], 32, 2) << np.uint8(4)
    return _scaled(scales, values.astype(np.int8) - np.int8(32), 16)


def _read_iq4_nl(blocks: Array) -> Array:
    return np.array(IQ4_VALUES, np.float32)[_spread(blocks["low"], 16, 4)] * _single(blocks["d"])


def _read_iq4_xs(blocks: Array) -> Array:
    six_bits = _spread(blocks["scales_low"], 1, 4) | _spread(blocks["scales_high"], 1, 2) << np.uint8(4)
    scales = (six_bits.astype(np.int8) - np.int8(32)).astype(np.float32) * _single(blocks["d"])
    return _scaled(scales, np.array(IQ4_VALUES, np.float32)[_spread(blocks["low"], 16, 4)], 32)


def _read_mxfp4(blocks: Array) -> Array:
    """The exponent's half, because the values are doubled; its two smallest are subnormal numbers."""
    exponent = blocks["exponent"].astype(np.uint32)
    normal = np.maximum(exponent, np.uint32(1)) - np.uint32(1) << np.uint32(23)
    tiny = np.uint32(0x200000) << np.minimum(exponent, np.uint32(1))
    scale = np.where(exponent < 2, tiny, normal).astype(np.uint32).view(np.float32)
    return np.array(MXFP4_VALUES, np.float32)[_spread(blocks["low"], 16, 4)] * scale[:, None]


_READERS: dict[str, Callable[[Array], Array]] = {
    "q4_0": lambda blocks: _read_legacy(blocks, 8),
    "q4_1": lambda blocks: _read_legacy(blocks, 0),
    "q5_0": lambda blocks: _read_legacy(blocks, 16),
    "q5_1": lambda blocks: _read_legacy(blocks, 0),
    "q8_0": _read_bytes,
    "q8_1": _read_bytes,
    "q2_K": _read_q2_k,
    "q3_K": _read_q3_k,
    "q4_K": _read_q4_k,
    "q5_K": _read_q5_k,
    "q6_K": _read_q6_k,
    "q8_K": _read_bytes,
    "iq4_nl": _read_iq4_nl,
    "iq4_xs": _read_iq4_xs,
    "mxfp4": _read_mxfp4,
}


# -- writing


def _inverse(scale: Array) -> Array:
    return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def _write_legacy(values: Array, blocks: Array, levels: int) -> None:
    """Levels 16 or 32; the value farthest from zero gets the lowest one, or the block's minimum where it has one."""
    if "m" in blocks.dtype.names:
        lowest = values.min(axis=1, keepdims=True)
        scale = (values.max(axis=1, keepdims=True) - lowest) / np.float32(levels - 1)
        exact = (values - lowest) * _inverse(scale) + np.float32(0.5)
        blocks["m"] = lowest[:, 0]
    else:
        farthest = np.take_along_axis(values, np.abs(values).argmax(axis=1, keepdims=True), axis=1)
        scale = farthest / np.float32(-levels // 2)
        exact = values * _inverse(scale) + np.float32(levels / 2 + 0.5)
    # A scale so small that its inverse is infinite: casting what comes of it would differ between machines.
    numbers = np.where(np.isfinite(exact), exact, np.float32(0)).clip(0, levels - 1).astype(np.uint8)
    blocks["d"] = scale[:, 0]
    blocks["low"] = numbers[:, :16] & np.uint8(15) | numbers[:, 16:] << np.uint8(4)
    if "high" in blocks.dtype.names:
        blocks["high"] = np.packbits(numbers >> np.uint8(4), axis=1, bitorder="little")


def _write_q8_0(values: Array, blocks: Array) -> None:
    scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    exact = values * _inverse(scale)
    size = np.abs(exact)
    down = np.floor(size)
    rounded = np.copysign(down + (size - down >= 0.5), exact)  # halves go away from zero, as C's roundf
    blocks["d"] = scale[:, 0]
    blocks["low"] = np.where(np.isfinite(rounded), rounded, np.float32(0)).clip(-127, 127).astype(np.int8)


_WRITERS: dict[str, Callable[[Array, Array], None]] = {
    "q4_0": lambda values, blocks: _write_legacy(values, blocks, 16),
    "q4_1": lambda values, blocks: _write_legacy(values, blocks, 16),
    "q5_0": lambda values, blocks: _write_legacy(values, blocks, 32),
    "q5_1": lambda values, blocks: _write_legacy(values, blocks, 32),
    "q8_0": _write_q8_0,
}

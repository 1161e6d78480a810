"""Converts blocks to float32. Results equal those of the `gguf` package bit for bit, except the payload of a NaN. That
package does not have q8_1 and q8_K; these follow ggml's structs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..lazy import np
from .layout import CHUNK, FILE_TYPES, IQ4_VALUES, MXFP4_VALUES, block_type, scaled, single, spread

if TYPE_CHECKING:
    from .layout import Array


def dequantize_blocks(data: Any, kind: str, out: Array | None = None) -> Array:
    """Converts blocks (bytes, memoryview or uint8 array) to a flat float32 array: `out` if it is given.

    ValueError if the kind is unknown, or if the data is not a whole number of blocks.
    """
    block = block_type(kind)
    view = memoryview(data).cast("B")
    if len(view) % block.nbytes:
        raise ValueError(f"{kind} blocks have {block.nbytes} bytes: {len(view)} bytes are not whole blocks")
    blocks = np.frombuffer(view, np.dtype(list(block.fields)))
    result = np.empty(len(blocks) * block.values, np.float32) if out is None else out
    if result.shape != (len(blocks) * block.values,) or result.dtype != np.float32:
        raise ValueError(f"out must be float32 of shape ({len(blocks) * block.values},), not {result.shape}")
    table, read = result.reshape(-1, block.values), _reader(kind)
    step = CHUNK // block.values
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(blocks), step):
            table[start : start + step] = read(blocks[start : start + step])
    return result


def _reader(kind: str) -> Callable[[Array], Array]:
    """The reader of a type. Those of types that only files have are imported on first use."""
    if kind not in FILE_TYPES:
        return _READERS[kind]
    from .few_bits import parts_of, values_of

    return lambda blocks: values_of(parts_of(kind, blocks))


def _read_legacy(blocks: Array, middle: int) -> Array:
    """Reads numbers of 4 or 5 bits. `middle` is the number that means zero, or 0 for blocks with a minimum (`m`)."""
    values = spread(blocks["low"], 16, 4)
    if "high" in blocks.dtype.names:
        values = values | spread(blocks["high"], 1, 1) << np.uint8(4)
    if middle:
        return (values.astype(np.int8) - np.int8(middle)).astype(np.float32) * single(blocks["d"])
    return values.astype(np.float32) * single(blocks["d"]) + single(blocks["m"])


def _read_bytes(blocks: Array) -> Array:
    return blocks["low"].astype(np.float32) * single(blocks["d"])


def _read_q2_k(blocks: Array) -> Array:
    scales = (blocks["scales"] & np.uint8(15)).astype(np.float32) * single(blocks["d"])
    minimums = (blocks["scales"] >> np.uint8(4)).astype(np.float32) * single(blocks["m"])
    return scaled(scales, spread(blocks["low"], 32, 2), minimums)


def _read_q3_k(blocks: Array) -> Array:
    packed = blocks["scales"]
    six_bits = spread(packed[:, :8], 8, 4) | spread(packed[:, 8:], 4, 2) << np.uint8(4)
    scales = (six_bits.astype(np.int8) - np.int8(32)).astype(np.float32) * single(blocks["d"])
    values = spread(blocks["low"], 32, 2) | spread(blocks["high"], 32, 1) << np.uint8(2)
    return scaled(scales, values.astype(np.int8) - np.int8(4))


def _scales_and_minimums(blocks: Array) -> tuple[Array, Array]:
    """The scales (n, 8) and minimums (n, 8) of q4_K and q5_K: six bits each, in twelve bytes, times the block's d and
    m."""
    first, second, both = np.split(blocks["scales"], 3, axis=1)
    two, four = np.uint8(2), np.uint8(4)
    low, high = np.uint8(0x3F), np.uint8(0x30)
    scales = np.concatenate([first & low, both & np.uint8(15) | first >> two & high], axis=1)
    minimums = np.concatenate([second & low, both >> four | second >> two & high], axis=1)
    return scales.astype(np.float32) * single(blocks["d"]), minimums.astype(np.float32) * single(blocks["m"])


def _read_q4_k(blocks: Array) -> Array:
    scales, minimums = _scales_and_minimums(blocks)
    return scaled(scales, spread(blocks["low"], 32, 4), minimums)


def _read_q5_k(blocks: Array) -> Array:
    scales, minimums = _scales_and_minimums(blocks)
    values = spread(blocks["low"], 32, 4) | spread(blocks["high"], 32, 1) << np.uint8(4)
    return scaled(scales, values, minimums)


def _read_q6_k(blocks: Array) -> Array:
    scales = blocks["scales"].astype(np.float32) * single(blocks["d"])
    values = spread(blocks["low"], 64, 4) | spread(blocks["high"], 32, 2) << np.uint8(4)
    return scaled(scales, values.astype(np.int8) - np.int8(32))


def _read_iq4_nl(blocks: Array) -> Array:
    return np.array(IQ4_VALUES, np.float32)[spread(blocks["low"], 16, 4)] * single(blocks["d"])


def _read_iq4_xs(blocks: Array) -> Array:
    six_bits = spread(blocks["scales_low"], 1, 4) | spread(blocks["scales_high"], 1, 2) << np.uint8(4)
    scales = (six_bits.astype(np.int8) - np.int8(32)).astype(np.float32) * single(blocks["d"])
    return scaled(scales, np.array(IQ4_VALUES, np.float32)[spread(blocks["low"], 16, 4)])


def _read_mxfp4(blocks: Array) -> Array:
    """The scale is half the power of two, because MXFP4_VALUES are doubled. The two smallest scales are subnormal."""
    exponent = blocks["exponent"].astype(np.uint32)
    normal = np.maximum(exponent, np.uint32(1)) - np.uint32(1) << np.uint32(23)
    tiny = np.uint32(0x200000) << np.minimum(exponent, np.uint32(1))
    scale = np.where(exponent < 2, tiny, normal).astype(np.uint32).view(np.float32)
    return np.array(MXFP4_VALUES, np.float32)[spread(blocks["low"], 16, 4)] * scale[:, None]


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

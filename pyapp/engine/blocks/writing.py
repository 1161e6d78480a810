"""Converts float32 to blocks of any type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ..launch import KERNELS
from ..lazy import np
from ..native import IN_BROWSER
from ..tensor import adopt_array
from .layout import BLOCK_TYPES, GgmlBlocks, block_bytes, block_type

if TYPE_CHECKING:
    from .layout import Array

    Writer = Callable[[Array, Array, Array | None], None]

CHUNK = 1 << 16  # values computed at a time: the memory of the search then fits into the second-level cache
QUANTIZABLE = tuple(BLOCK_TYPES)


def _plain(write: Callable[[Array, Array], None]) -> Writer:
    """The writer of a type that does not use importance."""
    return lambda values, blocks, importance: write(values, blocks)


@cache
def _writers() -> dict[str, Writer]:
    """The writer of each type. Writers are imported on first use."""
    from . import k_types, legacy, nonlinear

    def few_bits(levels: int) -> Writer:
        def write(values: Array, blocks: Array, importance: Array | None) -> None:
            if importance is None:
                legacy.write_few_bits(values, blocks, levels)
            else:
                legacy.write_weighted(values, blocks, levels, importance)

        return write

    return {
        "q4_0": few_bits(16),
        "q4_1": few_bits(16),
        "q5_0": few_bits(32),
        "q5_1": few_bits(32),
        "q8_0": _plain(legacy.write_bytes),
        "q8_1": _plain(legacy.write_bytes),
        "q2_K": k_types.write_q2_k,
        "q3_K": k_types.write_q3_k,
        "q4_K": k_types.write_q4_k,
        "q5_K": k_types.write_q5_k,
        "q6_K": k_types.write_q6_k,
        "q8_K": k_types.write_q8_k,
        "iq4_nl": nonlinear.write_iq4_nl,
        "iq4_xs": nonlinear.write_iq4_xs,
        "mxfp4": _plain(nonlinear.write_mxfp4),
    }


def quantize_blocks(values: Any, kind: str, importance: Any = None) -> GgmlBlocks:
    """Quantises a float array, whose rows (last dimension) are whole blocks.

    `importance` (columns,), not negative, weights the errors of each column: the mean of the squared inputs
    (llama.cpp's imatrix). Without it the legacy types (q4_0 to q8_1) equal those of the `gguf` package bit for bit. The
    error of the other types is at most llama.cpp's. ValueError for an unknown kind, rows of partial blocks, and NaN or
    infinite values.
    """
    if kind not in QUANTIZABLE:
        raise ValueError(f"cannot quantize to {kind}; use one of {', '.join(QUANTIZABLE)}")
    array = np.ascontiguousarray(values, np.float32)
    shape = tuple(int(size) for size in np.shape(values))
    nbytes = block_bytes(kind, shape)
    if not np.isfinite(array).all():
        raise ValueError(f"cannot quantize NaN or infinite values to {kind}")
    weights = None if importance is None else _importance(importance, shape[-1])
    result = np.empty(nbytes, np.uint8)
    write = write_by_definition if IN_BROWSER else write_by_kernel
    write(array.reshape(array.size // max(shape[-1], 1), shape[-1]), kind, weights, result)
    return GgmlBlocks(kind, shape, result.tobytes())


def write_by_kernel(x: Array, kind: str, importance: Array | None, result: Array) -> None:
    """Fills `result`, uint8, with the blocks of x (rows, columns), float32 and finite. The page does not have the
    kernel."""
    rows, columns = x.shape
    weights = None if importance is None else adopt_array(importance)
    KERNELS["quantize_blocks"].launch(
        x.size >> 3, adopt_array(result), adopt_array(x), weights, rows, columns, BLOCK_TYPES[kind].code
    )


def write_by_definition(x: Array, kind: str, importance: Array | None, result: Array) -> None:
    """The same in NumPy, with the same bits."""
    block, write = block_type(kind), _writers()[kind]
    weights = None if importance is None else importance.reshape(-1, block.values)
    table, blocks = x.reshape(-1, block.values), result.view(np.dtype(list(block.fields)))
    blocks[...] = np.zeros((), blocks.dtype)
    step = CHUNK // block.values
    with np.errstate(all="ignore"):
        for start in range(0, len(table), step):
            part = table[start : start + step]
            rows = None if weights is None else weights[np.arange(start, start + len(part)) % len(weights)]
            write(part, blocks[start : start + step], rows)


def _importance(importance: Any, columns: int) -> Array:
    """Importance as float32 (columns,) with mean 1. A column whose inputs were all 0 gets a small weight, so that its
    values are not lost. ValueError for a wrong shape, and for negative, infinite or NaN numbers."""
    array = np.ascontiguousarray(importance, np.float32)
    if array.shape != (columns,):
        raise ValueError(f"importance has the shape {array.shape}, expected one number for each of {columns} columns")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError("importance must be finite and not negative")
    mean = array.mean()
    return array / mean + np.float32(1e-6) if mean > 0 else np.ones_like(array)

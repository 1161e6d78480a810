"""Matrices in GGML's blocks, from files into the form that the kernels stream.

Piece by piece: the blocks as they lie in the file are never in memory as a whole. Memory that is touched for the first
time costs more than the packing, and a browser tab has little of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.blocks.layout import BLOCK_TYPES, block_bytes

from .checkpoint import TensorInfo, check_finite, may_be_infinite
from .source import ByteSource, read_into

if TYPE_CHECKING:
    from pyapp.engine.tensor import Tensor

PIECE = 1 << 20  # bytes read together


def read_blocks(source: ByteSource, offset: int, info: TensorInfo, finite: bool) -> Tensor:
    """The matrix `info`, whose blocks begin at byte `offset`. With `finite`, ModelError for a scale that is NaN or
    infinite."""
    from pyapp.engine import quant
    from pyapp.engine.dtype import uint8
    from pyapp.engine.tensor import empty_contiguous

    rows, columns = info.shape
    result = quant.empty(info.shape, info.dtype)
    row_bytes = block_bytes(info.dtype, (1, columns))
    step = max(1, PIECE // row_bytes // quant.BAND) * quant.BAND
    direct = info.dtype not in quant.BANDED  # lies in memory as in files
    scratch = result if direct else empty_contiguous((min(rows, step) * row_bytes,), uint8)
    for first in range(0, rows, step):
        count = min(step, rows - first)
        begin = first * row_bytes if direct else 0
        view = scratch.storage.bytes_view()[begin : begin + count * row_bytes]
        read_into(source, offset + first * row_bytes, view)
        if finite:
            _check_scales(bytes(view), info, first * columns // BLOCK_TYPES[info.dtype].values, source.name)
        if not direct:
            quant.pack_rows(result, first, scratch, count)
    return result


def _check_scales(data: bytes, info: TensorInfo, first: int, where: str) -> None:
    """ModelError for a block whose own numbers are not finite; `first` is the number of the first block in `data`."""
    block = BLOCK_TYPES[info.dtype]
    offset = 0
    for name, spelled, *count in block.fields:
        width = int(spelled[-1])
        if name in ("d", "m"):
            kind = "float16" if width == 2 else "float32"
            if may_be_infinite(data[offset + width - 1 :: block.nbytes], kind):
                found = bytearray(len(data) // block.nbytes * width)
                for i in range(width):
                    found[i::width] = data[offset + i :: block.nbytes]
                check_finite(found, kind, f"{info.name} (scales)", where, first)
        offset += width * (count[0] if count else 1)

"""Block-quantised matrices as rows of bytes, the form in which pyapp stores them in safetensors and PyTorch files.

Neither format has a type for blocks. A matrix (rows, columns) becomes a uint8 tensor (rows, bytes of a row), and a text
beside it names the type: in a safetensors file in the metadata under the tensor's name, in a PyTorch file in the dict
that represents the tensor.

- a type of GGML ("q8_0", "q4_K" …): GGML's blocks, as in GGUF files; if the last block of a q8_0 row is padded with
zeros, the text is "q8_0:columns";
- "q8_group": for each 32 columns 32 int8 and their scale as a little-endian float32.
"""

from __future__ import annotations

from typing import Any

from pyapp.engine import quant
from pyapp.engine.blocks.layout import BLOCK_TYPES
from pyapp.engine.lazy import np
from pyapp.engine.tensor import Tensor, make

from .finite import check_finite

GROUP = "q8_group"
GROUP_COLUMNS, GROUP_BYTES = 32, 36  # of a block of q8_group


def matrix_of_rows(text: str, row_bytes: int) -> tuple[str, int] | None:
    """(type, columns) of a matrix that `text` names and whose rows have `row_bytes` bytes; None if the text names no
    type. ValueError for rows of an impossible size.
    """
    kind, colon, width = text.partition(":")
    if kind != GROUP and kind not in BLOCK_TYPES:
        return None
    values, nbytes = (
        (GROUP_COLUMNS, GROUP_BYTES) if kind == GROUP else (BLOCK_TYPES[kind].values, BLOCK_TYPES[kind].nbytes)
    )
    columns = row_bytes // nbytes * values
    if row_bytes % nbytes:
        raise ValueError(f"rows of {row_bytes:,} bytes are not whole blocks of {kind}")
    if not colon:
        return kind, columns
    if kind != "q8_0" or not width.isdecimal() or len(width) > 18 or not columns - values < int(width) <= columns:
        raise ValueError(f"{text[:50]!r} does not name {columns:,} columns in whole blocks")
    return kind, int(width)


def rows_of_matrix(x: Tensor) -> tuple[str, tuple[int, int], bytes]:
    """The text, the shape and the bytes that represent a block-quantised matrix."""
    quant.check_not_transposed(x, "saving blocks")
    rows, columns = x.shape
    kind = x.dtype.name
    whole = -(-columns // x.dtype.block) * x.dtype.block
    if kind == GROUP:
        data = _group_rows(x)
    else:
        padded = x if whole == columns else make(x._storage, (rows, whole), (whole, 1), x.dtype)
        data = bytes(quant.to_blocks(padded).data)
    return kind if whole == columns else f"{kind}:{columns}", (rows, len(data) // max(rows, 1)), data


def tensor_of_rows(data: Any, text: str, shape: tuple[int, int], name: str, finite: bool, where: str) -> Tensor:
    """The inverse of `rows_of_matrix`. With `finite`, ModelError for a scale that is NaN or infinite."""
    found = matrix_of_rows(text, shape[1])
    assert found is not None
    kind, columns = found
    if kind != GROUP:
        whole = -(-columns // BLOCK_TYPES[kind].values) * BLOCK_TYPES[kind].values
        return narrowed(quant.from_blocks(data, (shape[0], whole), kind), columns)
    blocks = np.frombuffer(data, np.uint8).reshape(-1, GROUP_BYTES)
    quants, scales = (np.ascontiguousarray(part) for part in np.split(blocks, [GROUP_COLUMNS], axis=1))
    if finite:
        check_finite(scales.data.cast("B"), "float32", f"{name} (scales)", where)
    return quant.from_groups(
        np.ascontiguousarray(blocks[:, :GROUP_COLUMNS]), scales, (shape[0], columns), GROUP_COLUMNS
    )


def narrowed(x: Tensor, columns: int) -> Tensor:
    """The matrix without the padding of its last blocks."""
    return x if x.shape[1] == columns else make(x._storage, (x.shape[0], columns), (columns, 1), x.dtype)


def _group_rows(x: Tensor) -> bytes:
    """A packed q8_group matrix (bands of 8 rows; for each 32 columns 8 scales, then for each 4 columns 4 int8 of each
    row: native/kernels.h) as blocks, row after row.
    """
    rows, columns = x.shape
    count, bands = columns // GROUP_COLUMNS, -(-rows // quant.BAND)
    size = quant.packed_bytes((rows, columns), x.dtype)
    packed = np.frombuffer(x._storage.read(0, size), np.uint8).reshape(bands * count, -1)
    blocks = np.empty((bands * count, quant.BAND, GROUP_BYTES), np.uint8)
    blocks[:, :, GROUP_COLUMNS:] = packed[:, : 4 * quant.BAND].reshape(-1, quant.BAND, 4)
    steps = packed[:, 4 * quant.BAND :].reshape(-1, 8, quant.BAND, 4)
    blocks[:, :, :GROUP_COLUMNS] = steps.transpose(0, 2, 1, 3).reshape(-1, quant.BAND, GROUP_COLUMNS)
    ordered = blocks.reshape(bands, count, quant.BAND, GROUP_BYTES).transpose(0, 2, 1, 3)
    rows_first: Any = ordered.reshape(bands * quant.BAND, -1)[:rows]
    return bytes(rows_first.tobytes())

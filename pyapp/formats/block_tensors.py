"""Matrices in GGML's blocks, read from files into the layout of the kernels.

The types of `quant.BANDED` are packed in bands of rows for the kernels: their blocks are read and packed piece by piece
and cannot be mapped. The blocks of the other types have the same layout in memory and in files, and are mapped if
the source supports it. Types that only files have are converted piece by piece to types that the kernels have.
"""

from __future__ import annotations

from pyapp.engine import quant
from pyapp.engine.blocks.layout import BLOCK_TYPES, FILE_TYPES, READ_AS, READABLE, block_bytes
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.engine.device import Device
from pyapp.engine.dtype import as_dtype, float32, uint8
from pyapp.engine.storage import Storage
from pyapp.engine.tensor import Tensor, empty_contiguous, make

from .checkpoint import TensorInfo
from .dense_tensors import read_storage
from .finite import check_finite, may_be_infinite
from .source import ByteSource, read_into

PIECE = 1 << 20  # bytes read together


def read_blocks(
    source: ByteSource, offset: int, info: TensorInfo, finite: bool = False, device: Device | None = None
) -> Tensor:
    """The matrix `info`, whose blocks begin at byte `offset`, on `device` (None: the CPU). Without NumPy, except for
    types that only files have, which become those in layout.READ_AS.

    Tensors that are not matrices become float32. With `finite`, ModelError for a scale that is NaN or infinite.
    """
    if len(info.shape) != 2 or not info.numel:
        return _read_dequantized(source, offset, info, finite, device)
    if info.dtype in FILE_TYPES:
        return _read_converted(source, offset, info, finite, device)
    kind, (rows, columns) = as_dtype(info.dtype), info.shape
    row_bytes = block_bytes(kind.name, (1, columns))
    banded = kind.name in quant.BANDED
    if device is None and not banded:
        storage = read_storage(source, offset, rows * row_bytes, 1)
    else:
        nbytes = quant.packed_bytes(info.shape, kind)
        storage = Storage(nbytes) if device is None else Storage(nbytes, device)
    result = make(storage, (rows, columns), (columns, 1), kind)
    step = max(1, PIECE // row_bytes // quant.BAND) * quant.BAND
    scratch = empty_contiguous((min(rows, step) * row_bytes,), uint8) if banded or device is not None else result
    bands = quant.empty((min(rows, step), columns), kind) if banded and device is not None else None
    for first in range(0, rows, step):
        count = min(step, rows - first)
        begin = first * row_bytes if scratch is result else 0
        view = scratch._storage.bytes_view()[begin : begin + count * row_bytes]
        if scratch is not result:
            read_into(source, offset + first * row_bytes, view)
        elif not finite:
            break  # all data is in memory
        if finite:
            _check_scales(bytes(view), info.name, info.dtype, first * columns, source.name)
        if bands is not None:
            quant.pack_rows(bands, 0, scratch, count)
            size = quant.packed_bytes((count, columns), kind)
            storage.write(quant.packed_bytes((first, columns), kind), bands._storage.bytes_view()[:size])
        elif device is not None:
            storage.write(first * row_bytes, view)
        elif banded:
            quant.pack_rows(result, first, scratch, count)
    return result


def _read_converted(source: ByteSource, offset: int, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
    """A matrix of a type that only files have."""
    from pyapp.engine.blocks.conversion import convert_blocks  # late: few files have such types

    kind, (rows, columns) = READ_AS[info.dtype], info.shape
    row_bytes = block_bytes(info.dtype, (1, columns))
    result = quant.empty(info.shape, kind) if device is None else quant.empty(info.shape, kind, device)
    step = max(1, PIECE // (4 * columns) // quant.BAND) * quant.BAND  # rows: as float32 they have the size of a piece
    for first in range(0, rows, step):
        count = min(step, rows - first)
        data = convert_blocks(source.read(offset + first * row_bytes, count * row_bytes), info.dtype)
        if finite:
            _check_scales(data, info.name, kind, first * columns, source.name)
        part = quant.from_blocks(data, (count, columns), kind)
        size = quant.packed_bytes(part.shape, kind)
        result._storage.write(quant.packed_bytes((first, columns), kind), part._storage.bytes_view()[:size])
    return result


def _read_dequantized(source: ByteSource, offset: int, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
    """A tensor in blocks as float32."""
    tensor = empty_contiguous(info.shape, float32)
    if info.numel:
        block = READABLE[info.dtype]
        out = tensor.array().reshape(-1)
        step = PIECE // block.nbytes
        for first in range(0, info.numel // block.values, step):
            count = min(step, info.numel // block.values - first)
            data = source.read(offset + first * block.nbytes, count * block.nbytes)
            dequantize_blocks(data, info.dtype, out[first * block.values : (first + count) * block.values])
        if finite:
            check_finite(tensor._storage.bytes_view()[: 4 * info.numel], "float32", info.name, source.name)
    return tensor if device is None else tensor.to(device)


def _check_scales(data: bytes, name: str, dtype: str, first: int, where: str) -> None:
    """ModelError for a block whose own numbers are not finite; `first` is the place of the first value in `data`."""
    block = BLOCK_TYPES[dtype]
    offset = 0
    for field, spelled, *count in block.fields:
        width = int(spelled[-1])
        if field in ("d", "m"):
            kind = "float16" if width == 2 else "float32"
            if may_be_infinite(data[offset + width - 1 :: block.nbytes], kind):
                found = bytearray(len(data) // block.nbytes * width)
                for i in range(width):
                    found[i::width] = data[offset + i :: block.nbytes]
                check_finite(found, kind, f"{name} (scales)", where, first // block.values)
        offset += width * (count[0] if count else 1)

"""Tensors stored row by row in a file: mapped if possible, else read."""

from __future__ import annotations

from math import prod

from pyapp.engine.device import Device
from pyapp.engine.dtype import as_dtype
from pyapp.engine.shape import dense_layout
from pyapp.engine.storage import Storage
from pyapp.engine.tensor import Tensor, make

from .checkpoint import TensorInfo
from .finite import check_finite
from .source import ByteSource, read_into

LEAST_MAPPED = 1 << 16  # bytes; smaller tensors are cheaper to copy than to map
PIECE = 1 << 20  # bytes copied to a device at a time


def read_dense(
    source: ByteSource,
    offset: int,
    info: TensorInfo,
    finite: bool = False,
    device: Device | None = None,
    *,
    dtype: str | None = None,
) -> Tensor:
    """The tensor `info`, whose elements begin at byte `offset`, on `device` (None: the CPU).

    `dtype` is the type of the elements if it differs from that of `info`. With `finite`, ModelError for NaN and
    infinite values.
    """
    kind = as_dtype(dtype or info.dtype)
    nbytes = prod(info.shape) * kind.itemsize
    if device is not None:
        storage = _read_to_device(source, offset, nbytes, device, info if finite else None, kind.name)
    else:
        storage = read_storage(source, offset, nbytes, kind.itemsize)
        if finite and nbytes:
            check_finite(storage.bytes_view()[:nbytes], kind.name, info.name, source.name)
    return make(storage, info.shape, dense_layout(info.shape)[1], kind)


def read_storage(source: ByteSource, offset: int, nbytes: int, alignment: int) -> Storage:
    """A range of the source as memory of the CPU: mapped copy-on-write if the source supports it and the range begins
    at a multiple of `alignment` bytes; else read.
    """
    mapped = getattr(source, "mapped", None)
    if nbytes >= LEAST_MAPPED and mapped is not None and (found := mapped(offset, nbytes)) is not None:
        address, owner = found
        if address % alignment == 0:
            return Storage.adopt(address, nbytes, owner)
    storage = Storage(nbytes)
    if nbytes:
        read_into(source, offset, storage.bytes_view()[:nbytes])
    return storage


def _read_to_device(
    source: ByteSource, offset: int, nbytes: int, device: Device, checked: TensorInfo | None, dtype: str
) -> Storage:
    """A range of the source in a device's memory, sent in pieces, so that the CPU never holds all of it."""
    storage = Storage(nbytes, device)
    for begin in range(0, nbytes, PIECE):
        piece = source.read(offset + begin, min(PIECE, nbytes - begin))
        if checked is not None:
            check_finite(piece, dtype, checked.name, source.name, begin // as_dtype(dtype).itemsize)
        storage.write(begin, piece)
    return storage

"""Read elements stored in any order into row-major order, without NumPy."""

from __future__ import annotations

from array import array
from math import prod
from typing import TYPE_CHECKING

from pyapp.engine.device import Device
from pyapp.engine.dtype import as_dtype, int16, int32, int64, uint8
from pyapp.engine.shape import contiguous_strides
from pyapp.engine.storage import Storage
from pyapp.engine.tensor import Tensor, empty_contiguous, make

from .finite import check_finite
from .source import ByteSource, read_into

if TYPE_CHECKING:
    from .checkpoint import TensorInfo

CHUNK = 1 << 20  # bytes swapped at a time
_TYPECODES = {2: "H", 4: "I", 8: "Q"}


def read_strided(
    source: ByteSource, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> Storage:
    """A storage with the elements in row-major order. `offset` (bytes) is that of the first element, `strides`
    (elements) are not negative, `itemsize` is 1, 2, 4, 8 or 16. Reads one range of the source, from the first to the
    last element.
    """
    if not prod(shape):
        return Storage(0)
    # Dims of size 1 do not matter; leaving them out also keeps the rank small.
    dims = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    shape, strides = tuple(size for size, _ in dims), tuple(stride for _, stride in dims)
    span = 1 + sum((size - 1) * stride for size, stride in dims)
    storage = Storage(span * itemsize)
    read_into(source, offset, storage.bytes_view())
    if strides == contiguous_strides(shape):
        return storage
    if itemsize == 16:  # complex128 is read as pairs
        shape, strides = (*shape, 2), (*(2 * stride for stride in strides), 1)
    bits = {1: uint8, 2: int16, 4: int32, 8: int64, 16: int64}[itemsize]
    dense: Storage = make(storage, shape, strides, bits).contiguous()._storage
    return dense


def as_tensor(storage: Storage, info: TensorInfo, finite: bool, device: Device | None, where: str) -> Tensor:
    """The row-major tensor over a storage of `read_strided`, on `device` (None: the CPU). FileFormatError for NaN and
    infinity, if `finite`.
    """
    kind, shape = as_dtype(info.dtype), info.shape
    if finite and info.nbytes:
        check_finite(storage.bytes_view()[: info.nbytes], info.dtype, info.name, where)
    tensor = make(storage, shape, contiguous_strides(shape), kind) if prod(shape) else empty_contiguous(shape, kind)
    return tensor if device is None else tensor.to(device)


def swap_bytes(view: memoryview, itemsize: int) -> None:
    """Turns big-endian elements of 2, 4 or 8 bytes into little-endian ones, in place, 1 MiB at a time."""
    for start in range(0, len(view), CHUNK):
        chunk = array(_TYPECODES[itemsize], bytes(view[start : start + CHUNK]))
        chunk.byteswap()
        view[start : start + CHUNK] = memoryview(chunk).cast("B")

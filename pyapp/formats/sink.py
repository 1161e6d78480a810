"""What the writers share: a file that appears complete or not at all, and a tensor's plain bytes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from pyapp.engine.lazy import np
from pyapp.errors import StorageFullError

AnySink: TypeAlias = "str | os.PathLike[str] | IO[bytes]"


@dataclass(frozen=True, slots=True)
class Deferred:
    """A tensor that is made when its turn to be written comes: its dtype's name (or block type's), its shape, and what
    gives its bytes piece by piece. So a file is written tensor by tensor."""

    dtype: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[bytes | memoryview]]


def write_pieces(file: IO[bytes], name: str, pieces: Iterator[bytes | memoryview], expected: int) -> None:
    """Writes a Deferred's bytes. ValueError when they are not as many as its shape needs."""
    written = sum(file.write(piece) for piece in pieces)
    if written != expected:
        raise ValueError(f"{name!r} gave {written:,} bytes, its shape needs {expected:,}")


@contextmanager
def open_sink(target: AnySink) -> Iterator[IO[bytes]]:
    """A binary file to write to. A path gets its content by renaming a finished neighbour, so readers and interruptions
    never see half a file; an open file is written to where it stands. StorageFullError when the disk is full."""
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = Path(target)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(
                "the disk is full", where=str(path), hint="Free some space, or choose another folder, and try again"
            ) from error
        raise
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def plain(name: str, tensor: Any) -> tuple[str, tuple[int, ...], memoryview]:
    """A tensor's dtype name, shape and little-endian row-major bytes. Takes pyapp Tensors and whatever NumPy makes an
    array of.

    ValueError for block-quantised tensors, TypeError for elements that have no name here (objects, strings).
    """
    from pyapp.engine.tensor import Tensor

    if isinstance(tensor, Tensor):
        if tensor.dtype.is_quantized:
            raise ValueError(f"{name!r} is block-quantised ({tensor.dtype}): write quant.dequantize(tensor) instead")
        dense = tensor.detach().contiguous()
        start = dense.offset * dense.dtype.itemsize
        data = dense.storage.bytes_view()[start : start + dense.nbytes] if dense.numel() else memoryview(b"")
        # The view borrows the storage's memory, which a copy made here would not outlive.
        return dense.dtype.name, tuple(dense.shape), memoryview(bytes(data)) if dense is not tensor else data
    array = np.asarray(tensor)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{name!r} holds {array.dtype} elements, which no format here can store")
    array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return array.dtype.name, array.shape, array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def float32_values(name: str, tensor: Any, shape: tuple[int, ...]) -> Any:
    """The tensor as a dense float32 NumPy array. ValueError when its shape is another."""
    dtype, actual, data = plain(name, tensor)
    if tuple(actual) != shape:
        raise ValueError(f"{name!r} has the shape {tuple(actual)}, expected {shape}")
    if dtype == "bfloat16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype("<f4", copy=False).reshape(shape)

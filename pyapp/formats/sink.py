"""Shared by the writers: atomic writing of files, and the bytes of a tensor."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.engine.tensor import Tensor
from pyapp.errors import NO_ROOM, PyappError, StorageFullError

SYNCHRONIZE, ERROR_ACCESS_DENIED = 0x100000, 5  # of Windows

AnySink: TypeAlias = "str | os.PathLike[str] | IO[bytes]"


@dataclass(frozen=True, slots=True)
class Deferred:
    """A tensor that is computed when it is written: the name of its dtype or block type, its shape, and a function that
    yields its bytes piece by piece. A file of such tensors is never in memory as a whole.
    """

    dtype: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[bytes | memoryview]]


def write_pieces(file: IO[bytes], name: str, pieces: Iterator[bytes | memoryview], expected: int) -> None:
    """Writes a Deferred's bytes. ValueError if their number does not fit its shape."""
    written = sum(file.write(piece) for piece in pieces)
    if written != expected:
        raise ValueError(f"{name!r} gave {written:,} bytes, its shape needs {expected:,}")


@contextmanager
def open_sink(target: AnySink) -> Iterator[IO[bytes]]:
    """A binary file to write to; StorageFullError when the disk is full.

    The file at a path appears in one step at the end, so that no reader or interruption finds half a file. On Linux an
    interrupted write leaves nothing behind; elsewhere the next write into the folder removes the remains. The file
    that a symbolic link names is written, and an old file's access rights stay; a read-only one is a PermissionError.
    An open file, a pipe or a device is written to directly.
    """
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = Path(target)
    try:
        path = Path(os.path.realpath(path)) if path.is_symlink() else path
        rights = None
        if path.exists():
            if not path.is_file():
                with open(path, "wb") as file:  # a folder raises IsADirectoryError
                    yield file
                return
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, "the file is read-only", str(path))
            rights = path.stat().st_mode & 0o777
        partial = path.with_name(f".pyapp.{os.getpid()}.{os.urandom(4).hex()}.partial")
        try:
            with _new_file(partial) as file:
                yield file
                file.flush()
                if rights is not None and hasattr(os, "fchmod"):
                    os.fchmod(file.fileno(), rights)
                os.fsync(file.fileno())
                if isinstance(file.name, int):  # it has no name yet
                    # A folder descriptor, which an absolute path ignores, makes Python follow the link in /proc.
                    os.link(f"/proc/self/fd/{file.name}", partial, src_dir_fd=file.name)
            os.replace(partial, path)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not path.parent.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, f"there is no folder {str(path.parent)!r} to write to", str(path)
            ) from None
        if error.filename is not None and str(error.filename).endswith(".partial"):
            error.filename = str(path)
            del error.filename2  # None would be told
        elif error.filename is None and not isinstance(error, PyappError):  # a write that failed does not say where
            error.filename = str(path)
        with full_disk_named(path):
            raise


@contextmanager
def full_disk_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """A context in which the error of a full disk is a StorageFullError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM or isinstance(error, PyappError):
            raise
        full, hint = "the disk is full", "Free some space, or choose another folder, and try again"
        if error.errno == errno.EFBIG:
            full, hint = "file too large", "Choose another disk, or raise the limit: ulimit -f"
        raise StorageFullError(full, where=os.fspath(path), hint=hint) from error


def _new_file(partial: Path) -> IO[bytes]:
    """A file in the folder of `partial`: without a name if the system supports it (Linux), so that it vanishes with the
    process; else `partial` itself.
    """
    flag = getattr(os, "O_TMPFILE", 0) if sys.platform == "linux" else 0
    if flag and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # a file system without unnamed files
            return open(os.open(partial.parent, flag | os.O_RDWR, 0o666), "wb")
    for left in partial.parent.glob(".pyapp.*.*.partial"):
        number = left.name.split(".")[2]
        if number.isdecimal() and not _is_running(int(number)):
            with suppress(OSError):
                left.unlink()
    return open(partial, "wb")


def _is_running(process: int) -> bool:
    if os.name == "nt":  # os.kill would end it
        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined,unused-ignore]
        kernel32.OpenProcess.restype = ctypes.c_void_p
        handle = kernel32.OpenProcess(SYNCHRONIZE, False, process)
        if handle is None:  # none, or another user's
            return bool(ctypes.get_last_error() == ERROR_ACCESS_DENIED)  # type: ignore[attr-defined,unused-ignore]
        ended = kernel32.WaitForSingleObject(ctypes.c_void_p(handle), 0) == 0
        kernel32.CloseHandle(ctypes.c_void_p(handle))
        return not ended
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def in_order(target: Any, tensors: Any, function: str) -> tuple[Any, Any]:
    """(target, tensors), which may be passed in either order. TypeError if `tensors` is not a mapping."""
    if isinstance(target, Mapping) and not isinstance(tensors, Mapping):
        target, tensors = tensors, target
    if not isinstance(tensors, Mapping):
        hint = "; give its state_dict()" if hasattr(tensors, "state_dict") else ""
        raise TypeError(f"{function}: tensors must map names to tensors, got {type(tensors).__name__}{hint}")
    if not isinstance(target, (str, os.PathLike)) and not callable(getattr(target, "write", None)):
        raise TypeError(f"{function}: the target must be a path or a binary file, got {type(target).__name__}")
    return target, tensors


def is_quantized(tensor: Any) -> bool:
    """Whether it is a pyapp tensor in a block format."""
    return isinstance(tensor, Tensor) and tensor.dtype.is_quantized


class _Bytes:
    """Lets NumPy view the bytes of a dense tensor, whose memory the view keeps alive."""

    def __init__(self, dense: Tensor) -> None:
        self.storage = dense._storage
        place = (dense.address, True)
        self.__array_interface__ = {"version": 3, "data": place, "typestr": "|u1", "shape": (dense.nbytes,)}


def plain(name: str, tensor: Any) -> tuple[str, tuple[int, ...], memoryview]:
    """A tensor's dtype name, shape and little-endian row-major bytes. Takes pyapp Tensors and anything that NumPy can
    convert to an array.

    ValueError for block-quantised tensors, TypeError for elements without a dtype (objects, strings).
    """
    if isinstance(tensor, Tensor):
        if tensor.dtype.is_quantized:
            raise ValueError(
                f"{name!r} is block-quantised ({tensor.dtype}): write it with write_gguf, write_safetensors or save, "
                "or write quant.dequantize(tensor)"
            )
        dense = tensor.detach().contiguous()
        if not dense.numel():
            return dense.dtype.name, tuple(dense.shape), memoryview(b"")
        if dense.device.backend.host_visible:
            return dense.dtype.name, tuple(dense.shape), np.asarray(_Bytes(dense)).data
        start = dense.offset * dense.dtype.itemsize
        return dense.dtype.name, tuple(dense.shape), memoryview(dense._storage.read(start, dense.nbytes))
    array = np.asarray(tensor)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{name!r} holds {array.dtype} elements, which no format here can store")
    array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return array.dtype.name, array.shape, array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def float32_values(name: str, tensor: Any, shape: tuple[int, ...]) -> Any:
    """The tensor as a dense float32 NumPy array. ValueError if its shape differs."""
    dtype, actual, data = plain(name, tensor)
    if tuple(actual) != shape:
        raise ValueError(f"{name!r} has the shape {tuple(actual)}, expected {shape}")
    if dtype == "bfloat16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype("<f4", copy=False).reshape(shape)

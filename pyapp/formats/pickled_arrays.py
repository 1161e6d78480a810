"""NumPy's arrays and scalars in the pickles of PyTorch files, for `safe_pickle`.

Source of the format: ndarray.__reduce__, dtype.__reduce__ and scalar in numpy/_core/src/multiarray of
https://github.com/numpy/numpy. An array is _reconstruct(ndarray, (0,), b"b") with the state (1, shape, dtype, fortran,
bytes); with protocol 5 _frombuffer(bytes, dtype, shape, order). Arrays of objects, strings and records are refused.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any

from pyapp.engine.dtype import DTYPES

from .numpy_files import DTYPE_CODES
from .row_major import swap_bytes
from .safe_pickle import Builder, Stateful

RANK_LIMIT = 64
NDARRAY = object()


class PickledDType(Stateful):
    """A dtype: its code, and its byte order, which its state sets."""

    def __init__(self, code: Any, *_: Any) -> None:
        if type(code) is not str or len(code) > 50:
            raise ValueError("not a dtype's code")
        self.name = DTYPE_CODES.get(code.lstrip("<>|="), "")  # "" for elements that are not numbers
        self.itemsize = int(code.lstrip("<>|=")[1:]) if self.name else 0
        self.big_endian = code[:1] == ">"

    def set_state(self, state: Any) -> None:
        if type(state) is not tuple or len(state) < 2 or type(state[1]) is not str:
            raise ValueError("not a dtype's state")
        self.big_endian = state[1] == ">"


class PickledArray(Stateful):
    """An array. Its dtype is "" before its state is set, and for elements that are not numbers."""

    def __init__(self) -> None:
        self.dtype = ""
        self.shape: tuple[int, ...] = ()
        self.fortran = False
        self.data = b""

    def set_state(self, state: Any) -> None:
        if type(state) is not tuple or len(state) != 5:
            raise ValueError("not an array's state")
        _, shape, dtype, fortran, data = state
        self.fill(shape, dtype, bool(fortran), data)

    def fill(self, shape: Any, dtype: Any, fortran: bool, data: Any) -> None:
        """ValueError unless the bytes are those of the shape."""
        if type(dtype) is not PickledDType or type(shape) is not tuple or len(shape) > RANK_LIMIT:
            raise ValueError("not an array's dtype and shape")
        if not dtype.name:
            return
        if not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
            raise ValueError("not an array's shape")
        count = dtype.itemsize * prod(shape)
        if dtype.itemsize * prod(size for size in shape if size) >= 1 << 63:  # of an empty one, too: NumPy refuses it
            raise ValueError("a shape that no array has")
        if type(data) is not bytes or count != len(data):
            raise ValueError("not the bytes of an array's shape")
        unit = dtype.itemsize // 2 if dtype.name.startswith("complex") else dtype.itemsize
        if dtype.big_endian and unit > 1:
            swapped = bytearray(data)
            swap_bytes(memoryview(swapped), unit)
            data = bytes(swapped)
        self.dtype, self.shape, self.fortran, self.data = dtype.name, shape, fortran, data


def _reconstruct(kind: Any, *_: Any) -> PickledArray:
    if kind is not NDARRAY:
        raise ValueError("not an array")
    return PickledArray()


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any, *_: Any) -> PickledArray:
    found = PickledArray()
    found.fill(shape, dtype, order == "F", data)
    return found


def _scalar(dtype: Any, data: Any = b"") -> Any:
    """A number; None for complex numbers, and for scalars that are no numbers."""
    if type(dtype) is not PickledDType or type(data) is not bytes:
        raise ValueError("not a scalar's arguments")
    code = "e" if dtype.name == "float16" else DTYPES[dtype.name].format if dtype.name else ""
    if not code:
        return None
    if len(data) != dtype.itemsize:
        raise ValueError("not a scalar's bytes")
    return struct.unpack((">" if dtype.big_endian else "<") + code, data)[0]


def _bytes(*arguments: Any) -> bytes:
    """bytes(): the spelling of empty bytes in protocol 2."""
    if arguments:
        raise ValueError("not empty bytes")
    return b""


def _encode(text: Any, encoding: Any = "") -> bytes:
    """_codecs.encode(text, "latin1"): the spelling of bytes in protocol 2."""
    if type(text) is not str or encoding != "latin1":
        raise ValueError("not bytes")
    return text.encode("latin-1")


KNOWN: dict[str, Any] = {
    "_codecs.encode": Builder("encode", _encode),
    "__builtin__.bytes": Builder("bytes", _bytes),
    "builtins.bytes": Builder("bytes", _bytes),
    "numpy.dtype": Builder("dtype", PickledDType),
    "numpy.ndarray": NDARRAY,
    **{
        f"numpy.{core}.{name}": Builder(name.rpartition(".")[2], call)
        for core in ("core", "_core")
        for name, call in (
            ("multiarray._reconstruct", _reconstruct),
            ("multiarray.scalar", _scalar),
            ("numeric._frombuffer", _from_buffer),
        )
    },
}

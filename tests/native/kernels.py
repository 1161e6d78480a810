"""Drives single kernels of the native library with NumPy arrays: packs one launch record and runs it.

`PYAPP_LIBRARY` names another library than pyapp/_native/libpyapp.so. With the sanitizers:

    python native/build.py host --sanitize
    ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)" \
        PYAPP_LIBRARY=build/sanitized/libpyapp.so python -m pytest tests/native
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("PYAPP_LIBRARY", ROOT / "pyapp" / "_native" / "libpyapp.so"))
INSTRUCTION_SETS = ("baseline", "avx2", "avx512", "neon", "dotprod", "simd128", "relaxed")
SIZES = (0, 1, 3, 4, 31, 33)
OK, INDEX_RANGE, POSITION_RANGE, BAD_ARGUMENT, CANCELLED, DIVISION_BY_ZERO, SINGULAR, NOT_POSITIVE = range(8)


class Launch(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_int32),
        ("work", ctypes.c_int32),
        ("pointers", ctypes.c_void_p * 8),
        ("dims", ctypes.c_int64 * 24),
        ("floats", ctypes.c_float * 4),
    ]


def read_header() -> dict[str, tuple[int, list[str], list[str], list[str]]]:
    """Kernel name to (index, pointer names, dim names, float names), from the lines of kernels.h."""
    text = (ROOT / "native" / "kernels.h").read_text().replace("\\\n", " ")
    kernels = {}
    for index, match in enumerate(re.finditer(r'KERNEL\((\w+),((?:\s*"[^"]*")+)\)', text)):
        signature = "".join(re.findall(r'"([^"]*)"', match[2]))
        pointers, dims, floats = (group.split() for group in signature.split("|"))
        kernels[match[1]] = (index, [name.rstrip("?") for name in pointers], dims, floats)
    return kernels


def read_types() -> list[str]:
    """Element types in the order of their codes, from the ELEMENT lines of kernels.h."""
    return re.findall(r"^ELEMENT\((\w+), \d+\)", (ROOT / "native" / "kernels.h").read_text(), re.MULTILINE)


def read_opcodes(kernel: str) -> dict[str, tuple[list[str], str]]:
    """A kernel's operations in the order of their codes, each with (operand types, result), from the OPCODE lines."""
    text = (ROOT / "native" / "kernels.h").read_text()
    groups = {
        "floats": ["float16", "bfloat16", "float32", "float64"],
        "integers": ["uint8", "int8", "int16", "int32", "int64"],
        "every": read_types(),
    }
    lines = re.findall(rf'^OPCODE\({kernel}, (\w+), "([^"]*)", "([^"]*)"\)', text, re.MULTILINE)
    return {name: (sum((groups.get(w, [w]) for w in types.split()), []), result) for name, types, result in lines}


HEADER = read_header()
CUDA_KERNELS = set(
    re.findall(r"^CUDA_KERNEL\((\w+),", (ROOT / "native" / "kernels.h").read_text(), re.MULTILINE)
)  # those that the library does not have
TYPES = {name: code for code, name in enumerate(read_types())}


class Kernels:
    """One copy of the library, held to one instruction set."""

    def __init__(self, path: Path, instruction_set: str | None = None) -> None:
        before = os.environ.get("PYAPP_INSTRUCTION_SET")
        if instruction_set:
            os.environ["PYAPP_INSTRUCTION_SET"] = instruction_set
        try:
            self.library = ctypes.CDLL(str(path))
            self.library.pyapp_instruction_set.restype = ctypes.c_char_p
            self.library.pyapp_signature.restype = ctypes.c_char_p
            self.library.pyapp_allocate.restype = ctypes.c_void_p
            self.library.pyapp_allocate.argtypes = [ctypes.c_ssize_t]
            self.library.pyapp_free.argtypes = [ctypes.c_void_p]
            self.library.pyapp_run.argtypes = [ctypes.c_void_p, ctypes.c_int32]
            self.name = self.library.pyapp_instruction_set().decode()
        finally:
            if instruction_set:
                os.environ.pop("PYAPP_INSTRUCTION_SET")
                if before is not None:
                    os.environ["PYAPP_INSTRUCTION_SET"] = before

    def record(self, kernel: str, work: int = 1000, **arguments: Any) -> Launch:
        """A launch record; arguments by the names in kernels.h, arrays for pointers (missing ones are NULL or 0)."""
        index, pointers, dims, floats = HEADER[kernel]
        if unknown := arguments.keys() - {*pointers, *dims, *floats}:
            raise TypeError(f"{kernel} has no argument {', '.join(unknown)}")
        launch = Launch(index, work)
        launch.arguments = arguments  # keeps the arrays alive
        for i, name in enumerate(pointers):
            value = arguments.get(name)
            launch.pointers[i] = value.ctypes.data if isinstance(value, np.ndarray) else value
        for i, name in enumerate(dims):
            launch.dims[i] = arguments.get(name, 0)
        for i, name in enumerate(floats):
            launch.floats[i] = arguments.get(name, 0.0)
        return launch

    def run(self, kernel: str, work: int = 1000, **arguments: Any) -> int:
        """Runs one record; returns 0 or its KERNEL_* code."""
        launch = self.record(kernel, work, **arguments)
        return int(self.library.pyapp_run(ctypes.byref(launch), 1))

    def run_all(self, records: list[Launch]) -> int:
        return int(self.library.pyapp_run((Launch * len(records))(*records), len(records)))


def load_all(folder: Path) -> list[Kernels]:
    """The library once for each instruction set that it has on this machine: copies, as a library chooses once."""
    found = []
    for name in INSTRUCTION_SETS:
        copy = folder / f"{name}-{LIBRARY.name}"
        shutil.copyfile(LIBRARY, copy)
        kernels = Kernels(copy, name)
        if kernels.name == name:
            found.append(kernels)
    return found


def unaligned(array: np.ndarray) -> np.ndarray:
    """A contiguous copy whose first element lies one element past a 64-byte boundary."""
    return _placed(array, array.dtype.itemsize)


def aligned(array: np.ndarray) -> np.ndarray:
    """A contiguous copy that begins at a 64-byte boundary."""
    return _placed(array, 0)


def _placed(array: np.ndarray, past: int) -> np.ndarray:
    memory = np.zeros(array.nbytes + 64 + past, np.uint8)
    start = -memory.ctypes.data % 64 + past
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def to_bf16(x: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, rounded to nearest even; not for NaN."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def store_as(dtype: str, values: np.ndarray) -> np.ndarray:
    """Numbers as an array of an element type; bfloat16 as its bits."""
    if dtype == "bfloat16":
        return to_bf16(values.astype(np.float32))
    return values.astype(dtype)


def values_of(dtype: str, array: np.ndarray) -> np.ndarray:
    """The numbers that an array of an element type holds: bfloat16's as float32."""
    return from_bf16(array) if dtype == "bfloat16" else array


def number_bits(dtype: str, value: float) -> int:
    """A number as kernels take it in an int64 slot: the bits of a float64 for float types, else the integer."""
    return struct.unpack("q", struct.pack("d", value))[0] if "float" in dtype else int(value)


def dims(prefix: str, values: Sequence[int]) -> dict[str, int]:
    """{"shape0": .., "shape1": ..} of a sequence."""
    return {f"{prefix}{i}": int(value) for i, value in enumerate(values)}


def element_strides(array: np.ndarray) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]

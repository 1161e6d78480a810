"""The native library: found, loaded with ctypes and checked against kernels.h, from which every kernel's slots are
read.

In a browser it is loaded when a kernel is first run: the page takes its memory snapshot of Python, with these modules
imported, before that.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import KernelError

POINTERS, DIMS, FLOATS = 8, 24, 4
POINTER_BYTES = struct.calcsize("P")
IN_BROWSER = sys.platform == "emscripten"
FOLDER = Path(__file__).resolve().parent.parent / "_native"

# A module of one function with an i32x4.relaxed_dot_i8x16_i7x16_add: valid where relaxed SIMD is on.
RELAXED_PROBE = bytes.fromhex("0061736d010000000105016000017b030201000a130111004100fd0f4100fd0f4100fd0ffd93020b")
_MEANING = {
    1: "an index (a token id, a target) is out of range",
    2: "the position is outside the cache",
    3: "an argument is not usable (NaN, or a kernel that this build lacks)",
    4: "cancelled",
}
_ADVICE = "Build it with `python native/build.py host`, or install the package with pip (a C compiler is needed)."


class Kernel:
    """One kernel: its index and a packer that writes a launch record with just the slots the kernel uses."""

    __slots__ = ("arguments", "index", "name", "pack_into")

    def __init__(self, index: int, name: str, signature: str) -> None:
        groups = [group.split() for group in signature.split("|")]
        pointers, dims, floats = (len(group) for group in groups)
        layout = f"@ii{pointers}P{(POINTERS - pointers) * POINTER_BYTES}x{dims}q{(DIMS - dims) * 8}x{floats}f"
        self.index = index
        self.name = name
        self.arguments = [argument for group in groups for argument in group]
        self.pack_into = struct.Struct(layout + f"{(FLOATS - floats) * 4}x").pack_into

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.arguments)})>"


RECORD_BYTES = struct.calcsize(f"@ii{POINTERS}P{DIMS}q{FLOATS}f0q")


def read_kernels(header: str) -> dict[str, Kernel]:
    """Kernels by name from the text of kernels.h; C string pieces that stand side by side are joined."""
    found = re.findall(r'KERNEL\((\w+),((?:[\s\\]*"[^"]*")+)\)', header)
    return {
        name: Kernel(index, name, "".join(re.findall(r'"([^"]*)"', text))) for index, (name, text) in enumerate(found)
    }


def signature_of(header: bytes) -> str:
    """Hexadecimal FNV-1a 64 of the header (http://www.isthe.com/chongo/tech/comp/fnv/)."""
    value = 0xCBF29CE484222325
    for byte in header:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def has_relaxed_simd() -> bool:
    """Whether this browser runs relaxed SIMD."""
    from js import Uint8Array, WebAssembly

    return bool(WebAssembly.validate(Uint8Array.new(RELAXED_PROBE)))


def library_path() -> Path:
    """PYAPP_LIBRARY when set; in a browser the fastest build that it can run."""
    override = os.environ.get("PYAPP_LIBRARY")
    if override:
        return Path(override)
    if not IN_BROWSER:
        return FOLDER / "libpyapp.so"
    relaxed = FOLDER / "libpyapp_relaxed.so"
    return relaxed if relaxed.exists() and has_relaxed_simd() else FOLDER / "libpyapp_simd.so"


def read_header() -> bytes:
    """kernels.h, which lies beside the library; KernelError where it does not."""
    path = FOLDER / "kernels.h" if IN_BROWSER else library_path().with_name("kernels.h")
    if not path.exists():
        raise KernelError("the native kernels are not there", where=str(path), hint=_ADVICE)
    return path.read_bytes()


def load_library(signature: str) -> ctypes.CDLL:
    """The library with its functions typed. KernelError when it is missing or of another version."""
    path = library_path()
    if not path.exists():
        raise KernelError("the native kernels are not there", where=str(path), hint=_ADVICE)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise KernelError(f"the native kernels do not load: {error}", where=str(path), hint=_ADVICE) from error
    library.pyapp_signature.restype = ctypes.c_char_p
    if library.pyapp_signature().decode() != signature:
        raise KernelError("the library was built from another kernels.h", where=str(path), hint=_ADVICE)
    library.pyapp_instruction_set.restype = ctypes.c_char_p
    library.pyapp_allocate.restype = ctypes.c_void_p
    if not IN_BROWSER:  # in wasm addresses are plain 32-bit integers, and untyped calls cost a fifth
        library.pyapp_run.argtypes = (ctypes.c_void_p, ctypes.c_int32)
        library.pyapp_allocate.argtypes = (ctypes.c_ssize_t,)
        library.pyapp_free.argtypes = (ctypes.c_void_p,)
    return library


class Library:
    """The library's functions as attributes; the first that is asked for loads it."""

    def __init__(self, signature: str) -> None:
        self._signature = signature
        self._loaded: ctypes.CDLL | None = None

    def load(self) -> None:
        if self._loaded is None:
            self._loaded = load_library(self._signature)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.load()
        value = getattr(self._loaded, name)
        setattr(self, name, value)  # the next time it is found without coming here
        return value


_header = read_header()
library = Library(signature_of(_header))
KERNELS = read_kernels(_header.decode())
if not IN_BROWSER:
    library.load()


def instruction_set() -> str:
    """The instruction set that was chosen for this machine: "avx512", "avx2", "baseline", "neon", "simd128" or
    "relaxed".
    """
    return str(library.pyapp_instruction_set().decode())


def set_num_threads(threads: int) -> None:
    """Workers of the kernels (not of BLAS), 1 to 64. Results do not depend on it."""
    if not 1 <= threads <= 64:
        raise ValueError(f"set_num_threads: {threads} is not between 1 and 64")
    library.pyapp_set_threads(threads)


def get_num_threads() -> int:
    """Workers of the kernels."""
    return int(library.pyapp_threads())


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Within, kernels take denormal numbers (below 1.2e-38) for zero, in all threads: processors compute with them many
    times as slowly, and a network that is sure of itself makes many. Does nothing in a browser.
    """
    before = library.pyapp_flush_denormals(1)
    try:
        yield
    finally:
        library.pyapp_flush_denormals(before)


def fail(status: int, name: str) -> None:
    """Raises what a non-zero status of pyapp_run means."""
    code = status & 0xFF
    if code in (1, 2):
        raise IndexError(f"{name}: {_MEANING[code]}")
    raise KernelError(_MEANING.get(code, f"unknown status {code}"), where=f"kernel {name}")

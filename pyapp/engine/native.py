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
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import KernelError, LinAlgError

POINTERS, DIMS, FLOATS = 8, 24, 4
MOST_THREADS = 64
POINTER_BYTES = struct.calcsize("P")
IN_BROWSER = sys.platform == "emscripten"
FOLDER = Path(__file__).resolve().parent.parent / "_native"

# A module of one function with an i32x4.relaxed_dot_i8x16_i7x16_add: valid where relaxed SIMD is on.
RELAXED_PROBE = bytes.fromhex("0061736d010000000105016000017b030201000a130111004100fd0f4100fd0f4100fd0ffd93020b")
INDEX_OUT_OF_RANGE = "index out of range in self: an index (a token id, a target) is out of range"
_MEANING = {
    1: INDEX_OUT_OF_RANGE,
    2: "the position is outside the cache",
    3: "an argument is not usable (NaN, or a kernel that this build lacks)",
    4: "cancelled",
    5: "an integer is divided by zero",
    6: "the matrix is singular",
    7: "the matrix is not positive-definite",
    255: "a thread of the page has failed: the engine must be started anew",
}
_ADVICE = "Build it with `python native/build.py host`, or install the package with pip (a C compiler is needed)."


RECORD = struct.Struct(f"@ii{POINTERS}P{DIMS}q{FLOATS}f0q")  # a launch: kernel, work, pointers, dims, floats
RECORD_BYTES = RECORD.size


def read_signatures(header: str) -> dict[str, str]:
    """The signature "pointers | dims | floats" of each kernel by name, in the order of their indices, from the text of
    kernels.h; C string pieces that stand side by side are joined."""
    found = re.findall(r'KERNEL\((\w+),((?:[\s\\]*"[^"]*")+)\)', header)
    return {name: "".join(re.findall(r'"([^"]*)"', text)) for name, text in found}


def read_opcodes(header: str) -> dict[str, list[tuple[str, str, str]]]:
    """The operations (name, types, result) of each kernel that has several, in the order of their codes."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for kernel, *operation in re.findall(r'^OPCODE\((\w+), (\w+), "([^"]*)", "([^"]*)"\)', header, re.MULTILINE):
        found.setdefault(kernel, []).append(tuple(operation))
    return found


def read_signature(header: bytes) -> str:
    """The hexadecimal CRC-32 of kernels.h, which in a browser the build has computed (native/build.py)."""
    return (FOLDER / "kernels.signature").read_text() if IN_BROWSER else f"{zlib.crc32(header):08x}"


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
    relaxed = FOLDER / "libpyapp_relaxed.wasm"
    return relaxed if relaxed.exists() and has_relaxed_simd() else FOLDER / "libpyapp_simd.wasm"


def read_header() -> bytes:
    """kernels.h, which lies beside the library, in a browser without its comments; KernelError where it does not."""
    path = FOLDER / "declarations.h" if IN_BROWSER else library_path().with_name("kernels.h")
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
    # Short kernels run with Python's lock held: giving it up and taking it again costs more than they do. The record is
    # a bytes object, which needs no declared type.
    vars(library)["pyapp_run_short"] = ctypes.PyDLL(str(path)).pyapp_run_short
    if not IN_BROWSER:  # in wasm addresses are plain 32-bit integers, and untyped calls cost a fifth
        library.pyapp_run.argtypes = (ctypes.c_void_p, ctypes.c_int32)
        library.pyapp_allocate.argtypes = (ctypes.c_ssize_t,)
        library.pyapp_free.argtypes = (ctypes.c_void_p,)
    return library


def threads_of_environment() -> int | None:
    """How many threads PYAPP_NUM_THREADS asks for, else OMP_NUM_THREADS (of a list, "4,2", the first), 64 at most; None
    where neither does.

    A PYAPP_NUM_THREADS that is not a number of 1 or more is warned of. OMP_NUM_THREADS is for many programs: what is no
    number there is left alone.
    """
    for variable in ("PYAPP_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(variable, "").strip()
        first = text.split(",")[0].strip()
        if first.isdecimal() and len(first) < 10 and int(first) > 0 and (variable[0] == "O" or first == text):
            return min(int(first), MOST_THREADS)
        if text and variable == "PYAPP_NUM_THREADS":
            said = f"PYAPP_NUM_THREADS is {text[:50]!r}, expected a number from 1 to {MOST_THREADS}: ignored"
            # While pyapp is imported, no line of a program asks for it.
            warnings.warn_explicit(said, UserWarning, "pyapp", 1)
    return None


class Library:
    """The library's functions as attributes. The first use of one loads the library."""

    def __init__(self, signature: str) -> None:
        self._signature = signature
        self._loaded: ctypes.CDLL | None = None

    def load(self) -> None:
        if self._loaded is None:
            self._loaded = load_library(self._signature)
            threads = None if IN_BROWSER else threads_of_environment()
            if threads is not None:
                self._loaded.pyapp_set_threads(threads)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.load()
        value = getattr(self._loaded, name)
        setattr(self, name, value)  # the next time it is found without coming here
        return value


_header = read_header()
SIGNATURE = read_signature(_header)  # what a build of these kernels says of itself
library = Library(SIGNATURE)
SIGNATURES = read_signatures(_header.decode())
HOST_KERNELS = SIGNATURES.keys() - set(re.findall(r"^CUDA_KERNEL\((\w+),", _header.decode(), re.MULTILINE))
ELEMENTS = re.findall(r"^ELEMENT\((\w+), ", _header.decode(), re.MULTILINE)  # the types in the order of their codes
OPCODES = read_opcodes(_header.decode())
# The block formats that kernels read in bands of rows, and the bytes of one block of each row of a band.
BANDED = {name: int(nbytes) for name, nbytes in re.findall(r"\bFORMAT\((\w+), (\d+)\)", _header.decode())}
if not IN_BROWSER:
    library.load()


def instruction_set() -> str:
    """The instruction set that was chosen for this machine: "avx512", "avx2" or "baseline" of x86; "dotprod" or "neon"
    of ARM; "relaxed" or "simd128" of WebAssembly.
    """
    return str(library.pyapp_instruction_set().decode())


def set_num_threads(threads: int) -> None:
    """Workers of the kernels (not of BLAS), 1 to 64. Results do not depend on it. The environment variables
    PYAPP_NUM_THREADS and OMP_NUM_THREADS set it from outside."""
    if not 1 <= threads <= MOST_THREADS:
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


def fail(status: int, name: str, earlier: bool = False) -> None:
    """Raises what a non-zero status of pyapp_run means. `earlier`: the kernel was launched before the present call."""
    code = status & 0xFF
    by = f" (found by the kernel {name}, which was launched before)" if earlier else ""
    if code in (1, 2):
        raise IndexError(f"{name}: {_MEANING[code]}{by}")
    if code == 5:
        raise RuntimeError(f"{name}: {_MEANING[code]}{by}")
    if code in (6, 7):
        raise LinAlgError(f"{name}: {_MEANING[code]}{by}")
    raise KernelError(_MEANING.get(code, f"unknown status {code}") + by, where=f"kernel {name}")

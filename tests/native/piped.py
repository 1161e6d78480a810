"""Kernels of other machines, which another process runs: arrays are copied there and back with each record, behind
the same interface as the host's library (kernels.py).
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.native.kernels import HEADER, ROOT

GUARD = b"\xab" * 64


class PipedKernels:
    """A process that runs records. At its start it writes the library's signature. It reads a uint32, the length, then
    a record, then the bytes of its arrays, with guards between them; it answers an int32, the code, and these bytes.
    """

    pointer = "I"  # the letter of struct for an address there
    arrays = 0  # the address there of the arrays

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        variables, pipe = {**os.environ, **(environment or {})}, subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, env=variables)
        self.library = SimpleNamespace(pyapp_set_threads=lambda threads: None, pyapp_threads=lambda: 1)
        self.signature = self.read(len(header_signature())).decode()

    def read(self, size: int) -> bytes:
        found = bytearray()
        assert self.process.stdout
        while len(found) < size:
            part = self.process.stdout.read(size - len(found))
            assert part, f"{self.name}: its process has ended"
            found += part
        return bytes(found)

    def run(self, kernel: str, work: int = 1000, **arguments: Any) -> int:
        """As Kernels.run."""
        index, pointers, dims, floats = HEADER[kernel]
        if unknown := arguments.keys() - {*pointers, *dims, *floats}:
            raise TypeError(f"{kernel} has no argument {', '.join(unknown)}")
        arrays = [value for value in arguments.values() if isinstance(value, np.ndarray)]
        payload, places = pack_arrays(arrays)
        addresses = [self.address_of(arguments.get(name), places) for name in pointers]
        sizes = [int(arguments.get(name, 0)) for name in dims]
        numbers = [float(arguments.get(name, 0)) for name in floats]
        record = struct.pack("<2i", index, work)
        record += struct.pack(f"<8{self.pointer}", *addresses, *[0] * (8 - len(addresses)))
        record += struct.pack("<24q", *sizes, *[0] * (24 - len(sizes)))
        record += struct.pack("<4f", *numbers, *[0] * (4 - len(numbers)))
        assert self.process.stdin
        request = memoryview(struct.pack("<I", len(record) + len(payload)) + record + payload)
        while request:  # a raw pipe takes what it can hold
            request = request[self.process.stdin.write(request) :]
        code = struct.unpack("<i", self.read(4))[0]
        unpack_arrays(self.read(len(payload)), places)
        return int(code)

    def address_of(self, value: Any, places: list[tuple[int, int, int]]) -> int:
        if not isinstance(value, np.ndarray):
            assert value is None, "only arrays can travel"
            return 0
        address = value.ctypes.data
        found = [offset + address - start for start, end, offset in places if start <= address < end]
        return self.arrays + (found[0] if found else 0)


def pack_arrays(arrays: list[np.ndarray]) -> tuple[bytes, list[tuple[int, int, int]]]:
    """The bytes of all arrays, each as far off 64-byte alignment as it is here, and where: (start, end, offset).
    Arrays that overlap stay one piece of memory.
    """
    spans: list[list[int]] = []
    for start, end in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays if array.size):
        if spans and start < spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    payload, places = bytearray(GUARD), []
    for start, end in spans:
        payload += GUARD[: (start - len(payload)) % 64]
        places.append((start, end, len(payload)))
        payload += ctypes.string_at(start, end - start) + GUARD
    return bytes(payload), places


def unpack_arrays(payload: bytes, places: list[tuple[int, int, int]]) -> None:
    for start, end, offset in places:
        after = offset + end - start
        assert payload[offset - 1 : offset] == GUARD[:1], "a kernel wrote before an array"
        assert payload[after : after + 64] == GUARD, "a kernel wrote past an array"
        ctypes.memmove(start, payload[offset:after], end - start)


def header_signature() -> str:
    """CRC-32 of kernels.h, as build.py gives it to the library."""
    return f"{zlib.crc32((ROOT / 'native' / 'kernels.h').read_bytes()):08x}"

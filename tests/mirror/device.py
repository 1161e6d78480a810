"""A device for tests: the CPU's kernels over memory that the process cannot reach by the addresses it is given.
In a page with threads it is the page's pool, whose memory is hidden in earnest.

An address of the mirror is that of a block of its own plus a distance that leads out of the process's memory: whoever
takes it for a pointer crashes. Fresh memory is full of bytes that read as NaN.
"""

from __future__ import annotations

import bisect
import ctypes
import threading
from typing import Any

from pyapp.engine.claims.linear_algebra import FACTORS
from pyapp.engine.device import Backend, HiddenAddress, as_device, register
from pyapp.engine.launch import KERNELS
from pyapp.engine.native import HOST_KERNELS, IN_BROWSER, POINTER_BYTES, RECORD_BYTES, library

DISTANCE = 1 << 31 if IN_BROWSER else 1 << 50
ALIGNMENT, SLACK = 64, 1024  # bytes; kernels may read a little past the end where kernels.h says so
POINTERS_AT = 8  # of a record: after the kernel's index and the work
BY_INDEX = {kernel.index: kernel for kernel in KERNELS.values()}


class Mirror(Backend):
    """Blocks of ctypes memory; records are translated and run by the native library."""

    host_visible = False

    def __init__(self) -> None:
        self.kernels = set(HOST_KERNELS) - set(FACTORS)  # of which the CPU has those for small matrices alone
        self.blocks: dict[int, tuple[int, Any]] = {}  # real address: (bytes, the memory)
        self.sorted: list[int] = []
        self.lock = threading.RLock()  # of these two; a collection of garbage may free a block at any time
        self.ran: list[str] = []  # the kernels that were run

    @property
    def allocated(self) -> int:
        """Bytes in use."""
        return sum(nbytes for nbytes, _ in self.blocks.values())

    def allocate(self, nbytes: int) -> HiddenAddress:
        memory = (ctypes.c_ubyte * (nbytes + SLACK + ALIGNMENT))()
        ctypes.memset(memory, 0xFF, len(memory))
        real = -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT
        with self.lock:
            self.blocks[real] = (nbytes + SLACK, memory)
            bisect.insort(self.sorted, real)
        return HiddenAddress(real + DISTANCE)

    def free(self, address: HiddenAddress) -> None:
        real = address.value - DISTANCE
        with self.lock:
            del self.blocks[real]
            self.sorted.remove(real)

    def real(self, value: int, nbytes: int = 0) -> int:
        """The real address of the mirror's memory. AssertionError for an address outside the allocated blocks."""
        real = value - DISTANCE
        with self.lock:
            at = bisect.bisect_right(self.sorted, real) - 1
            assert at >= 0, f"{value:#x} is not an address of the mirror"
            start = self.sorted[at]
            assert real + nbytes <= start + self.blocks[start][0], f"{value:#x} lies outside every block of the mirror"
        return real

    def write(self, address: HiddenAddress, data: Any) -> None:
        data = bytes(memoryview(data).cast("B"))
        ctypes.memmove(self.real(address.value, len(data)), data, len(data))

    def read(self, address: HiddenAddress, into: Any) -> None:
        view = memoryview(into).cast("B")
        view[:] = ctypes.string_at(self.real(address.value, len(view)), len(view))

    def copy(self, to: HiddenAddress, source: HiddenAddress, nbytes: int) -> None:
        ctypes.memmove(self.real(to.value, nbytes), self.real(source.value, nbytes), nbytes)

    def run(self, records: bytearray, count: int) -> int:
        translated = bytearray(records)
        for i in range(count):
            start = i * RECORD_BYTES
            kernel = BY_INDEX[int.from_bytes(translated[start : start + 4], "little")]
            self.ran.append(kernel.name)
            for slot in range(len(kernel.pointers)):
                at = start + POINTERS_AT + slot * POINTER_BYTES
                value = int.from_bytes(translated[at : at + POINTER_BYTES], "little")
                if value:
                    translated[at : at + POINTER_BYTES] = self.real(value).to_bytes(POINTER_BYTES, "little")
        buffer = (ctypes.c_ubyte * len(translated)).from_buffer(translated)
        return int(library.pyapp_run(ctypes.addressof(buffer), count))


def open_mirror(index: int | None) -> Backend:
    """The page's pool, or the mirror."""
    try:
        return as_device("pool").backend
    except ValueError:
        return Mirror()


register("mirror", open_mirror)

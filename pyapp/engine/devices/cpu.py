"""The CPU: memory of this process, and the kernels of the native library."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from ..device import Backend
from ..native import HOST_KERNELS, library


class Cpu(Backend):
    """The native library, on as many threads as `set_num_threads` says."""

    host_visible = True
    kernels = HOST_KERNELS

    def allocate(self, nbytes: int) -> int | None:
        return library.pyapp_allocate(nbytes) or None

    def free(self, address: int) -> None:
        library.pyapp_free(address)

    def write(self, address: int, data: Any) -> None:
        view = memoryview(data).cast("B")
        if view.readonly:
            ctypes.memmove(address, bytes(view), len(view))
        elif len(view):
            ctypes.memmove(address, (ctypes.c_ubyte * len(view)).from_buffer(view), len(view))

    def read(self, address: int, into: Any) -> None:
        view = memoryview(into).cast("B")
        if len(view):
            ctypes.memmove((ctypes.c_ubyte * len(view)).from_buffer(view), address, len(view))

    def copy(self, to: int, source: int, nbytes: int) -> None:
        ctypes.memmove(to, source, nbytes)

    def run(self, records: bytearray, count: int) -> int:
        buffer = (ctypes.c_ubyte * max(1, len(records))).from_buffer(records or bytearray(1))
        return int(library.pyapp_run(ctypes.addressof(buffer), count))

    def graph(self, records: bytearray, count: int) -> Callable[[], int]:
        buffer = (ctypes.c_ubyte * max(1, len(records))).from_buffer(records or bytearray(1))
        replay = functools.partial(library.pyapp_run, ctypes.addressof(buffer), count)
        replay.buffer = buffer  # type: ignore[attr-defined]  # the records live as long as the function
        return replay


def open_device(index: int | None) -> Backend:
    """The CPU's backend; there is one."""
    return Cpu()

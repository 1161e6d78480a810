"""The page's threads: memory that workers share, outside Pyodide's, and a second instance of the kernels over it.

The worker opens it (web/modules/worker/pool.js) and gives it to `connect`. A model lies in that memory alone: weights
are written there piece by piece, and a decode step is one call of `replay`.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Callable
from typing import Any

from ...errors import KernelError
from ..device import Backend, Device, HiddenAddress
from ..native import HOST_KERNELS, RECORD_BYTES, SIGNATURE
from ..storage import Storage

ALIGNMENT = 64  # bytes
SLACK = 1024  # bytes left free at the end: kernels may read a little past an input
GROWTH = 16 << 20  # bytes that the memory grows by at least


class Ranges:
    """The free memory from `begin` to `end`, by address; neighbours are joined. `grow(size)` makes the memory `size`
    bytes long, or returns False.
    """

    def __init__(self, begin: int, end: int, grow: Callable[[int], bool]) -> None:
        begin = -(-begin // ALIGNMENT) * ALIGNMENT
        self._starts, self._ends = [begin], [end]
        self._end = end
        self._grow = grow
        self._sizes: dict[int, int] = {}  # of what is allocated, by address

    @property
    def allocated(self) -> int:
        """Bytes in use."""
        return sum(self._sizes.values())

    def take(self, nbytes: int) -> int | None:
        """The address of `nbytes` bytes; None where there are none left."""
        size = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        at = self._first(size)
        if at is None and self._extend(size):
            at = self._first(size)
        if at is None:
            return None
        address = self._starts[at]
        self._starts[at] += size
        if self._starts[at] == self._ends[at]:
            del self._starts[at], self._ends[at]
        self._sizes[address] = size
        return address

    def _first(self, size: int) -> int | None:
        pairs = zip(self._starts, self._ends, strict=True)
        return next((i for i, (start, end) in enumerate(pairs) if end - start >= size), None)

    def _extend(self, size: int) -> bool:
        """Grows the memory until its end has room for `size` bytes."""
        free = self._end - self._starts[-1] if self._ends and self._ends[-1] == self._end else 0
        for more in (max(size - free, GROWTH), size - free):
            if self._grow(self._end + more + SLACK):
                self._release(self._end, self._end + more)
                self._end += more
                return True
        return False

    def give(self, address: int) -> None:
        """Frees what `take` returned."""
        self._release(address, address + self._sizes.pop(address))

    def _release(self, start: int, end: int) -> None:
        at = bisect.bisect_left(self._starts, start)
        if at < len(self._starts) and self._starts[at] == end:
            end = self._ends[at]
            del self._starts[at], self._ends[at]
        if at and self._ends[at - 1] == start:
            self._ends[at - 1] = end
        else:
            self._starts.insert(at, start)
            self._ends.insert(at, end)


class Threads(Backend):
    """The pool, on as many threads as it was opened with; how many of them work is chosen by measured time.

    When a worker fails, everything here raises KernelError, and the page starts the engine anew.
    """

    host_visible = False
    kernels = HOST_KERNELS

    def __init__(self, pool: Any) -> None:
        if pool.signature != SIGNATURE:
            raise KernelError("the pool's kernels were built from another kernels.h", hint="Reload the page")
        self._pool = pool
        pool.recordBytes = RECORD_BYTES
        self._ranges = Ranges(pool.base, pool.size - SLACK, pool.grow)
        functions = pool.functions
        three, two = (ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count) for count in (3, 2))
        self._write, self._read, self._copy = (three(getattr(functions, name)) for name in ("write", "read", "copy"))
        self._run, self._replay = two(functions.run), two(functions.replay)

    @property
    def threads(self) -> int:
        """How many workers compute, the engine's own included."""
        return int(self._pool.threads)

    @property
    def allocated(self) -> int:
        """Bytes in use."""
        return self._ranges.allocated

    def allocate(self, nbytes: int) -> HiddenAddress | None:
        address = self._ranges.take(nbytes)
        return None if address is None else HiddenAddress(address)

    def free(self, address: HiddenAddress) -> None:
        self._ranges.give(address.value)

    def write(self, address: HiddenAddress, data: Any) -> None:
        view = memoryview(data).cast("B")
        size = len(view)
        if size:
            source = data if type(data) is bytes else bytes(view) if view.readonly else _pointer(view, size)
            self._check(self._write(address.value, source, size))

    def read(self, address: HiddenAddress, into: Any) -> None:
        view = memoryview(into).cast("B")
        size = len(view)
        if size:
            self._check(self._read(_pointer(view, size), address.value, size))

    def copy(self, to: HiddenAddress, source: HiddenAddress, nbytes: int) -> None:
        self._check(self._copy(to.value, source.value, nbytes))

    def run(self, records: bytearray, count: int) -> int:
        if count == 1:
            return int(self._run(bytes(records), len(records)))
        for i in range(count):
            status = self._run(bytes(records[i * RECORD_BYTES : (i + 1) * RECORD_BYTES]), RECORD_BYTES)
            if status:
                return i << 8 | int(status)
        return 0

    def graph(self, records: bytearray, count: int) -> Callable[[], int]:
        kept = Storage.of_bytes(records, Device("pool"))
        self._pool.forget(kept.address.value)
        return _Replay(self._replay, kept, count)

    def _check(self, status: int) -> None:
        if status:
            hint = "Start the engine anew"
            raise KernelError("a thread of the page has failed", where=str(self._pool.lost), hint=hint)


class _Replay:
    """Records in the pool's memory, which live as long as this function."""

    __slots__ = ("_address", "_count", "_replay", "_records")

    def __init__(self, replay: Callable[[int, int], int], records: Storage, count: int) -> None:
        self._replay, self._records = replay, records
        self._address, self._count = records.address.value, count

    def __call__(self) -> int:
        return self._replay(self._address, self._count)


def _pointer(view: memoryview, size: int) -> Any:
    return (ctypes.c_ubyte * size).from_buffer(view)


class _Connected:
    """The one backend over what the worker gave."""

    threads: Threads | None = None


def connect(pool: Any) -> None:
    """Makes the worker's pool the device "pool": an object with `base`, `size` and `grow(size)` of its memory,
    `threads`, `signature`, `lost`, `forget(records)` and `functions`, places in Pyodide's table of functions. Its
    `recordBytes` is set.

    KernelError if its kernels are of another version.
    """
    _Connected.threads = Threads(pool)


def open_device(index: int | None) -> Backend:
    """The pool's backend. ValueError where the page has no threads."""
    if _Connected.threads is None:
        raise ValueError("device: there is no device 'pool'; only a page whose browser shares memory has threads")
    return _Connected.threads

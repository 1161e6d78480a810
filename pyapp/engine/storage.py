"""Memory: 64-byte aligned blocks from the native library, kept in free lists by size; or a NumPy array's memory,
adopted.

An address is known from birth, so that an eager kernel call costs no look-up; a freed block serves the next tensor
of its size.
"""

from __future__ import annotations

import ctypes
from typing import Any

from .local import ThreadLocal
from .native import IN_BROWSER, library

CACHE_LIMIT = (64 if IN_BROWSER else 1024) << 20  # bytes kept in free lists


def _capacity(nbytes: int) -> int:
    """Size class: multiples of 64 up to 4 KiB, then eighths of a power of two."""
    if nbytes <= 4096:
        return max(64, (nbytes + 63) & ~63)
    step = 1 << (nbytes.bit_length() - 4)
    return (nbytes + step - 1) & ~(step - 1)


class Pool:
    """Free blocks by capacity. The default pool serves everything; a Graph that is being captured has its own, so that
    the blocks in its records are reused by nobody else."""

    __slots__ = ("cached", "free", "limit")

    def __init__(self, limit: int = CACHE_LIMIT) -> None:
        self.free: dict[int, list[int]] = {}
        self.cached = 0
        self.limit = limit

    def take(self, capacity: int) -> int:
        blocks = self.free.get(capacity)
        if blocks:
            self.cached -= capacity
            return blocks.pop()
        address = library.pyapp_allocate(capacity)
        if not address:
            default_pool.trim()
            address = library.pyapp_allocate(capacity)
        if not address:
            raise MemoryError(f"cannot allocate {capacity:,} bytes: use a smaller model, batch or context")
        return int(address)

    def give(self, address: int, capacity: int) -> None:
        if self.cached + capacity > self.limit:
            library.pyapp_free(address)
            return
        self.cached += capacity
        blocks = self.free.get(capacity)
        if blocks is None:
            self.free[capacity] = [address]
        else:
            blocks.append(address)

    def trim(self) -> None:
        """Returns every cached block to the system."""
        for blocks in self.free.values():
            for address in blocks:
                library.pyapp_free(address)
        self.free.clear()
        self.cached = 0

    def __del__(self) -> None:
        self.trim()


default_pool = Pool()


class _Current(ThreadLocal):
    """The pool that new storages of this thread come from."""

    pool = default_pool


_current = _Current()


def use_pool(pool: Pool) -> Pool:
    """New storages of this thread come from `pool`; returns the one before."""
    before: Pool = _current.pool
    _current.pool = pool
    return before


class Storage:
    """`nbytes` bytes at `address`. `version` counts in-place writes, for autograd."""

    __slots__ = ("address", "capacity", "nbytes", "owner", "pool", "version", "view")

    def __init__(self, nbytes: int) -> None:
        self.capacity = 0  # until there is memory to give back
        capacity = (nbytes + 63) & ~63 if 0 < nbytes <= 4096 else _capacity(nbytes)
        pool = _current.pool
        blocks = pool.free.get(capacity)  # as Pool.take, for the hot path
        if blocks:
            pool.cached -= capacity
            self.address = blocks.pop()
        else:
            self.address = pool.take(capacity)
        self.capacity = capacity
        self.nbytes = nbytes
        self.pool = pool
        self.owner: Any = None
        self.view: Any = None
        self.version = 0

    @classmethod
    def adopt(cls, address: int, nbytes: int, owner: object) -> Storage:
        """Memory of `owner`, which is kept alive."""
        self = cls.__new__(cls)
        self.address = address
        self.capacity = 0
        self.nbytes = nbytes
        self.owner = owner
        self.view = None
        self.version = 0
        return self

    @classmethod
    def of_bytes(cls, data: Any) -> Storage:
        """Memory of its own with these bytes in it."""
        self = cls(len(data))
        if self.nbytes:
            self.bytes_view()[:] = data
        return self

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return Storage.of_bytes, (bytes(self.bytes_view()) if self.nbytes else b"",)

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        return Storage.of_bytes(self.bytes_view() if self.nbytes else b"")  # without the copy between that bytes are

    def __del__(self) -> None:
        capacity = self.capacity
        if capacity:
            pool = self.pool
            cached = pool.cached + capacity
            blocks = pool.free.get(capacity)  # as Pool.give, for the hot path
            if blocks is None or cached > pool.limit:
                pool.give(self.address, capacity)
            else:
                pool.cached = cached
                blocks.append(self.address)

    def bytes_view(self) -> memoryview:
        """All bytes, writable. The view does not keep the storage alive."""
        if self.view is None:
            self.view = memoryview((ctypes.c_ubyte * self.nbytes).from_address(self.address)).cast("B")
        return self.view

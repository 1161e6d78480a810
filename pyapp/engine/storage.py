"""Memory of a device: 64-byte aligned blocks from its allocator, kept in free lists by size; or memory of another
owner, such as a NumPy array.

An address is known from birth, so that an eager kernel call costs no look-up; a freed block serves the next tensor
of its size.
"""

from __future__ import annotations

import ctypes
import sys
from math import inf
from typing import Any

from .budget import BUDGETS, current
from .device import Backend, Device, HiddenAddress, cpu
from .native import IN_BROWSER
from .thread_local import ThreadLocal, Users

CACHE_LIMIT = (64 if IN_BROWSER else 1024) << 20  # bytes kept in free lists, small blocks not counted
SMALL = 4096  # bytes of the largest small block
SMALL_KEPT = 1024  # free blocks kept of each small capacity
PIECE = 16 << 20  # bytes that pass through the host at a time, between two devices that it cannot see
M_ARENA_MAX = -8  # glibc's malloc.h
LARGEST = sys.maxsize // 8 * 7  # bytes of one storage; a capacity is rounded up by an eighth at most


def _capacity(nbytes: int) -> int:
    """Size class: multiples of 64 up to 4 KiB, then eighths of a power of two. MemoryError for more than an address
    can span, ValueError for less than nothing."""
    if nbytes <= SMALL:
        if nbytes < 0:
            raise ValueError(f"a storage cannot have {nbytes:,} bytes")
        return max(64, (nbytes + 63) & ~63)
    if nbytes > LARGEST:
        raise _no_memory(nbytes)
    step = 1 << (nbytes.bit_length() - 4)
    return (nbytes + step - 1) & ~(step - 1)


def _no_memory(nbytes: int, device: Device = cpu) -> MemoryError:
    used = "" if device is cpu else device.backend.describe_memory()
    where = "" if device is cpu else f" on {device} ({used})" if used else f" on {device}"
    return MemoryError(f"cannot allocate {nbytes:,} bytes{where}: use a smaller model, batch or context")


class Pool:
    """Free blocks of a device by capacity; of those above SMALL at most `limit` bytes are kept. A device's own pool
    serves everything. A Graph has its own, so that the blocks in its records are reused by nobody else; it keeps all of
    them (limit inf) until it ends: a replay writes them again.
    """

    __slots__ = ("cached", "device", "free", "key", "limit", "small")

    def __init__(self, device: Device = cpu, limit: float = CACHE_LIMIT, key: Any = None) -> None:
        self.device = device
        self.key = device if key is None else key  # of the pool in which eager calls leave blocks that it may take
        self.small: list[list[Any]] = [[] for _ in range(SMALL // 64 + 1)]  # by capacity / 64
        self.free: dict[int, list[Any]] = {}
        self.cached = 0
        self.limit = limit

    def take(self, capacity: int) -> Any:
        """The address of a block. MemoryError when the device has none left."""
        address = self._found(capacity)
        if self.device is not cpu and self.device.backend.counts_use:
            self.device.backend.note_kept(_kept_large(self.device))
        return address

    def _found(self, capacity: int) -> Any:
        if capacity > SMALL:
            blocks = self.free.get(capacity)
            if blocks:
                self.cached -= capacity
                return blocks.pop()
            shared = _pools.get(self.key)  # a Graph takes what eager calls have left
            if shared is not None and (blocks := shared.free.get(capacity)):
                shared.cached -= capacity
                return blocks.pop()
        elif self.small[capacity >> 6]:
            return self.small[capacity >> 6].pop()
        allocate = self.device.backend.allocate
        address = allocate(capacity)
        if address is None:
            trim_pool(self.device)
            address = allocate(capacity)
        if address is None:
            raise _no_memory(capacity, self.device)
        return address

    def give(self, address: Any, capacity: int, is_finalizing: Any = sys.is_finalizing) -> None:
        """Keeps a block for the next storage of its capacity, or frees it where enough is kept."""
        if capacity <= SMALL:
            blocks = self.small[capacity >> 6]
            if len(blocks) < SMALL_KEPT or self.limit == inf:
                blocks.append(address)
                return
        elif self.cached + capacity <= self.limit:
            self.cached += capacity
            self.free.setdefault(capacity, []).append(address)
            return
        if not is_finalizing():
            self.device.backend.free(address)

    def trim(self) -> None:
        """Returns every cached block to the device."""
        for blocks in self.small:
            while blocks:
                self.device.backend.free(blocks.pop())
        self.trim_large()

    def trim_large(self) -> None:
        """Returns the cached blocks above SMALL to the device. Other threads may take and give blocks meanwhile."""
        for capacity, blocks in list(self.free.items()):
            while blocks:
                try:
                    address = blocks.pop()
                except IndexError:  # another thread took the last one
                    break
                self.cached -= capacity
                self.device.backend.free(address)

    def __del__(self, is_finalizing: Any = sys.is_finalizing) -> None:
        if not is_finalizing():  # at the end of the process the system takes all memory back
            self.trim()


default_pool = Pool()
_pools: dict[Any, Pool] = {cpu: default_pool}  # by device; with (device, stream) that of a stream


def release_memory(device: Device = cpu) -> None:
    """Returns free memory to the system: the large blocks that a device keeps for new storages, and the free parts of
    the C library's heap, which reading a large vocabulary leaves behind (glibc; others have no function for it)."""
    for pool in _pools_of(device):
        pool.trim_large()
    trim = _of_the_c_library("malloc_trim")
    if trim is not None:
        trim(0)


def share_heap() -> None:
    """Lets the threads that begin later share one heap of the C library (glibc). Each would have its own, and the free
    end of those is never given back: tens of megabytes of each thread that ever held a large block.
    """
    mallopt = _of_the_c_library("mallopt")
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)


def _of_the_c_library(name: str) -> Any:
    """A function of glibc's allocator; None where another library is used."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


class _UsedBeside:
    """Where a block goes back to that other streams than its own have used: its pool, after what they have to do."""

    __slots__ = ("pool", "streams")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.streams: list[Any] = []  # the backend's

    def give(self, address: Any, capacity: int, is_finalizing: Any = sys.is_finalizing) -> None:
        if not is_finalizing():
            self.pool.device.backend.wait_for_streams(_number_of(self.pool), self.streams)
        self.pool.give(address, capacity)


class GraphPools:
    """The pools that a Graph's blocks come from, by device."""

    def __init__(self) -> None:
        self.by_device: dict[Device, Pool] = {}

    def of(self, device: Device) -> Pool:
        found = self.by_device.get(device)
        if found is None:
            found = self.by_device[device] = Pool(device, inf, _key(device))
        return found

    def own(self, storage: Storage) -> bool:
        """Whether a storage is a block of these pools."""
        return storage.pool is not None and storage.pool is self.by_device.get(storage.device)


class _Current(ThreadLocal):
    """The pool that gives this thread's new storages their memory while a Graph is captured."""

    graph: GraphPools | None = None


_current = _Current()
CAPTURES = Users()  # threads that are capturing a Graph


def use_pools(graph: GraphPools | None) -> None:
    """New storages of this thread come from a Graph's pools, or with None from the devices' own again."""
    CAPTURES.add(1 if graph is not None else -1)
    _current.graph = graph


def _pool_of(device: Device) -> Pool:
    """The pool of this thread for a device."""
    graph = _current.graph
    if graph is not None:
        return graph.of(device)
    key = _key(device)
    return _pools.get(key) or _pools.setdefault(key, Pool(device, device.backend.cache_limit or CACHE_LIMIT, key))


def _key(device: Device) -> Any:
    """Of the pool that this thread's stream of a device has."""
    stream = device.backend.stream
    return device if stream is None else (device, stream)


def _number_of(pool: Pool) -> int | None:
    """Of the stream that a pool's blocks serve; None: the device's own."""
    return pool.key[1] if isinstance(pool.key, tuple) else None


def forget_stream(backend: Backend, number: int) -> None:
    """The pool of a stream that has ended gives its blocks back when the last storage from it is gone."""
    for key, pool in list(_pools.items()):
        if pool.device.backend is backend and _number_of(pool) == number:
            _pools.pop(key, None)


def _pools_of(device: Device) -> list[Pool]:
    return [pool for pool in list(_pools.values()) if pool.device is device]


def trim_pool(device: Device) -> None:
    """Gives a device its freed blocks back."""
    trim_backend(device.backend)


def trim_backend(backend: Backend) -> None:
    for pool in list(_pools.values()):
        if pool.device.backend is backend:
            pool.trim()


def _kept_large(device: Device) -> int:
    """The bytes of freed blocks above SMALL that are kept."""
    return sum(pool.cached for pool in _pools.values() if pool.device is device)


def kept_bytes(device: Device) -> int:
    """The bytes of freed blocks that are kept for new tensors."""
    small = (64 * size * len(blocks) for pool in _pools_of(device) for size, blocks in enumerate(pool.small))
    return _kept_large(device) + sum(small)


class Storage:
    """`nbytes` bytes at `address` of a device. `version` counts in-place writes, for autograd."""

    __slots__ = ("address", "blocks", "capacity", "device", "nbytes", "owner", "pool", "version", "view")

    def __init__(self, nbytes: int, device: Device = cpu) -> None:
        # Until there is memory to give back, for __del__.
        self.blocks: list[Any] | None = None  # where a small block goes back to
        self.capacity = 0
        pool: Any = default_pool if device is cpu and not CAPTURES.count else _pool_of(device)
        if 0 < nbytes <= SMALL:
            blocks = pool.small[(nbytes + 63) >> 6]
            self.address = blocks.pop() if blocks else pool.take((nbytes + 63) & ~63)
            self.blocks = blocks
        else:
            capacity = _capacity(nbytes)
            if BUDGETS.count and device is cpu and pool.limit != inf and (budget := current()) is not None:
                pool = budget.over(pool)
            self.address = pool.take(capacity)
            self.capacity = capacity
        self.nbytes = nbytes
        self.device = device
        self.pool: Any = pool
        self.owner: Any = None
        self.view: Any = None
        self.version = 0

    @classmethod
    def adopt(cls, address: Any, nbytes: int, owner: object, device: Device = cpu) -> Storage:
        """Memory of `owner`, which is kept alive."""
        self = cls.__new__(cls)
        self.address = address
        self.blocks = None
        self.capacity = 0
        self.nbytes = nbytes
        self.device = device
        self.pool = None
        self.owner = owner
        self.view = None
        self.version = 0
        return self

    @classmethod
    def outside_graphs(cls, nbytes: int, device: Device = cpu) -> Storage:
        """Memory that the host is to write. While a Graph is captured it is not the Graph's, whose earlier kernels
        would write it at a replay."""
        graph, _current.graph = _current.graph, None
        try:
            return cls(nbytes, device)
        finally:
            _current.graph = graph

    @classmethod
    def of_bytes(cls, data: Any, device: Device = cpu) -> Storage:
        """Memory of its own with these bytes in it."""
        self = cls.outside_graphs(len(data), device)
        self.write(0, data)
        return self

    def __reduce__(self) -> tuple[Any, tuple[bytearray, Device]]:
        return Storage.of_bytes, (self.read(), self.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        made = Storage(self.nbytes, self.device)
        if self.nbytes:
            self.device.backend.copy(made.address, self.address, self.nbytes)
        return made

    def __del__(self, small_kept: int = SMALL_KEPT) -> None:  # at the end of the process the module's names are gone
        blocks = self.blocks
        if blocks is None:
            if self.capacity:
                self.pool.give(self.address, self.capacity)
        elif len(blocks) < small_kept:
            blocks.append(self.address)
        else:
            self.pool.give(self.address, (self.nbytes + 63) & ~63)

    @property
    def _storage(self) -> Storage:
        """Itself: launches take storages for scratch memory as they take tensors."""
        return self

    def bytes_view(self) -> memoryview:
        """All bytes, writable. The view does not keep the storage alive. RuntimeError where the host cannot see the
        memory."""
        if self.view is None:
            self.view = memoryview((ctypes.c_ubyte * self.nbytes).from_address(self.visible_address())).cast("B")
        return self.view

    def visible_address(self) -> int:
        """The address, for code of this process. RuntimeError where the host cannot see the memory."""
        address = self.address
        if isinstance(address, HiddenAddress):
            raise RuntimeError(f"the memory of {self.device} cannot be read in place; move the tensor with .to('cpu')")
        return int(address)

    def write(self, offset: int, data: Any) -> None:
        """Copies bytes of the host to byte `offset`. ValueError where they do not fit."""
        size = memoryview(data).nbytes
        self._check(offset, size)
        if size:
            self.device.backend.write(self.address + offset, data)

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytearray:
        """A copy of `nbytes` bytes from byte `offset` on; of all that follow by default. ValueError past the end."""
        size = self.nbytes - offset if nbytes is None else nbytes
        self._check(offset, size)
        found = bytearray(size)
        if size:
            self.device.backend.read(self.address + offset, found)
        return found

    def copy_from(self, source: Storage, to: int, start: int, nbytes: int) -> None:
        """Copies `nbytes` bytes of `source` from byte `start` on to byte `to` of this storage, whatever the devices.
        ValueError past an end."""
        self._check(to, nbytes)
        source._check(start, nbytes)
        if not nbytes:
            return
        ours, theirs = self.device.backend, source.device.backend
        if self.device is source.device:
            ours.copy(self.address + to, source.address + start, nbytes)
        elif theirs.host_visible:
            ours.write(self.address + to, source.bytes_view()[start : start + nbytes])
        elif ours.host_visible:
            theirs.read(source.address + start, self.bytes_view()[to : to + nbytes])
        elif not ours.copy_across(self.address + to, theirs, source.address + start, nbytes):
            # by way of the host, a piece at a time
            for at in range(0, nbytes, PIECE):
                size = min(PIECE, nbytes - at)
                self.write(to + at, source.read(start + at, size))

    def record_stream(self, stream: Any, number: int | None) -> None:
        """A stream of the device, and its number, uses the storage too: when that is gone, its own stream waits for the
        other before the memory serves it again. Nothing to do where the memory is not given back so: a Graph keeps its
        own, and what another object owns is that object's."""
        pool = self.pool.pool if isinstance(self.pool, _UsedBeside) else self.pool
        if pool is None or pool.limit == inf or number == _number_of(pool):
            return
        if pool is self.pool:
            self.pool = _UsedBeside(pool)
            if self.blocks is not None:
                self.blocks, self.capacity = None, (self.nbytes + 63) & ~63
        if stream not in self.pool.streams:
            self.pool.streams.append(stream)

    def _check(self, offset: int, size: int) -> None:
        if offset < 0 or size < 0 or offset + size > self.nbytes:
            raise ValueError(f"bytes {offset:,} to {offset + size:,} are not in a storage of {self.nbytes:,} bytes")

"""CUDA cards: memory of the card, and the kernels of native/cuda, compiled for it when they are first used.

Kernels run after the call that launches them has returned, as always with CUDA. What one of them finds wrong (an index
out of range, a division by zero) is raised by the next call that waits for the card or launches something, with the
kernel's name; the card goes on working.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

from ...dataclass import dataclass
from ...errors import KernelError
from ..device import Backend, HiddenAddress
from ..dtype import bfloat16, float16, float32
from ..element_types import CODES, opcodes
from ..gpu import cublas, nvidia
from ..gpu.card import Card, compiled
from ..gpu.fusion import fuse
from ..gpu.sources import NO_VARIANT, Number, Plan, Step, operands, plans, varied
from ..native import DIMS, POINTER_BYTES, POINTERS, RECORD_BYTES, SIGNATURES, fail
from ..storage import CACHE_LIMIT, forget_stream, trim_backend
from ..thread_local import ThreadLocal

ALIGNMENT = 64  # bytes
SCRATCH_ALIGNMENT = 256  # bytes: of what begins after counters, as what a card allocates
BAD_ARGUMENT = 3  # KERNEL_BAD_ARGUMENT of kernels.h
SMALL = 4096  # bytes: of the largest block that is cut from a slab
MOST_STARTS = 4096  # records whose launches are remembered
FEW_LAUNCHES = 2  # a graph of no more takes a card longer to start than they take one by one
_NUMBER, _DIMS = struct.Struct("@q"), struct.Struct(f"@{DIMS}q")
_POINTERS = struct.Struct(f"@{POINTERS}P")
_WORK, _WORK_AT = struct.Struct("@i"), 4
_POINTERS_AT = 8
_DIMS_AT = _POINTERS_AT + POINTERS * POINTER_BYTES
_DIMS_END = _DIMS_AT + _DIMS.size
_NAMES = list(SIGNATURES)
_UNARY = _NAMES.index("unary")
_OUTPUTS = 1  # the number of the dim `outputs` of every linear kernel
_ACTIVATIONS = {opcodes("unary")[name][0]: name for _, name in cublas.EPILOGUES if name}
_TYPES = {"f32": CODES[float32], "f16": CODES[float16], "bf16": CODES[bfloat16]}

_Product = tuple[cublas.Plan, str, tuple[int, ...]]  # how it is computed, the kernel's name, its pointers
_Launch = tuple[Any, Any, int, Any]  # function, blocks, threads, shared
_Start = tuple[Any, int, int, int]  # the same, with the numbers for a record


class _Ready:
    """A kernel that is loaded: its launches, the kernel itself last, and its scratch memory."""

    __slots__ = ("check", "counters", "scratch", "steps", "variant")

    def __init__(self, check: _Launch | None, steps: list[_Launch], plan: Plan, variant: Number | None = None) -> None:
        self.check = check
        self.variant = variant  # by which one of others is chosen
        self.steps = steps
        self.scratch, self.counters = plan.scratch, plan.counters

    def needed(self, dims: Sequence[int]) -> tuple[int, int]:
        """Counters, and bytes of scratch memory, for a record."""
        counters, nbytes = (0 if number is None else number(dims) for number in (self.counters, self.scratch))
        return counters, nbytes


@dataclass(frozen=True)
class _Starts:
    """How the kernel of a record is launched, which depends on its dims alone."""

    needed: tuple[int, int] | None  # counters, and bytes of scratch memory; None: the record is wrong
    launches: list[_Start]


@dataclass(frozen=True)
class _Scratch:
    """Scratch memory: `at` an address, after counters that are zero."""

    counters: int
    nbytes: int
    memory: int  # where the counters begin
    at: int


_NO_SCRATCH = _Scratch(0, 0, 0, 0)


class _Arguments:
    """What a kernel is launched with: pointers to the record, to the address of the status, and to that of the scratch
    memory."""

    __slots__ = ("array", "scratch", "status")

    def __init__(self, status: int) -> None:
        self.status = ctypes.c_uint64(status)
        self.scratch = ctypes.c_uint64(0)
        self.array = (ctypes.c_void_p * 3)(0, ctypes.addressof(self.status), ctypes.addressof(self.scratch))


class Stream:
    """A stream of a card: what is launched in it runs in order, beside what is launched in others."""

    __slots__ = ("__weakref__", "backend", "handle", "number")
    _numbers = itertools.count(1)

    def __init__(self, backend: Cuda, priority: int = 0) -> None:
        self.backend, self.number = backend, next(self._numbers)
        self.handle = backend.card.new_stream(priority)
        backend.streams[self.number] = self

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        with contextlib.suppress(KernelError):  # the card is lost, or this process was forked
            # Small blocks that the stream's last kernels use serve any other stream as soon as they are freed.
            self.backend.card.wait_for_stream(self.handle)
            forget_stream(self.backend, self.number)
            self.backend.free_scratch(self.number)
            self.backend.card.end_stream(self.handle)


class _Thread(ThreadLocal):
    """The stream in which a thread launches; None: the card's own."""

    stream: Stream | None = None


class Cuda(Backend):
    """One card."""

    host_visible = False
    own_workspaces = True
    tensor_cores = True
    counts_use = True
    bfloat16_caches = True
    host_helps = True

    def __init__(self, card: Card, index: int | None = None) -> None:
        self.card = card
        self.keeps_softmax = card.capability >= (8, 0)  # whose tensor cores compute it
        self.attention_pairs = 2 * card.multiprocessors if card.pairs else 0  # fewer blocks leave some of them idle
        self.index = index
        self._plans = plans(card.multiprocessors)
        self.kernels = set(self._plans)
        self.cache_limit = max(CACHE_LIMIT, card.total_memory // 4)  # the driver takes milliseconds for large blocks
        self.limit: int | None = None  # bytes that `allocate` gives at most; None: what the card has
        self.allocated = self.peak = 0  # bytes that were allocated: now, and at most
        self.peak_in_use = 0  # the most of them that tensors held, but for small ones
        self._sizes: dict[int, int] = {}
        self._slabs: dict[int, list[int]] = {}  # free small blocks by size
        self._slab_left: tuple[int, int] = (0, 0)  # where the next small block is cut: address, end
        self._modules: dict[tuple[str, str, int], Any] = {}
        self._ready: dict[int, _Ready] = {}
        self._operands: dict[tuple[str, str], _Launch] = {}
        self._variants: dict[tuple[int, int], _Ready] = {}
        self._starts: dict[bytes, _Starts] = {}  # by kernel and dims, as records have them
        self._scratch: dict[int, _Scratch] = {}  # by stream, which is 0 for the card's own
        self._thread = _Thread()
        self._own_stream = card.stream
        self.streams: WeakValueDictionary[int, Stream] = WeakValueDictionary()  # but for its own, by their numbers
        self._products = card.products()
        self._lock = threading.RLock()
        # The kernels' status: a code that later steps read, and the address of a word that the host can read as well.
        seen_at, self._word = card.shared_word()
        self._status = self._memory(ALIGNMENT)
        self.write(HiddenAddress(self._status), struct.pack("@qq", 0, seen_at))
        self._arguments = _Arguments(self._status)

    # ---- streams

    @property
    def stream(self) -> int | None:
        chosen = self._thread.stream
        return None if chosen is None else chosen.number

    @property
    def chosen(self) -> Stream | None:
        return self._thread.stream

    @chosen.setter
    def chosen(self, stream: Stream | None) -> None:
        self._thread.stream = stream

    def new_stream(self) -> Stream:
        return Stream(self)

    def stream_of(self, chosen: Stream | None) -> Any:
        """The card's stream; None is the card's own."""
        return self._own_stream if chosen is None else chosen.handle

    def record_event(self, event: Any, chosen: Stream | None) -> None:
        """Sets a mark of the card after what was launched in a stream. As `hold_stream`, not while a Graph is being
        captured in another thread, which it would become a part of."""
        with self._lock:
            self.card.record_event(event, self.stream_of(chosen))

    def hold_stream(self, chosen: Stream | None, event: Any) -> None:
        """What is launched in a stream from here on waits for the mark."""
        with self._lock:
            self.card.hold_stream(self.stream_of(chosen), event)

    def wait_for_streams(self, number: int | None, others: Sequence[Stream | None]) -> None:
        own = None if number is None else self.streams.get(number)
        if own is None and number is not None:
            return
        event = self.card.new_event(False)
        for other in others:
            self.record_event(event, other)
            self.hold_stream(own, event)
        self.card.end_event(event)  # the driver keeps what the streams wait for

    def enter_stream(self) -> None:
        self.card.stream = self.stream_of(self._thread.stream)

    # ---- memory

    def allocate(self, nbytes: int) -> HiddenAddress | None:
        with self._lock:
            if self.limit is not None and self.allocated + nbytes > self.limit:
                return None
            small = nbytes <= SMALL and self.card.slab > 0
            address = self._cut(nbytes) if small else self.card.allocate(max(nbytes, ALIGNMENT))
            if address is None:
                return None
            self._sizes[address] = nbytes
            self.allocated += nbytes
            self.peak = max(self.peak, self.allocated)
            return HiddenAddress(address)

    def _cut(self, nbytes: int) -> int | None:
        """A small block: a driver takes microseconds and half a kilobyte or more for each that it gives."""
        size = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        free = self._slabs.get(size)
        if free:
            return free.pop()
        at, end = self._slab_left
        if at + size > end:
            slab = self.card.allocate(self.card.slab)
            if slab is None:
                return None
            at, end = slab, slab + self.card.slab
        self._slab_left = at + size, end
        return at

    def free(self, address: HiddenAddress) -> None:
        with self._lock:
            nbytes = self._sizes.pop(address.value)
            self.allocated -= nbytes
            if nbytes <= SMALL and self.card.slab > 0:
                if self.streams:  # one of them may be using it still, and the block may serve any other next
                    self.card.synchronize()
                size = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
                self._slabs.setdefault(size, []).append(address.value)
            else:
                self.card.free(address.value)

    def note_kept(self, nbytes: int) -> None:
        self.peak_in_use = max(self.peak_in_use, self.allocated - nbytes)

    def _memory(self, nbytes: int) -> int:
        """Memory of the device itself. MemoryError where there is none left."""
        address = self.card.allocate(nbytes)
        if address is None:
            trim_backend(self)
            address = self.card.allocate(nbytes)
        if address is None:
            raise MemoryError(f"cannot allocate {nbytes:,} bytes on {self.card.name}: {self.describe_memory()}")
        return address

    def describe_memory(self) -> str:
        found = f"tensors hold {self.allocated:,} bytes of its {self.card.total_memory:,}"
        if self.limit is not None:
            return f"{found}, and the limit is {self.limit:,}"
        return f"{found}, and {self.card.free_memory():,} are free"

    def write(self, address: HiddenAddress, data: Any) -> None:
        view = memoryview(data).cast("B")
        if len(view):
            source = (ctypes.c_ubyte * len(view)).from_buffer(bytearray(view) if view.readonly else view)
            with self._lock:
                self.enter_stream()
                self.card.write(address.value, ctypes.addressof(source), len(view))

    def read(self, address: HiddenAddress, into: Any) -> None:
        view = memoryview(into).cast("B")
        if len(view):
            target = (ctypes.c_ubyte * len(view)).from_buffer(view)
            with self._lock:
                self.enter_stream()
                self.card.read(ctypes.addressof(target), address.value, len(view))
                self._check()

    def copy(self, to: HiddenAddress, source: HiddenAddress, nbytes: int) -> None:
        with self._lock:
            self.enter_stream()
            self.card.copy(to.value, source.value, nbytes)

    def copy_across(self, to: HiddenAddress, other: Backend, source: HiddenAddress, nbytes: int) -> bool:
        if not isinstance(other, Cuda):
            return False
        first, second = sorted((self, other), key=id)  # in one order, or two threads would wait for each other
        with first._lock, second._lock:
            other.enter_stream()
            self.enter_stream()
            return self.card.copy_across(to.value, other.card, source.value, nbytes)

    # ---- kernels

    def run(self, records: bytearray, count: int) -> int:
        with self._lock:
            self.enter_stream()
            self._check()
            return self._launch(records, count, None)

    def launch(self, function: Any, blocks: int, threads: int, shared: int, arguments: Any) -> None:
        """Launches a kernel of the user's own in this thread's stream."""
        with self._lock:
            self.enter_stream()
            self._check()
            self.card.launch(function, blocks, threads, shared, arguments)

    def synchronize(self) -> None:
        with self._lock:
            self.card.synchronize()
            self._check()

    def graph(self, records: bytearray, count: int) -> Callable[[], int]:
        with self._lock:
            self.enter_stream()
            records = fuse(records, count)
            count = len(records) // RECORD_BYTES
            counters = scratch = launches = 0
            for at, product in self._parts(records, count):
                if product is not None:
                    scratch = max(scratch, product[0].workspace)
                    for slot in {slot for piece in product[0].pieces for slot in piece.own}:
                        self._operand(product[1], slot)  # a driver may not load kernels while it captures
                    launches += FEW_LAUNCHES + 1  # the library's own
                    continue
                ready = self._prepare(records, at)
                launches += len(ready.steps) + (ready.check is not None)
                needed = ready.needed(_DIMS.unpack_from(records, at + _DIMS_AT))
                counters, scratch = max(counters, needed[0]), max(scratch, needed[1])
            own = self._new_scratch(counters, scratch)
            if counters:
                self.card.wait_for_stream(self.card.stream)  # the Graph may run in another
            if launches <= FEW_LAUNCHES:
                return _Replay(self, lambda: self._launch(records, count, own), own)
            overlaps = self.card.overlap
            if overlaps:
                for at in range(0, len(records), RECORD_BYTES):
                    _WORK.pack_into(records, at + _WORK_AT, -1)
            try:
                try:
                    recorded = self._recorded(records, count, own, overlaps)
                except MemoryError:
                    trim_backend(self)
                    recorded = self._recorded(records, count, own, overlaps)
            except BaseException:
                if own.memory:
                    self.card.free(own.memory)
                raise
        return _Replay(self, lambda: self.card.run_graph(recorded), own)

    def _recorded(self, records: bytearray, count: int, own: _Scratch, overlaps: bool) -> Any:
        """The launches as a graph of the card."""
        with _no_collection():
            self.card.begin_capture()
            try:
                self._launch(records, count, own, overlaps)
            except BaseException:
                with contextlib.suppress(KernelError, MemoryError):  # the first error tells more
                    self.card.end_capture()
                raise
            return self.card.end_capture()

    def _parts(self, records: bytearray, count: int) -> Iterator[tuple[int, _Product | None]]:
        """Where the records begin, and how NVIDIA's library computes each: None where it does not. What it computes
        together with the one before is left out."""
        at, end = 0, count * RECORD_BYTES
        while at < end:
            if self._products is None:
                yield at, None
            elif (name := _NAMES[int.from_bytes(records[at : at + 4], "little")]) not in cublas.KERNELS:
                yield at, None
            else:
                pointers = _POINTERS.unpack_from(records, at + _POINTERS_AT)
                dims = _DIMS.unpack_from(records, at + _DIMS_AT)
                after = at + RECORD_BYTES
                activation = _activation(name, pointers, dims, records, after) if after < end else ""
                planned = self._products.plan(name, pointers, dims, activation) if activation else None
                if planned is not None:
                    yield at, (planned, name, pointers)
                    at = after
                else:
                    planned = self._products.plan(name, pointers, dims)
                    yield at, None if planned is None else (planned, name, pointers)
            at += RECORD_BYTES

    def _prepare(self, records: bytearray, at: int) -> _Ready:
        """The kernel of the record at byte `at`, compiled and loaded."""
        index = int.from_bytes(records[at : at + 4], "little")
        found = self._ready.get(index)
        if found is None:
            found = self._ready[index] = self._made_ready(self._plans[_NAMES[index]], "", 0)
        if found.variant is None:
            return found
        variant = found.variant(_DIMS.unpack_from(records, at + _DIMS_AT))
        own = self._variants.get((index, variant))
        if own is None:
            own = self._variants[index, variant] = self._made_ready(self._plans[_NAMES[index]], _NAMES[index], variant)
        return own

    def _made_ready(self, plan: Plan, kernel: str, variant: int) -> _Ready:
        """A plan with its functions; for a kernel with variants, which are still to be chosen, without."""
        if plan.variant is not None and self.card.variants and not kernel:
            return _Ready(None, [], plan, plan.variant)
        check = None if plan.check is None else self._load(plan.check, kernel, variant)
        return _Ready(check, [self._load(step, kernel, variant) for step in plan.steps], plan)

    def _load(self, step: Step, kernel: str, variant: int) -> _Launch:
        if not kernel and self.card.variants and step.source in varied():
            variant = NO_VARIANT
        key = step.source, kernel, variant
        if key not in self._modules:
            image = compiled(self.card, *key)
            try:
                self._modules[key] = self.card.load(image)
            except MemoryError:
                trim_backend(self)
                self._modules[key] = self.card.load(image)
        function = self.card.function(self._modules[key], step.function)
        return function, step.blocks, step.threads, step.shared

    def _launch(self, records: bytearray, count: int, scratch: _Scratch | None, overlaps: bool = False) -> int:
        """Launches every record, and returns as `run`; `scratch`: None for the device's own. `overlaps`: a kernel may
        start before the one in front has ended, if that is one of ours, which all wait (native/cuda/gpu.h)."""
        arguments, behind_ours = self._arguments, False
        base = ctypes.addressof(ctypes.c_ubyte.from_buffer(records))
        for at, product in self._parts(records, count):
            if product is not None:
                needed = product[0].workspace
                own = _NO_SCRATCH if not needed else self._scratch_of(0, needed) if scratch is None else scratch
                self._multiply(records, at, *product, own.at)
                behind_ours = False
                continue
            key = bytes(records[at : at + 4] + records[at + _DIMS_AT : at + _DIMS_END])
            starts = self._starts.get(key)
            if starts is None:
                if len(self._starts) >= MOST_STARTS:
                    self._starts.clear()
                dims = _DIMS.unpack_from(records, at + _DIMS_AT)
                starts = self._starts[key] = self._starts_of(self._prepare(records, at), dims)
            if starts.needed is None:  # a size is negative
                return at // RECORD_BYTES << 8 | BAD_ARGUMENT
            arguments.array[0] = base + at
            if any(starts.needed):
                arguments.scratch.value = (self._scratch_of(*starts.needed) if scratch is None else scratch).at
            for start in starts.launches:
                try:
                    self.card.launch(*start, arguments.array, overlaps and behind_ours)
                except MemoryError:  # a kernel's registers may be spilled to memory that the driver has to find
                    if scratch is not None:
                        raise
                    trim_backend(self)
                    self.card.launch(*start, arguments.array)
                except KernelError as error:  # with CUDA_LAUNCH_BLOCKING=1 of this kernel
                    name = _NAMES[int.from_bytes(records[at : at + 4], "little")]
                    raise KernelError(f"{name}: {error.what}", where=error.where, hint=error.hint) from error
                behind_ours = True
        return 0

    def _starts_of(self, ready: _Ready, dims: tuple[int, ...]) -> _Starts:
        wanted = [step[1](dims) for step in ready.steps]
        if min(wanted) < 0:
            return _Starts(None, [])
        steps = ready.steps if ready.check is None or not any(wanted) else [ready.check, *ready.steps]
        found = [self._sized(step, dims) for step in steps]
        return _Starts(ready.needed(dims), [start for start in found if start[1] > 0])

    def _multiply(
        self, records: bytearray, at: int, plan: cublas.Plan, kernel: str, pointers: tuple[int, ...], workspace: int
    ) -> None:
        """Starts a product by NVIDIA's library, after the kernels that make its operands."""
        assert self._products is not None
        for piece in plan.pieces:
            if piece.own:
                arguments = self._arguments
                own = bytearray(records[at : at + RECORD_BYTES])
                _NUMBER.pack_into(own, _DIMS_AT + 8 * cublas.FIRST_OUTPUT, piece.first)
                _NUMBER.pack_into(own, _DIMS_AT + 8 * _OUTPUTS, piece.outputs)
                arguments.array[0] = ctypes.addressof(ctypes.c_ubyte.from_buffer(own))
                dims = _DIMS.unpack_from(own, _DIMS_AT)
                for slot in piece.own:
                    arguments.scratch.value = workspace + piece.made[slot]
                    self._start(self._operand(kernel, slot), dims)
            self.card.start_product(self._products, piece, kernel, pointers, workspace)

    def _operand(self, kernel: str, slot: str) -> _Launch:
        """What makes an operand of a product, compiled and loaded."""
        found = self._operands.get((kernel, slot))
        if found is None:
            found = self._operands[kernel, slot] = self._load(operands()[kernel][slot], "", 0)
        return found

    def _sized(self, launch: _Launch, dims: tuple[int, ...]) -> _Start:
        function, blocks, threads, shared = launch
        # A card with less shared memory than a kernel asks for has no tensor cores, and the kernel then needs less.
        memory = min(shared(dims), self.card.most_shared)
        return function, min(blocks(dims), self.card.most_blocks), threads, memory

    def _start(self, launch: _Launch, dims: tuple[int, ...]) -> None:
        start = self._sized(launch, dims)
        if start[1] > 0:
            self.card.launch(*start, self._arguments.array)

    def _scratch_of(self, counters: int, nbytes: int) -> _Scratch:
        """The scratch memory of this thread's stream, with as much of both."""
        stream = self._thread.stream
        number = 0 if stream is None else stream.number
        found = self._scratch.get(number, _NO_SCRATCH)
        if counters > found.counters or nbytes > found.nbytes:
            counters, nbytes = max(counters, found.counters), max(nbytes, found.nbytes)
            self.free_scratch(number)
            found = self._scratch[number] = self._new_scratch(counters, nbytes)
        return found

    def _new_scratch(self, counters: int, nbytes: int) -> _Scratch:
        before = -(-4 * counters // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        if not before + nbytes:
            return _NO_SCRATCH
        memory = self._memory(before + nbytes)
        if before:
            self.card.clear(memory, before)
        return _Scratch(counters, nbytes, memory, memory + before)

    def free_scratch(self, number: int) -> None:
        """Of a stream that has ended, or needs more."""
        with self._lock:
            found = self._scratch.pop(number, _NO_SCRATCH)
            if found.memory:
                self.card.free(found.memory)  # which waits for the card

    def take_status(self) -> tuple[int, str]:
        """The KERNEL_* code that a kernel has left since this was last asked, 0 for none, and the kernel's name."""
        code = self._word.value
        if not code:
            return 0, ""
        self.card.synchronize()
        self._word.value = 0
        self.enter_stream()  # the one before may have ended
        self.card.clear(self._status, 4)
        self.card.wait_for_stream(self.card.stream)  # a kernel of another stream would see the code, and do nothing
        return code & 0xFF, _NAMES[(code >> 8) - 1]

    def raise_errors(self) -> None:
        """Raises what kernels have found wrong until now."""
        with self._lock:
            self._check()

    def _check(self) -> None:
        """Raises what a kernel has found wrong."""
        if self._word.value:
            fail(*self.take_status(), earlier=True)


def _activation(name: str, pointers: Sequence[int], dims: Sequence[int], records: bytearray, after: int) -> str:
    """The activation that the record at byte `after` computes in place of the result of a dense linear layer; "" where
    it is none that NVIDIA's library has."""
    kind = "f32" if name in cublas.MIXED else cublas.LINEAR.get(name)
    if kind is None or int.from_bytes(records[after : after + 4], "little") != _UNARY:
        return ""
    rows, outputs, _, stride = dims[:4]
    opcode, of, count = _DIMS.unpack_from(records, after + _DIMS_AT)[:3]
    own = _POINTERS.unpack_from(records, after + _POINTERS_AT)[:2]
    fits = own == (pointers[0],) * 2 and count == rows * outputs and (stride == outputs or rows == 1)
    return _ACTIVATIONS.get(opcode, "") if fits and of == _TYPES[kind] else ""


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage is collected, whose memory would be freed: a driver allows that in no thread that captures a graph."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Replay:
    """Starts what a Graph repeats: a captured graph of the card, or a few launches."""

    __slots__ = ("_device", "_scratch", "_start")

    def __init__(self, device: Cuda, start: Callable[[], Any], scratch: _Scratch) -> None:
        self._device, self._start, self._scratch = device, start, scratch

    def __call__(self) -> int:
        device = self._device
        with device._lock:
            device.enter_stream()
            device._check()
            return self._start() or 0

    def __del__(self) -> None:
        if self._scratch.memory and not sys.is_finalizing():
            with contextlib.suppress(KernelError):  # the card is lost, or this process was forked
                self._device.card.free(self._scratch.memory)


def open_device(index: int | None) -> Backend:
    """The card with this number. RuntimeError where there is no driver or card: it says what is missing."""
    return Cuda(nvidia.open_card(index or 0), index or 0)

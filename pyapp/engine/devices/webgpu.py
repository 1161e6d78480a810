"""The graphics card of a browser, by WebGPU (docs/webgpu.md): memory of the card, and the kernels of native/webgpu.

A shader reads whole buffers and knows no pointers. So the card's memory is a few large buffers, the arenas. Together
they fill 32 bits of addresses, as those of WebAssembly: an address says in which arena it lies, and where. A kernel
gets the arenas of its pointers, each once, and the launch record with the places in them.

Kernels run after the call that launches them has returned. What one of them finds wrong is raised by the next call that
waits for the card, with the kernel's name. Waiting stops Python until a promise of the browser has come (JSPI).
"""

from __future__ import annotations

import bisect
import ctypes
import json
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from ...dataclass import dataclass
from ...errors import KernelError
from ..device import Backend, HiddenAddress
from ..gpu import wgsl
from ..launch import KERNELS, LARGEST_WORK, MissingKernel
from ..native import DIMS, FLOATS, IN_BROWSER, POINTER_BYTES, POINTERS, RECORD, RECORD_BYTES, SIGNATURES, fail
from ..storage import CAPTURES
from .pool import Ranges

ARENA = 64 << 20  # bytes of an arena for small blocks
ARENA_ALIGNMENT = 256  # bytes
LARGEST_ARENA = (1 << 31) - ARENA_ALIGNMENT  # bytes: shaders count them with 31 bits
OWN_ARENA = 16 << 20  # bytes from which a block has an arena of its own
SPACE = (1 << 32) - ARENA_ALIGNMENT  # where addresses end; 0 is not an address
PIECE = 16 << 20  # bytes that are read at a time
LARGEST_NUMBER = (1 << 31) - (1 << 24)  # of a dim: shaders count with 32 bits
SMALLEST_BETWEEN = 1 << 16  # bytes
MOST_KINDS = 4096  # of records that are remembered
BAD_ARGUMENT = 3  # KERNEL_BAD_ARGUMENT of kernels.h
_NAMES = list(SIGNATURES)
_START = struct.Struct("<4i")  # the program with its memory; groups in x, y, z
# A start has 256 bytes of numbers: a record, and the place of what its steps leave.
_BEHIND = struct.Struct(f"<I{252 - RECORD_BYTES}x") if IN_BROWSER else struct.Struct("<I")
_POINTERS_AT = 8  # in a record
_DIMS_AT = _POINTERS_AT + POINTERS * POINTER_BYTES
_DIMS_END = _DIMS_AT + 8 * DIMS
_WIDE = ("number", "first", "second", "start", "step", "a_bits", "b_bits", "seed", "offset")  # numbers of 64 bits
ADVICE = "Models compute on the processor without it"


@dataclass(frozen=True)
class Arena:
    """A buffer of the card, and which addresses are its."""

    begin: int
    end: int
    buffer: int  # its number
    ranges: Ranges


class Kernel:
    """A kernel of a source: what of its records this device looks at."""

    __slots__ = ("counts", "index", "name", "pointers", "program", "programs")

    def __init__(self, index: int) -> None:
        self.index, self.name = index, _NAMES[index]
        self.program = wgsl.programs()[self.name]
        kernel = KERNELS[self.name]
        self.pointers = struct.Struct(f"<{len(kernel.pointers)}I")
        self.counts = [at for at, slot in enumerate(kernel.dims) if not slot.startswith(_WIDE)]
        self.programs = *self.program.steps, self.program


@dataclass(frozen=True)
class Part:
    """What one start of a kernel runs: the number of the program among the kernel's, the constants of its text, whether
    it writes atomics, and the groups of threads in x and y."""

    number: int
    constants: tuple[int, ...]
    atomic: bool
    groups: tuple[int, int]


@dataclass(frozen=True)
class Kind:
    """Records of a kernel with the same dims: their starts, None where the record is wrong; and the bytes that these
    leave for those after them."""

    kernel: Kernel
    parts: tuple[Part, ...] | None
    between: int


class Between:
    """Memory that the steps of kernels leave for those after them, as long as a graph or the device uses it."""

    __slots__ = ("address", "backend", "size")

    def __init__(self, backend: Webgpu, size: int) -> None:
        address = backend.allocate(size)
        if address is None:
            raise MemoryError(f"cannot allocate {size:,} bytes on webgpu for a kernel: {backend.describe_memory()}")
        self.backend, self.address, self.size = backend, address, size

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self.backend.free(self.address)


class Webgpu(Backend):
    """The card. `card` is the GraphicsCard of web/modules/worker/webgpu.js, `wait` gives the result of its promises."""

    host_visible = False
    own_workspaces = True
    host_helps = True

    def __init__(self, card: Any, wait: Callable[[Any], Any]) -> None:
        self.card, self._wait = card, wait
        self.name = str(card.name)
        self.largest = min(int(card.largest), LARGEST_ARENA)  # bytes of an arena, and so of a tensor
        self.kernels = set(wgsl.programs())
        self._dots = bool(card.dotProducts)
        self._space = Ranges(ARENA_ALIGNMENT, SPACE, lambda size: False)
        self._full = False  # whether the card had no memory for the last block that was asked for
        self._begins: list[int] = []
        self._arenas: list[Arena] = []  # by where they begin
        self._kernels: dict[int, Kernel] = {}
        self._kinds: dict[bytes, Kind] = {}  # by kernel and dims, as records have them
        self._programs: dict[Any, int] = {}
        self._between: Between | None = None
        self._calls: dict[Any, tuple[int, tuple[int, ...]]] = {}  # the number, and the buffers
        functions = card.functions
        one, two, four = (ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count) for count in (1, 2, 4))
        self._run, self._replay, self._write = two(functions.run), one(functions.replay), four(functions.write)

    @property
    def allocated(self) -> int:
        """Bytes in use."""
        return sum(arena.ranges.allocated for arena in self._arenas)

    @property
    def reserved(self) -> int:
        """Bytes of the arenas."""
        return sum(arena.end - arena.begin for arena in self._arenas)

    # ---- memory

    def allocate(self, nbytes: int) -> HiddenAddress | None:
        if nbytes > self.largest - ARENA_ALIGNMENT:
            self._set_full(True)
            raise MemoryError(
                f"cannot allocate {nbytes:,} bytes on webgpu: the largest buffer of this graphics card ({self.name}) "
                f"has {self.largest:,}"
            )
        if nbytes < OWN_ARENA:
            for arena in self._arenas:
                if arena.end - arena.begin == ARENA and (address := arena.ranges.take(nbytes)) is not None:
                    return HiddenAddress(address)
        made = self._new_arena(ARENA if nbytes < OWN_ARENA else nbytes)
        if made is None and nbytes < OWN_ARENA:
            made = self._new_arena(nbytes)
        if self._full != (made is None):
            self._set_full(made is None)
        return None if made is None else HiddenAddress(made.ranges.take(nbytes))  # type: ignore[arg-type]

    def _set_full(self, full: bool) -> None:
        """The page is told what to do where the card has no memory left."""
        self._full = self.card.full = full

    def _new_arena(self, nbytes: int) -> Arena | None:
        size = max(ARENA_ALIGNMENT, -(-min(nbytes, self.largest) // ARENA_ALIGNMENT) * ARENA_ALIGNMENT)
        begin = self._space.take(-(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT)
        if begin is None:
            return None
        # While Python waits for the card, other tasks run, whose kernels a capture would take for its own.
        buffer = int(self.card.allocateNow(size) if CAPTURES.count else self._wait(self.card.allocate(size)))
        if buffer <= 0:
            self._space.give(begin)
            if buffer:
                self._fail()
            return None
        arena = Arena(begin, begin + size, buffer, Ranges(begin, begin + size, lambda size: False))
        at = bisect.bisect(self._begins, begin)
        self._begins.insert(at, begin)
        self._arenas.insert(at, arena)
        return arena

    def free(self, address: HiddenAddress) -> None:
        arena = self._arena(address.value)
        arena.ranges.give(address.value)
        if arena.ranges.allocated or (arena.end - arena.begin == ARENA and len(self._arenas) == 1):
            return
        at = self._begins.index(arena.begin)
        del self._begins[at], self._arenas[at]
        self._space.give(arena.begin)
        gone = [key for key, (_, buffers) in self._calls.items() if arena.buffer in buffers]
        self.card.drop(arena.buffer, *[self._calls.pop(key)[0] for key in gone])

    def _arena(self, address: int) -> Arena:
        return self._arenas[bisect.bisect_right(self._begins, address) - 1]

    def describe_memory(self) -> str:
        return f"tensors hold {self.allocated:,} bytes of the graphics card"

    def write(self, address: HiddenAddress, data: Any) -> None:
        view = memoryview(data).cast("B")
        if not len(view):
            return
        arena, at = self._arena(address.value), address.value
        before, after = at & 3, -(at + len(view)) & 3
        if before or after:  # cards write whole words
            whole = bytearray(before + len(view) + after)
            self._read(at - before, whole)
            whole[before : before + len(view)] = view
            view, at = memoryview(whole), at - before
        source = data if type(data) is bytes and at == address.value and not after else _pointer(view)
        if self._write(arena.buffer, at - arena.begin, source, len(view)):
            self._fail()

    def read(self, address: HiddenAddress, into: Any) -> None:
        view = memoryview(into).cast("B")
        at = address.value
        before, after = at & 3, -(at + len(view)) & 3
        if before or after:
            whole = bytearray(before + len(view) + after)
            self._read(at - before, whole)
            view[:] = whole[before : before + len(view)]
        elif len(view):
            self._read(at, view)

    def _read(self, address: int, into: Any) -> None:
        """Reads whole words."""
        view = memoryview(into).cast("B")
        arena = self._arena(address)
        target = (ctypes.c_ubyte * len(view)).from_buffer(view)
        for done in range(0, len(view), PIECE):
            size = min(PIECE, len(view) - done)
            place = address - arena.begin + done
            self._report(self._wait(self.card.read(arena.buffer, place, ctypes.addressof(target) + done, size)))

    def copy(self, to: HiddenAddress, source: HiddenAddress, nbytes: int) -> None:
        kernel = KERNELS["copy_bytes"]
        record = kernel.layout.pack(kernel.index, min(nbytes >> 10, LARGEST_WORK), to.value, source.value, nbytes)
        self.run(bytearray(record), 1)

    # ---- kernels

    def run(self, records: bytearray, count: int) -> int:
        starts, number, failed = self._starts(records, count)
        if failed:
            return failed
        if number and self._run(starts, number):
            self._fail()
        return 0

    def _starts(self, records: bytearray, count: int) -> tuple[bytes, int, int]:
        """What the card is to start for records, how many starts that is; and 0, or what is wrong, as of `run`.
        MissingKernel for a record that no source computes."""
        kinds, between = [], 0
        for at in range(0, count * RECORD_BYTES, RECORD_BYTES):
            key = bytes(records[at : at + 4] + records[at + _DIMS_AT : at + _DIMS_END])
            kind = self._kinds.get(key)
            if kind is None:
                if len(self._kinds) >= MOST_KINDS:
                    self._kinds.clear()
                kind = self._kinds[key] = self._kind_of(records, at)
            if kind.parts is None:
                return b"", 0, at // RECORD_BYTES << 8 | BAD_ARGUMENT
            kinds.append(kind)
            between = max(between, kind.between)
        if between and (self._between is None or self._between.size < between):
            self._between = Between(self, max(between, SMALLEST_BETWEEN))
        made: list[bytes | bytearray] = []
        for at, kind in zip(range(0, count * RECORD_BYTES, RECORD_BYTES), kinds, strict=True):
            kernel, end = kind.kernel, at + _POINTERS_AT + kind.kernel.pointers.size
            pointers = kernel.pointers.unpack_from(records, at + _POINTERS_AT)
            for part in kind.parts or ():
                call, places = self._call(kernel, part, pointers)
                own, behind = places[: len(pointers)], places[len(pointers) :]
                made += (
                    _START.pack(call, *part.groups, 1), records[at : at + _POINTERS_AT], kernel.pointers.pack(*own),
                    records[end : at + RECORD_BYTES], _BEHIND.pack(*behind or [0]),
                )  # fmt: skip
        return b"".join(made), len(made) // 5, 0

    def _kind_of(self, records: bytearray, at: int) -> Kind:
        """How the record at byte `at` is run. MissingKernel where no source computes it."""
        index, _, *values = RECORD.unpack_from(records, at)
        kernel = self._kernels.get(index)
        if kernel is None:
            kernel = self._kernels[index] = Kernel(index)
        dims, program = values[POINTERS:-FLOATS], kernel.program
        takes = program.takes is None or program.takes(dims) != 0
        if not takes or any(abs(dims[slot]) > LARGEST_NUMBER for slot in kernel.counts):
            constants = {slot: int(number(dims)) for slot, number in program.constants.items()}
            found = ", ".join(f"{slot} {value}" for slot, value in constants.items()) or "such sizes"
            raise MissingKernel(f"webgpu has no kernel '{kernel.name}' for {found}")
        parts = []
        for number, one in enumerate(kernel.programs):
            groups = one.groups(dims)
            if groups < 0:
                return Kind(kernel, None, 0)
            if groups:
                x = min(groups, wgsl.MOST_GROUPS)
                atomic = one.atomic is not None and one.atomic(dims) != 0
                fixed = tuple(int(constant(dims)) for constant in one.constants.values())
                parts.append(Part(number, fixed, atomic, (x, -(-groups // x))))
        between = 0 if program.between is None else program.between(dims)
        return Kind(kernel, tuple(parts), between if parts else 0)

    def _call(self, kernel: Kernel, part: Part, pointers: tuple[int, ...]) -> tuple[int, list[int]]:
        """The number of a program with its memory, compiled; and where its slots are in their buffers."""
        buffers: list[int] = []
        memory: list[int | None] = []
        places = []
        slots = len(kernel.programs[part.number].slots)
        if slots > len(pointers):
            assert self._between is not None
            pointers = *pointers, self._between.address.value
        for address in pointers:
            if not address:
                memory.append(None)
                places.append(0)
                continue
            arena = self._arenas[bisect.bisect_right(self._begins, address) - 1]
            if arena.buffer not in buffers:
                buffers.append(arena.buffer)
            memory.append(buffers.index(arena.buffer))
            places.append(address - arena.begin)
        key = kernel.index, part.number, part.constants, part.atomic, *memory, *buffers
        found = self._calls.get(key)
        if found is None:
            if len(buffers) > int(self.card.most):
                raise MissingKernel(f"webgpu: '{kernel.name}' needs more buffers than this graphics card allows")
            program = self._program(kernel, part.number, part.constants, part.atomic, memory)
            found = self._calls[key] = int(self.card.bind(program, *buffers)), tuple(buffers)
        return found[0], places

    def _program(
        self, kernel: Kernel, number: int, constants: tuple[int, ...], atomic: bool, memory: list[int | None]
    ) -> int:
        """The number of a program's text; `memory`: in which of its buffers each slot is."""
        key = kernel.index, number, constants, atomic, *memory
        found = self._programs.get(key)
        if found is None:
            program = kernel.programs[number]
            written = {at for at, writes in zip(memory, program.written, strict=True) if writes}
            count = 1 + max((at for at in memory if at is not None), default=-1)
            kinds = "".join("w" if at in written else "r" for at in range(count))
            text = wgsl.text_of(program, constants, memory, kinds, atomic, self._dots)
            name = json.dumps([kernel.name, number, constants, atomic, memory])
            found = self._programs[key] = int(self.card.compile(text, kinds, name))
        return found

    def foresee(self) -> None:
        """Lets the browser compile what earlier visits have used, while models are read; and remembers what this one
        uses."""
        names = self._wait(self.card.remember())
        for name in names.to_py():
            try:
                of, number, constants, atomic, memory = json.loads(name)
                kernel = Kernel(_NAMES.index(of))
                program = kernel.programs[number]
                if len(constants) == len(program.constants) and len(memory) == len(program.slots):
                    self.card.compileAhead(self._program(kernel, number, tuple(constants), atomic, memory))
            except (KeyError, ValueError, IndexError, TypeError):  # of another version of this package
                continue

    def graph(self, records: bytearray, count: int) -> Callable[[], int]:
        starts, number, failed = self._starts(records, count)
        if failed:
            return lambda: failed
        return _Replay(self, starts, number)

    def synchronize(self) -> None:
        self._report(self._wait(self.card.read(0, 0, 0, 0)))

    # ---- what is wrong

    def _report(self, status: int) -> None:
        """Raises what `read` of the card gave."""
        if status < 0:
            self._fail()
        if status:
            fail(status & 0xFF, _NAMES[status >> 8], earlier=True)

    def _fail(self) -> NoReturn:
        """Raises what the card says."""
        lost, problem = self.card.lost, self.card.problem
        if lost:
            hint = f"Reload the page. {ADVICE}"
            raise KernelError(f"the graphics card is not there any more: {lost}", where=self.name, hint=hint)
        self.card.problem = ""
        raise KernelError(f"the browser refuses what the graphics card is to do: {problem}", where=self.name)


class _Replay:
    """Starts that the card keeps, as long as this function lives."""

    def __init__(self, backend: Webgpu, starts: bytes, count: int) -> None:
        self._backend, self._between = backend, backend._between
        memory = _pointer(starts)
        self._number = int(backend.card.keep(ctypes.addressof(memory), count))

    def __call__(self) -> int:
        if self._backend._replay(self._number):
            self._backend._fail()
        return 0

    def __del__(self) -> None:
        self._backend.card.forget(self._number)


def _pointer(data: Any) -> Any:
    view = memoryview(data).cast("B")
    if view.readonly:
        view = memoryview(bytearray(view))
    return (ctypes.c_ubyte * len(view)).from_buffer(view)


def open_with(opener: Any) -> Webgpu:
    """The backend of the card that `opener()`, a function of the worker, opens. RuntimeError where there is none."""
    if opener is None or not IN_BROWSER:
        return open_device(None)
    from pyodide.ffi import can_run_sync, run_sync

    if not can_run_sync():
        raise RuntimeError(
            "Python cannot wait for a graphics card: this browser has no JavaScript Promise Integration (JSPI), or "
            f"JavaScript has called Python without a promise. {ADVICE}"
        )
    card = run_sync(opener())
    if isinstance(card, str):
        raise RuntimeError(f"{card}. {ADVICE}")
    return Webgpu(card, run_sync)


def open_device(index: int | None) -> NoReturn:
    """RuntimeError: a page opens the card with `open_with`."""
    where = "pyapp's page has not started this Python" if IN_BROWSER else "this Python does not run in one"
    raise RuntimeError(f"WebGPU belongs to browsers, and {where}")

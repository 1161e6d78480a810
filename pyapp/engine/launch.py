"""Launch records: a kernel call is a record; eager execution runs one, a Graph replays those that a function left
behind. Kernels take tensors, never bare addresses: a Graph keeps the memory that its records point to.
"""

from __future__ import annotations

import keyword
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial, wraps
from sys import float_info
from typing import Any

from .device import Device, HiddenAddress, cpu
from .native import DIMS, FLOATS, POINTER_BYTES, POINTERS, SIGNATURES, fail, library
from .storage import CAPTURES, GraphPools, Storage, use_pools
from .thread_local import ThreadLocal

LARGEST_WORK = 2**31 - 1  # what a record can say
# A kernel is compiled after so many calls. In Pyodide that takes one to four milliseconds, which fewer do not repay.
GENERAL_CALLS = 128


class MissingKernel(NotImplementedError):
    """A device has no kernel of that name."""


class Kernel:
    """One kernel of native/kernels.h: its index, its slots, and functions that take them in order: pointers (a Tensor,
    a Storage, a Part; None where the name ends in "?"), dims, floats.

    `launch(work, *slots)` runs it where its first tensor lies; `record(work, *slots)` packs the record of the CPU.
    `work` is the cost in thousands of multiply-adds or elements. The first calls are general; then both are compiled.
    """

    __slots__ = ("calls", "dims", "floats", "index", "launch", "launch_there", "layout", "name", "pointers", "record")
    launch: Any
    launch_there: Any
    record: Any

    def __init__(self, index: int, name: str, signature: str) -> None:
        self.pointers, self.dims, self.floats = (group.split() for group in signature.split("|"))
        pointers, dims, floats = len(self.pointers), len(self.dims), len(self.floats)
        layout = f"@ii{pointers}P{(POINTERS - pointers) * POINTER_BYTES}x{dims}q{(DIMS - dims) * 8}x{floats}f"
        self.index = index
        self.name = name
        self.calls = 0
        self.layout = struct.Struct(layout + f"{(FLOATS - floats) * 4}x")

    def __getattr__(self, name: str) -> Any:
        if name in ("launch", "record") and self.calls < GENERAL_CALLS:
            self.calls += 1
            return partial(_launch_any if name == "launch" else _record_any, self)
        if name == "launch":
            self.launch = self._compile(_LAUNCH, {"_run": library.pyapp_run, "_run_short": library.pyapp_run_short})
            return self.launch
        if name == "launch_there":
            self.launch_there = self._compile(_LAUNCH_THERE, {})
            return self.launch_there
        if name == "record":
            self.record = self._compile(_RECORD, {})
            return self.record
        raise AttributeError(f"a kernel has no attribute {name!r}")

    def general_launch(self) -> Any:
        """`launch`, not compiled."""
        return partial(_launch_any, self)

    def _compile(self, template: str, more: dict[str, Any]) -> Any:
        tensors = [_identifier(name.rstrip("?")) for name in self.pointers]
        slots = list(zip(tensors, self.pointers, strict=True))

        def of_each(text: str, absent: str) -> list[str]:
            """`text` for each pointer, or `absent` where an optional one is None."""
            return [
                f"({absent} if {name} is None else {text.format(name)})" if slot.endswith("?") else text.format(name)
                for name, slot in slots
            ]

        always = [name for name, slot in slots if not slot.endswith("?")]
        numbers = [_identifier(name) for name in (*self.dims, *self.floats)]
        source = template.format(
            slots=", ".join([*tensors, *numbers]), first=always[0],
            packed=", ".join([*of_each("{}.address", "0"), *numbers]),
            visible=", ".join([*of_each("_at({}.address)", "0"), *numbers]),
            together=" and ".join(of_each("{}.device is _device", "True")),
            tensors="".join(f"{name}, " for name in tensors), numbers="".join(f"{name}, " for name in numbers),
        )  # fmt: skip
        names: dict[str, Any] = {  # with an underscore: no slot is called so
            "_kernel": self, "_index": self.index, "_name": self.name, "_pack": self.layout.pack,
            "_error": struct.error, "_cpu": cpu, "_fail": fail,
            "_captures": CAPTURES, "_carefully": _pack_carefully, "_elsewhere": _run_elsewhere, "_at": _visible,
            **more,
        }  # fmt: skip
        exec(compile(source, f"<{self.name}>", "exec"), names)
        return names["_made"]

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join([*self.pointers, *self.dims, *self.floats])})>"


def _identifier(slot: str) -> str:
    return slot + "_" if keyword.iskeyword(slot) else slot


def _visible(address: Any) -> Any:
    """An address as the device's own functions take it."""
    return address.value if type(address) is HiddenAddress else address


# Every eager call runs this: one frame. Captures go through _run_elsewhere.
_LAUNCH = """
def _made(_work, {slots}):
    if _captures.count:
        return _elsewhere(((_kernel, _work, ({tensors}), ({numbers})),))
    if {first}.device is not _cpu:
        return _kernel.launch_there(_work, {slots})
    try:
        _record = _pack(_index, _work, {packed})
    except _error:
        _record = _carefully(_cpu, _kernel, _work, ({tensors}), ({numbers}))
    _status = _run_short(_record) if _work < 4 else _run(_record, 1)
    if _status:
        _fail(_status, _name)
"""
# The same on other devices. What is wrong goes through _run_elsewhere, which says what.
_LAUNCH_THERE = """
def _made(_work, {slots}):
    _device = {first}.device
    _backend = _device.backend
    if not (_name in _backend.kernels and {together}):
        return _elsewhere(((_kernel, _work, ({tensors}), ({numbers})),))
    try:
        _record = bytearray(_pack(_index, _work, {visible}))
    except _error:
        return _elsewhere(((_kernel, _work, ({tensors}), ({numbers})),))
    _status = _backend.run(_record, 1)
    if _status:
        _fail(_status, _name)
"""
_RECORD = """
def _made(_work, {slots}):
    try:
        return _pack(_index, _work, {packed})
    except _error:
        return _carefully(_cpu, _kernel, _work, ({tensors}), ({numbers}))
"""


def _launch_any(kernel: Kernel, work: int, *slots: Any) -> None:
    """Kernel.launch, not compiled."""
    count = len(kernel.pointers)
    tensors, numbers = slots[:count], slots[count:]
    if CAPTURES.count or next(t for t in tensors if t is not None).device is not cpu:
        _run_elsewhere(((kernel, work, tensors, numbers),))
        return
    record = _pack_carefully(cpu, kernel, work, tensors, numbers)
    status = library.pyapp_run_short(record) if work < 4 else library.pyapp_run(record, 1)
    if status:
        fail(status, kernel.name)


def _record_any(kernel: Kernel, work: int, *slots: Any) -> bytes:
    """Kernel.record, not compiled."""
    count = len(kernel.pointers)
    return _pack_carefully(cpu, kernel, work, slots[:count], slots[count:])


def _pack_carefully(device: Device, kernel: Kernel, work: int, tensors: Any, numbers: Any) -> bytes:
    """A record whose work may be beyond 32 bits; or an error that names the cause. RuntimeError for tensors on several
    devices, MemoryError for sizes that no record holds, ValueError for numbers that no float holds."""
    for tensor in tensors:
        if tensor is not None and tensor.device is not device:
            found = sorted({str(t.device) for t in tensors if t is not None})
            raise RuntimeError(f"tensors are on {' and '.join(found)}; move them to one device with .to(device)")
    addresses = (0 if t is None else t.address for t in tensors)
    values = [a.value if isinstance(a, HiddenAddress) else a for a in addresses]
    try:
        return kernel.layout.pack(kernel.index, min(work, LARGEST_WORK), *values, *numbers)
    except struct.error as error:
        for slot, number in zip((*kernel.dims, *kernel.floats), numbers, strict=True):
            if not isinstance(number, (int, float)) and not hasattr(number, "__index__"):
                raise TypeError(f"{kernel.name}: {slot} is a number, not {type(number).__name__}") from None
        if any(isinstance(number, int) and abs(number) > float_info.max for number in numbers[len(kernel.dims) :]):
            raise ValueError(f"{kernel.name}: a whole number is beyond what a float holds") from None
        slots = ", ".join(f"{slot} {number}" for slot, number in zip(kernel.dims, numbers, strict=False))
        raise MemoryError(f"{kernel.name}: a size is beyond what memory can hold ({slots}): {error}") from error


class _Thread(ThreadLocal):
    """The capture of this thread."""

    recorder: Recorder | None = None


_thread = _Thread()
KERNELS = {name: Kernel(i, name, signature) for i, (name, signature) in enumerate(SIGNATURES.items())}


class Part:
    """The memory of a tensor or storage from byte `nbytes` on, for a kernel."""

    __slots__ = ("_storage", "address", "device")

    def __init__(self, of: Any, nbytes: int) -> None:
        self._storage = of._storage
        self.address = of.address + nbytes
        self.device = of.device


Call = tuple[Kernel, int, tuple[Any, ...], tuple[Any, ...]]  # kernel, work, tensors, numbers


def _run_elsewhere(calls: tuple[Call, ...]) -> None:
    """Runs kernels on the device of their tensors, and records them where a Graph is being captured."""
    device: Device = next(t.device for t in calls[0][2] if t is not None)
    backend = device.backend
    packed = []
    for kernel, work, tensors, numbers in calls:
        if kernel.name not in backend.kernels:
            raise MissingKernel(f"{device} has no kernel '{kernel.name}'")
        packed.append(_pack_carefully(device, kernel, work, tensors, numbers))
    records = bytearray().join(packed)
    status = backend.run(records, len(calls))
    if status:
        fail(status, calls[status >> 8][0].name)
    recorder = _thread.recorder
    if recorder is not None:
        recorder.add(device, records, calls)


def launch_all(work: int, *calls: tuple[Any, ...]) -> None:
    """Several kernels, each (kernel, *slots) reading what those before it wrote, in one call."""
    if calls[0][1].device is not cpu or CAPTURES.count:
        _run_elsewhere(tuple((c[0], work, c[1 : 1 + len(c[0].pointers)], c[1 + len(c[0].pointers) :]) for c in calls))
        return
    status = library.pyapp_run(b"".join([call[0].record(work, *call[1:]) for call in calls]), len(calls))
    if status:
        fail(status, calls[status >> 8][0].name)


def launch_records(records: list[bytes], kernels: list[Kernel]) -> None:
    """Records of these kernels (Kernel.record), of the CPU and outside captures, in one call."""
    status = library.pyapp_run(b"".join(records), len(records))
    if status:
        fail(status, kernels[status >> 8].name)


class Recorder:
    """Collects the records of a function while it runs, the memory that they point to, and what a replay depends on."""

    def __init__(self, pools: GraphPools, gives_up: bool = False) -> None:
        self.pools = pools
        self.copied: Mapping[int, Any] = {}  # what the function gets a copy of, by the id of the copy's storage
        self.gives_up = gives_up  # at what cannot be recorded: the function runs on, unrecorded. Else that raises.
        self.reason: str | None = None  # why it has given up
        self.passing = False  # whether the next run of the function may be recorded
        self.parts: list[tuple[Device, bytearray, list[str]] | Callable[[], None]] = []  # records, or a foreign call
        self.kept: dict[int, Any] = {}
        self.actions: list[Callable[[], None]] = []  # of the host, before each replay
        self.at_end: list[Callable[[], None]] = []  # when the function has ended
        self.shared: dict[Any, Any] = {}  # what several actions have in common
        self.settings: dict[tuple[int, str], tuple[Any, str, Any]] = {}  # object, attribute, value
        self.conditions: list[Callable[[], bool]] = []
        self.gradients: dict[int, tuple[Any, bool, Any]] = {}  # leaf, requires_grad, what its `grad` must be

    def add(self, device: Device, records: bytearray, calls: tuple[Call, ...]) -> None:
        """Adds records that have run on `device`."""
        last = self.parts[-1] if self.parts else None
        if not isinstance(last, tuple) or last[0] is not device:
            last = device, bytearray(), []
            self.parts.append(last)
        last[1].extend(records)
        last[2].extend(kernel.name for kernel, *_ in calls)
        for _, _, tensors, _ in calls:
            for tensor in tensors:
                if tensor is not None:
                    self.keep(tensor._storage)

    def keep(self, storage: Storage) -> None:
        """Keeps memory alive that is not the Graph's own."""
        if not self.pools.own(storage):
            self.kept[id(storage)] = storage

    @property
    def names(self) -> list[str]:
        """The kernels that were recorded."""
        return [name for part in self.parts if isinstance(part, tuple) for name in part[2]]


def record_call(call: Callable[[], None], tensors: tuple[Any, ...]) -> None:
    """Adds a call that is not of this library (a kernel of the user's own), which reads and writes `tensors`, to the
    Graph that is being recorded."""
    recorder = _thread.recorder
    if recorder is not None:
        recorder.parts.append(call)
        for tensor in tensors:
            recorder.keep(tensor._storage)


def recorder() -> Recorder | None:
    """What records this thread's Graph; None outside captures."""
    return _thread.recorder


def run_at_replays(call: Callable[[], None]) -> None:
    """Runs `call()` now, and again before each replay of the Graph that is being recorded: for what the host counts and
    for numbers that it writes. The call's own kernels are not recorded, and it must not read what kernels compute."""
    recorder = _thread.recorder
    if recorder is None:
        call()
        return
    recorder.actions.append(call)
    with _unrecorded(recorder):
        call()


@contextmanager
def _unrecorded(recorder: Recorder) -> Iterator[None]:
    """What runs in this block is not recorded, and its memory is not the Graph's."""
    _thread.recorder = None
    use_pools(None)
    try:
        yield
    finally:
        _thread.recorder = recorder
        use_pools(recorder.pools)


def run_in_order(prepare: Callable[[], Callable[[], Any]], tensors: tuple[Any, ...]) -> None:
    """Runs the function that `prepare()` gives now, and again at this place among the kernels in each replay of the
    Graph that is being recorded: for what the host does with `tensors` between two kernels, such as a sum over
    processes. The function's own kernels are not recorded."""
    recorder = _thread.recorder
    if recorder is None:
        prepare()()
        return
    with _unrecorded(recorder):
        call = prepare()
        call()
    record_call(call, tensors)


def note_setting(of: Any, name: str) -> None:
    """Tells the Graph that is being recorded that it holds while this attribute is the same object."""
    recorder = _thread.recorder
    if recorder is not None:
        recorder.settings[id(of), name] = of, name, getattr(of, name)


_ANY: Any = object()


def note_gradient(leaf: Any, gradient: Any = _ANY) -> None:
    """Tells the Graph that is being recorded that the `grad` of a leaf was read; without a gradient, that it was set.
    What was read first must be there at a replay, unless it was set before."""
    recorder = _thread.recorder
    if recorder is not None and id(leaf) not in recorder.gradients:
        recorder.gradients[id(leaf)] = leaf, leaf._requires_grad, gradient


def capturing() -> bool:
    """Whether this thread is recording a Graph."""
    return _thread.recorder is not None


def stop_capture(reason: str, passing: bool = False) -> None:
    """While a Graph is being recorded: raises RuntimeError, or ends the recording where it may be given up. `passing`:
    the function may be recorded another time."""
    recorder = _thread.recorder
    if recorder is None:
        return
    if not recorder.gives_up:
        raise RuntimeError(f"capture: {reason}")
    recorder.reason, recorder.passing = reason, passing
    _thread.recorder = None
    use_pools(None)


def refuse_capture(name: str) -> None:
    """stop_capture: `name` is computed by Python or NumPy and would not be replayed."""
    if _thread.recorder is not None:
        stop_capture(
            f"there is no kernel for '{name}' with these dtypes and layouts: the host computes it or reads the tensor, "
            "so it cannot be replayed"
        )


class Graph:
    """The launch records of one run of a function. `replay()` runs them again, in one call, with the present values of
    the inputs. `outputs`, the result of the function, then hold the new results.

    It does not keep the function: that is often a method of the object that keeps the Graph, and such a circle would
    hold a model's memory until Python's garbage collector runs.
    """

    def __init__(self, outputs: Any, recorder: Recorder) -> None:
        for complete in recorder.at_end:
            complete()
        self.outputs = outputs
        self.names = recorder.names
        self._kept = recorder.kept  # the memory that the records point to
        self._pools = recorder.pools
        self._actions = tuple(recorder.actions)
        self._settings, self._conditions = tuple(recorder.settings.values()), tuple(recorder.conditions)
        self._gradients = tuple((*noted, noted[0]._grad) for noted in recorder.gradients.values())
        self._parts = [part if callable(part) else _Replay(part[0], part[1], part[2]) for part in recorder.parts]
        only = self._parts[0] if len(self._parts) == 1 else None
        self._run = only.run if isinstance(only, _Replay) else None

    def owns(self, tensor: Any) -> bool:
        """Whether a tensor lies in memory that the next replay writes again."""
        return self._pools.own(tensor._storage)

    def fits(self) -> bool:
        """Whether a replay does what the function would do: the modes of modules, the settings of optimisers and the
        gradients that were there are as they were."""
        for of, name, value in self._settings:  # loops: this runs before every replay
            if getattr(of, name) is not value:
                return False
        for leaf, requires, before, _ in self._gradients:
            if leaf._requires_grad is not requires or (leaf._grad is not before and before is not _ANY):
                return False
        for holds in self._conditions:
            if not holds():
                return False
        return True

    def replay(self) -> Any:
        """Runs every record in order; returns `outputs`. The `grad` of leaves is then what the function left there."""
        for action in self._actions:
            action()
        if self._run is None:
            for part in self._parts:
                part()
        else:
            status = self._run()
            if status:
                fail(status, self.names[status >> 8])
        for leaf, _, _, after in self._gradients:
            leaf._grad = after
        return self.outputs

    def __repr__(self) -> str:
        return f"<Graph of {len(self.names) + sum(not isinstance(part, _Replay) for part in self._parts)} kernels>"


class _Replay:
    """Consecutive records of one device."""

    def __init__(self, device: Device, records: bytearray, names: list[str]) -> None:
        self.names = names
        self.run = device.backend.graph(records, len(names))

    def __call__(self) -> None:
        status = self.run()
        if status:
            fail(status, self.names[status >> 8])


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """What runs in this thread is recorded. RuntimeError within another recording, unless that may be given up."""
    stop_capture("already capturing; captures do not nest")
    use_pools(recorder.pools)
    _thread.recorder = recorder
    try:
        yield
    finally:
        if _thread.recorder is recorder:  # else it has given up
            _thread.recorder = None
            use_pools(None)


def constants(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keeps what a function last gave for `count` sets of arguments: tensors that depend on nothing else. It runs
    outside of recordings, so that a Graph reads them as it reads weights.
    """

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        @lru_cache(count)
        @wraps(function)
        def made(*args: Any) -> Any:
            recorder = _thread.recorder
            if recorder is None:
                return function(*args)
            with _unrecorded(recorder):
                return function(*args)

        return made

    return of


def capture(function: Callable[[], Any]) -> Graph:
    """Runs `function()` once and keeps its kernel calls as a Graph.

    Its inputs are tensors that the caller keeps and writes in place between replays (`Tensor.assign`). Raises
    RuntimeError where something is computed outside kernels, by Python or NumPy, from a tensor's elements.
    """
    recorder = Recorder(GraphPools())
    with recording(recorder):
        outputs = function()
    return Graph(outputs, recorder)


def capture_or_run(
    function: Callable[[], Any], copied: Mapping[int, Any] | None = None
) -> tuple[Any, Graph | None, Recorder]:
    """Runs `function()` once, to its end, as `capture` does: its result and the Graph. The Graph is None where
    something cannot be recorded; the recorder then has the reason. `copied`: see Recorder."""
    recorder = Recorder(GraphPools(), gives_up=True)
    recorder.copied = copied or {}
    with recording(recorder):
        outputs = function()
    return outputs, None if recorder.reason else Graph(outputs, recorder), recorder


__all__ = [
    "KERNELS",
    "Graph",
    "Kernel",
    "MissingKernel",
    "Part",
    "Recorder",
    "capture",
    "capture_or_run",
    "capturing",
    "constants",
    "launch_all",
    "launch_records",
    "note_gradient",
    "note_setting",
    "record_call",
    "recorder",
    "recording",
    "refuse_capture",
    "run_at_replays",
    "run_in_order",
    "stop_capture",
]

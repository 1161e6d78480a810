"""Devices: where a tensor's memory lies and its kernels run.

`Device` names one ("cpu", "cuda:1"); a `Backend` is the contract that makes one work. The backend of a type is
`open_device(index)` of `devices/<type>.py`, imported when the first tensor asks for it, or what `register` was given.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..errors import ArgumentError
from .thread_local import ThreadLocal


class Backend:
    """A device: it has its own memory and runs launch records (native/kernels.h).

    Addresses are the device's own. Where `host_visible` is False, an address is a `HiddenAddress`, which nothing takes
    for a pointer of this process.
    """

    index: int | None = None  # of several devices of a type: which one this is
    host_visible = False  # whether the process may read and write the memory at an address
    kernels: Collection[str] = ()  # the names in kernels.h that this device runs
    counts_use = False  # whether `note_kept` is called for every large storage
    tensor_cores = False  # whether products of 16-bit numbers take a fraction of the time of float32
    cache_limit: int | None = None  # bytes of freed blocks that are kept for new storages; None: storage.CACHE_LIMIT
    own_workspaces = False  # whether kernels have working memory of their own, and write none of what is given
    keeps_softmax = False  # whether attention keeps what its gradient needs after the result
    bfloat16_caches = False  # whether attention reads caches in bfloat16
    attention_pairs = 0  # from so many blocks of 256 rows on masked_attention_pairs computes attention; 0: never
    chosen: Any = None  # the stream that this thread launches in, where a device has several; None: its own
    host_helps = False  # whether the host computes what there is no kernel for, from copies, with a warning

    def allocate(self, nbytes: int) -> Any:
        """The address of `nbytes` bytes, aligned to 64; None when there is no memory left."""
        raise NotImplementedError

    def free(self, address: Any) -> None:
        """Gives memory back."""
        raise NotImplementedError

    def write(self, address: Any, data: Any) -> None:
        """Copies bytes of the host into the device's memory."""
        raise NotImplementedError

    def read(self, address: Any, into: Any) -> None:
        """Copies the device's memory into a writable buffer of the host; waits for the kernels that write it."""
        raise NotImplementedError

    def copy(self, to: Any, source: Any, nbytes: int) -> None:
        """Copies inside the device."""
        raise NotImplementedError

    def copy_across(self, to: Any, other: Backend, source: Any, nbytes: int) -> bool:
        """Copies from the memory of another device to this one's without the host; False where that cannot be done."""
        return False

    def run(self, records: bytearray, count: int) -> int:
        """Runs launch records in order; returns 0, or (index of the record that failed << 8) | a KERNEL_* code."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Waits until everything that was launched has run."""

    @property
    def stream(self) -> int | None:
        """The number of the stream that this thread launches in, where a device has several; None: its own. Freed
        memory serves the next tensor of its stream alone."""
        return None

    def new_stream(self) -> Any:
        """Another stream of a device that has several, with its `number`, which `chosen` may be set to; else None."""
        return None

    def enter_stream(self) -> None:
        """Makes the stream that this thread launches in the device's present one, for other libraries."""

    def wait_for_streams(self, number: int | None, others: Sequence[Any]) -> None:
        """The stream of this number (None: the device's own) waits for what others have to do until now. Nothing to do
        where the stream has ended."""
        raise NotImplementedError

    def note_kept(self, nbytes: int) -> None:
        """How much of the memory that was allocated is kept for new tensors."""

    def describe_memory(self) -> str:
        """What is used and free of a device's own memory, for the error when there is none left; may be empty."""
        return ""

    def graph(self, records: bytearray, count: int) -> Callable[[], int]:
        """A function that runs these records again and returns as `run` does. A device may prepare more: CUDA a CUDA
        graph."""
        return lambda: self.run(records, count)


class HiddenAddress:
    """An address in memory that this process cannot see. It is not an integer: neither ctypes nor struct take it for a
    pointer, so a kernel of the CPU is never given one.
    """

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def __add__(self, nbytes: int) -> HiddenAddress:
        return HiddenAddress(self.value + nbytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HiddenAddress) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"<hidden address {self.value:#x}>"


class Device:
    """`device("cpu")`, `device("cuda:1")`, `device("cuda", 1)`, `device(1)`: `type` names the file in `devices/`,
    `index` (None where none was given) one of several. Equal to its string, as in `t.device == "cpu"`. As in torch, a
    device can be named that is not there; using it raises. There is one object of each name.
    """

    __slots__ = ("_backend", "index", "type")
    index: int | None
    type: str
    _backend: Backend | None

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> Device:
        if isinstance(type, Device):
            return type
        if isinstance(type, int) and not isinstance(type, bool):
            type = f"cuda:{type}"
        if not isinstance(type, str):
            raise TypeError(f"device: takes a text such as 'cpu' or 'cuda:0', not {type!r}")
        kind, colon, number = type.partition(":")
        if not kind.isidentifier() or (colon and not number.isdecimal()) or (colon and index is not None):
            raise ArgumentError(f"device: Invalid device string: {type!r} is not of the form 'cpu' or 'cuda:0'")
        at = int(number) if colon else index
        name = kind if at is None else f"{kind}:{at}"
        found = _known.get(name)
        if found is None:
            if not _is_type(kind):
                raise ArgumentError(
                    f"device: Expected one of {', '.join(_TYPES)} device type at start of device string: {kind}; "
                    f"there is no device {type!r}: write 'cuda' for an NVIDIA card, or 'cpu'"
                )
            found = object.__new__(cls)
            found.type, found.index, found._backend = kind, at, None
            found = _known.setdefault(name, found)  # another thread may have made it meanwhile
        return found

    @property
    def backend(self) -> Backend:
        """The device at work. ValueError where this build has none of that type."""
        if _several and self.index is None and self.type in _chosen.indices:
            return Device(self.type, _chosen.indices[self.type]).backend
        if self._backend is None:
            with _opening:
                if self._backend is None:
                    self._backend = _open(self)
                    if self is not cpu:
                        _others.append(self)
        return self._backend

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            try:
                other = Device(other)
            except ValueError:
                return False
        return self is other

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Device, (str(self),)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (")" if self.index is None else f", index={self.index})")

    def __enter__(self) -> Device:
        """`with device("meta"):` new tensors of this thread are on it, unless `device=` says otherwise."""
        place = as_device(self)
        _default.before = (*_default.before, _default.device)
        _default.device = place
        return self

    def __exit__(self, *_: object) -> None:
        *before, _default.device = _default.before
        _default.before = tuple(before)


_known: dict[str, Device] = {}
_opening = threading.RLock()  # a device is opened once, whichever threads use it first
_registered: dict[str, Callable[[int | None], Backend]] = {}
# The types that torch can name. Here, as there, most of them have no device.
_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


def _is_type(name: str) -> bool:
    """Whether devices of this type can be named: torch's, those with a file in `devices/`, and registered ones."""
    return (
        name in _TYPES or name in _registered or importlib.util.find_spec(f".devices.{name}", __package__) is not None
    )


cpu = Device("cpu")
_known["cpu:0"] = cpu
_others: list[Device] = []  # that were opened


class _Default(ThreadLocal):
    """Where this thread makes new tensors, and where it made them outside of the `with` blocks around it."""

    device: Device = cpu
    before: tuple[Device, ...] = ()


_default = _Default()


def get_default_device() -> Device:
    """Where new tensors of this thread are, unless `device=` says otherwise: the CPU, or what was chosen."""
    return _default.device


def computes_elsewhere() -> bool:
    """Whether tensors may lie elsewhere than on the CPU: another device was opened, or is this thread's default."""
    return bool(_others) or _default.device is not cpu


def set_default_device(device: Device | str | None) -> None:
    """Makes new tensors of this thread on a device; None: on the CPU again. ValueError where there is none."""
    _default.device = as_device(device)


def register(type: str, open_device: Callable[[int | None], Backend]) -> None:
    """Makes `open_device(index)` the way to devices of a type that has no file in `devices/`."""
    _registered[type] = open_device


def _open(device: Device) -> Backend:
    opener = _registered.get(device.type)
    if opener is None:
        try:
            opener = importlib.import_module(f".devices.{device.type}", __package__).open_device
        except ModuleNotFoundError as error:
            raise ValueError(f"device: there is no device {str(device)!r}; this build has: cpu") from error
    try:
        backend = opener(device.index)
    except (OSError, RuntimeError) as error:
        raise ValueError(f"device: there is no device {str(device)!r}: {error}") from error
    if device.index is None and backend.index is not None:  # "cuda" is one of the cards
        twin = Device(device.type, backend.index)
        twin._backend = twin._backend or backend
        return twin._backend
    return backend


class _Chosen(ThreadLocal):
    """Of each type with several devices: which one its name stands for in this thread, if that was chosen."""

    def __init__(self) -> None:
        self.indices: dict[str, int] = {}


_chosen = _Chosen()
_several: set[str] = set()  # types of which one was ever chosen


def choose(type: str, index: int | None) -> int | None:
    """Makes the name of a type stand for one of its devices in this thread; None: for the first again. Returns what was
    chosen before."""
    _several.add(type)
    before = _chosen.indices.get(type)
    if index is None:
        _chosen.indices.pop(type, None)
    else:
        _chosen.indices[type] = index
    return before


def as_device(value: Device | str | None) -> Device:
    """A device that is there, from itself or its name; None is the CPU. "cuda" is the card that it stands for, as in
    torch: "cuda:0" unless another was chosen. ValueError where there is none.
    """
    if value is None or value is cpu:
        return cpu
    found = Device(value)
    index = found.backend.index
    return found if found.index is not None or index is None else Device(found.type, index)


def wait_for_devices() -> None:
    """Waits until everything has run on every device that is in use."""
    for device in list(_known.values()):
        if device._backend is not None:
            device._backend.synchronize()

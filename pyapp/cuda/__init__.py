"""torch.cuda's names for NVIDIA's cards (docs/cuda.md). As in torch without a card, seeding and freeing then have no
effect, amounts of memory are 0, and functions that need a card raise an error.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from .. import random as _random
from ..engine.device import Device, as_device, choose
from ..engine.gpu import nvidia
from ..engine.ops.create import construct
from ..engine.ops.random import default_generator
from ..engine.storage import kept_bytes, trim_pool
from ..engine.tensor import Tensor
from ..engine.typed_tensors import typed_of
from .streams import (
    Event,
    Stream,
    StreamContext,
    backend_of,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

OutOfMemoryError = MemoryError
globals().update(
    typed_of(__name__, lambda args, kind: construct(args, kind).to("cuda"), lambda x: x.is_cuda, "Tensors on a card")
)


class DeviceProperties(NamedTuple):
    """What a card is."""

    name: str
    major: int
    minor: int
    total_memory: int  # bytes
    multi_processor_count: int
    warp_size: int = 32


def device_count() -> int:
    """The number of cards; 0 without a driver or NVIDIA's packages."""
    return nvidia.count()


def is_available() -> bool:
    """Whether there is a card."""
    return device_count() > 0


is_initialized = is_available


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The properties of a card."""
    card = backend_of(device).card
    major, minor = card.capability
    return DeviceProperties(card.name, major, minor, card.total_memory, card.multiprocessors)


def get_device_name(device: Any = None) -> str:
    """As "NVIDIA H200"."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, as (9, 0)."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current card has bfloat16: compute capability 8.0. Others compute with it as well, more slowly."""
    return is_available() and (including_emulation or get_device_capability() >= (8, 0))


def current_device() -> int:
    """The number of the card that "cuda" stands for in this thread."""
    return int(backend_of().index or 0)


def _number(device: Any) -> int | None:
    """The number of a card, from its number, name or Device; None where none is given, or a negative number."""
    if device is None or isinstance(device, int):
        return None if device is None or device < 0 else device
    named = Device(device)
    if named.type != "cuda":
        raise ValueError(f"cuda: {str(named)!r} is not a card")
    return named.index


def set_device(device: Any) -> None:
    """Makes "cuda" stand for a card in this thread."""
    number = _number(device)
    if number is not None:
        backend_of(number)
        choose("cuda", number)


class device:
    """A context in which "cuda" stands for another card; None or a negative number: for the same."""

    def __init__(self, device: Any) -> None:
        self.idx = _number(device)
        self.prev_idx: int | None = None

    def __enter__(self) -> device:
        if self.idx is not None:
            backend_of(self.idx)
            self.prev_idx = choose("cuda", self.idx)
        return self

    def __exit__(self, *_: object) -> None:
        if self.idx is not None:
            choose("cuda", self.prev_idx)


class device_of(device):
    """A context in which "cuda" stands for the card of a tensor, where it lies on one."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "cuda" else None)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a card reads another's memory itself; tensors pass through the host where it does not."""
    return bool(backend_of(device).card.can_reach(backend_of(peer_device).card))


def synchronize(device: Any = None) -> None:
    """Waits for all streams of a card; raises what its kernels have found wrong."""
    backend_of(device).synchronize()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The bytes of a card that are free, and all."""
    card = backend_of(device).card
    return card.free_memory(), card.total_memory


def _device(device: Any) -> tuple[Any, Device]:
    backend = backend_of(device)
    return backend, as_device(Device("cuda", backend.index))


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold of a card."""
    if not is_available():
        return 0
    backend, found = _device(device)
    return int(backend.allocated - kept_bytes(found))


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors held since reset_peak_memory_stats; freed blocks of up to 4 KiB count as held."""
    return int(max(backend_of(device).peak_in_use, memory_allocated(device))) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that this process holds of a card: tensors, and freed memory that is kept for others."""
    return int(backend_of(device).allocated) if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that `memory_reserved` was, since reset_peak_memory_stats."""
    return int(backend_of(device).peak) if is_available() else 0


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """max_memory_allocated and max_memory_reserved begin again."""
    if is_available():
        backend = backend_of(device)
        backend.peak, backend.peak_in_use = backend.allocated, memory_allocated(device)


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def memory_stats(device: Any = None) -> dict[str, int]:
    """Those of the numbers above, by torch's names."""
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The numbers of memory_stats as text."""
    return "\n".join(f"{name:30}{value:>20,}" for name, value in memory_stats(device).items())


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Tensors may take this share of a card's memory, 0 to 1; beyond it MemoryError."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"cuda.set_per_process_memory_fraction: {fraction} is not between 0 and 1")
    backend = backend_of(device)
    backend.limit = int(fraction * backend.card.total_memory)


def empty_cache() -> None:
    """Gives freed memory back to the driver."""
    for index in range(device_count()):
        trim_pool(Device("cuda", index))


def manual_seed(seed: int) -> None:
    """Seeds the process's generator, from which the cards' random numbers come too; without a card no effect."""
    if is_available():
        default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Seeds it with a random number."""
    if is_available():
        _random.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed of the process's generator."""
    return default_generator.initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the process's generator."""
    return _random.get_rng_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Restores a state of get_rng_state."""
    _random.set_rng_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state of the process's generator, for each card."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Restores what get_rng_state_all gave."""
    for state in new_states[:1]:
        set_rng_state(state)


def init() -> None:
    """No effect: a card is opened at its first use."""


ipc_collect = init


def __getattr__(name: str) -> Any:
    if name in ("amp", "graphs"):
        return importlib.import_module(f".{name}", __name__)
    graphs = importlib.import_module(".graphs", __name__)
    if name in graphs.__all__:
        return getattr(graphs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Event", "Stream", "StreamContext", "current_stream", "default_stream", "device_count", "empty_cache",
    "is_available", "manual_seed", "manual_seed_all", "set_stream", "stream",
]  # fmt: skip

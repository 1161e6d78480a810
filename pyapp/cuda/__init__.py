"""torch.cuda's names for NVIDIA's cards (docs/cuda.md). As in torch without a card, seeding and freeing then have no
effect, amounts of memory are 0, and functions that need a card raise an error.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple, NoReturn

from ..engine.device import Device, as_device
from ..engine.gpu import nvidia
from ..engine.storage import trim_pool

OutOfMemoryError = MemoryError


class DeviceProperties(NamedTuple):
    """What a card is."""

    name: str
    major: int
    minor: int
    total_memory: int  # bytes
    multi_processor_count: int


def device_count() -> int:
    """The number of cards; 0 without a driver or NVIDIA's packages."""
    return nvidia.count()


def is_available() -> bool:
    """Whether there is a card."""
    return device_count() > 0


is_initialized = is_available


def _card(device: Any = None) -> Any:
    """The backend of a card: of `device`, a number, a name or a Device; by default the first. RuntimeError where there
    is none."""
    if not is_available():
        raise RuntimeError("cuda: there is no CUDA device; ask cuda.is_available() first")
    named = Device("cuda", device) if isinstance(device, int) else Device("cuda:0" if device is None else device)
    if named.type != "cuda":
        raise ValueError(f"cuda: {str(named)!r} is no card")
    return as_device(named).backend


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The properties of a card."""
    card = _card(device).card
    major, minor = card.capability
    return DeviceProperties(card.name, major, minor, card.total_memory, card.multiprocessors)


def get_device_name(device: Any = None) -> str:
    """As "NVIDIA H200"."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, as (9, 0)."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def is_bf16_supported() -> bool:
    """Whether the first card has bfloat16: compute capability 8.0."""
    return is_available() and get_device_capability() >= (8, 0)


def current_device() -> int:
    """The number of the card that "cuda" stands for: 0."""
    _card()
    return 0


def set_device(device: Any) -> None:
    """Accepts the first card only: name others, as in "cuda:1"."""
    index = device if isinstance(device, int) else Device(device).index
    _card()
    if index:
        raise NotImplementedError(f"cuda.set_device: 'cuda' is the first card; name this one, 'cuda:{index}'")


def synchronize(device: Any = None) -> None:
    """Waits for a card; raises what its kernels have found wrong."""
    _card(device).synchronize()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The bytes of a card that are free, and all."""
    card = _card(device).card
    return card.free_memory(), card.total_memory


def memory_reserved(device: Any = None) -> int:
    """Bytes that this process holds of a card: tensors, and freed memory that is kept for others."""
    return int(_card(device).allocated) if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that `memory_reserved` was, since reset_peak_memory_stats."""
    return int(_card(device).peak) if is_available() else 0


memory_allocated = memory_cached = memory_reserved
max_memory_allocated = max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """max_memory_reserved begins again."""
    if is_available():
        backend = _card(device)
        backend.peak = backend.allocated


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Tensors may take this share of a card's memory, 0 to 1; beyond it MemoryError."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"cuda.set_per_process_memory_fraction: {fraction} is not between 0 and 1")
    backend = _card(device)
    backend.limit = int(fraction * backend.card.total_memory)


def empty_cache() -> None:
    """Gives freed memory back to the driver."""
    for index in range(device_count()):
        trim_pool(Device("cuda", index))


def _nothing(*_: Any, **__: Any) -> None:
    """No effect: seeds and the collection of memory are the process's."""


ipc_collect = manual_seed = manual_seed_all = seed = seed_all = init = _nothing


def _refuse(*_: Any, **__: Any) -> NoReturn:
    _card()
    raise NotImplementedError("cuda: a card has one stream, in which everything runs in order; there are no events")


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module(".amp", __name__)
    if name in ("Event", "Stream", "current_stream", "default_stream"):
        return _refuse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all"]

"""The functions of torch.cuda that scripts call before they choose a device: there is no CUDA device. As in torch
without CUDA, seeding and freeing have no effect, amounts of memory are 0, and functions that need a device raise an
error.
"""

from __future__ import annotations

import importlib
from typing import Any, NoReturn


def is_available() -> bool:
    """Whether a CUDA device is available: always False."""
    return False


is_initialized = is_bf16_supported = is_available


def device_count() -> int:
    """The number of CUDA devices: 0."""
    return 0


def _nothing(*_: Any, **__: Any) -> None:
    """No effect without a device."""


def _zero(*_: Any, **__: Any) -> int:
    """0 bytes: there is no device."""
    return 0


empty_cache = ipc_collect = manual_seed = manual_seed_all = seed = seed_all = init = reset_peak_memory_stats = _nothing
reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = _nothing
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = _zero
OutOfMemoryError = MemoryError
_NEEDS_DEVICE = """
    Event Stream current_device current_stream default_stream get_device_capability get_device_name
    get_device_properties mem_get_info set_device synchronize
""".split()


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("cuda: there is no CUDA device; ask cuda.is_available() first")


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module(".amp", __name__)
    if name in _NEEDS_DEVICE:
        return _refuse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all"]

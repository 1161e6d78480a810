"""torch.accelerator's names: the devices that are faster than the CPU. Here these are NVIDIA's cards ("cuda")."""

from __future__ import annotations

from typing import Any

from . import cuda
from .cuda import device_count, is_available
from .engine.device import Device

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count", "empty_cache", "is_available",
    "max_memory_allocated", "memory_allocated", "set_device_idx", "set_device_index", "synchronize",
]  # fmt: skip


def current_accelerator(check_available: bool = False) -> Device | None:
    """The device "cuda"; None where there is no card."""
    return Device("cuda") if is_available() else None


def current_device_index() -> int:
    """The number of the card that "cuda" stands for in this thread."""
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Makes "cuda" stand for another card in this thread."""
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


def synchronize(device: Any = None) -> None:
    """Waits for everything that a card has been given to do. Without a card it has no effect."""
    if is_available():
        cuda.synchronize(device)


def memory_allocated(device_index: Any = None) -> int:
    """Bytes of the tensors on a card; 0 without one."""
    return cuda.memory_allocated(device_index)


def max_memory_allocated(device_index: Any = None) -> int:
    """The most bytes that tensors on a card had at a time; 0 without one."""
    return cuda.max_memory_allocated(device_index)


def empty_cache() -> None:
    """Gives memory back that no tensor uses."""
    cuda.empty_cache()

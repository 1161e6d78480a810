"""torch.cpu's names, for programs that take the module of their device: there is one CPU, and nothing waits on it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..engine.device import Device
from . import amp


def is_available() -> bool:
    """Always True."""
    return True


def is_initialized() -> bool:
    """Always True."""
    return True


def device_count() -> int:
    """One."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one CPU. ValueError for a device of another type."""
    if not isinstance(device, int) and Device(device).type != "cpu":
        raise ValueError(f"set_device: {device!r} is not the CPU")


def synchronize(device: Any = None) -> None:
    """Nothing: a function of the CPU returns when it has its result."""


class Stream:
    """The order of the CPU's work, which is that of the calls."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing: what was called earlier is done."""


_STREAM = Stream()


def current_stream(device: Any = None) -> Stream:
    """The only stream."""
    return _STREAM


def stream(stream: Stream | None) -> AbstractContextManager[None]:
    """A context without effect: work of the CPU is done in the order of the calls."""
    return nullcontext()


__all__ = [
    "Stream", "amp", "current_device", "current_stream", "device_count", "is_available", "is_initialized", "set_device",
    "stream", "synchronize",
]  # fmt: skip

"""The graphics card of a browser, the device "webgpu" (docs/webgpu.md)."""

from __future__ import annotations

from .engine.device import as_device

__all__ = ["is_available", "reason"]


def is_available() -> bool:
    """Whether tensors can be on the device "webgpu". The first call opens the card."""
    return not reason()


def reason() -> str:
    """Why there is no device "webgpu"; empty where there is one."""
    try:
        as_device("webgpu")
    except ValueError as error:
        return str(error)
    return ""

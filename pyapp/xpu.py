"""torch.xpu: the device does not exist."""

from __future__ import annotations


def is_available() -> bool:
    """Whether the device is available: always False."""
    return False


def device_count() -> int:
    """The number of devices: 0."""
    return 0

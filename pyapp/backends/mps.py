"""torch.backends.mps: the device does not exist."""

from __future__ import annotations


def is_available() -> bool:
    """Whether the device is available: always False."""
    return False


is_built = is_available

"""What scripts ask torch.cuda before they choose a device: there is none here."""

from __future__ import annotations


def is_available() -> bool:
    """Whether tensors can live on a CUDA device: no."""
    return False


def device_count() -> int:
    """How many CUDA devices there are: none."""
    return 0


__all__ = ["device_count", "is_available"]

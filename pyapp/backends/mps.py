"""torch.backends.mps: there is no such device here."""

from __future__ import annotations


def is_available() -> bool:
    """Whether tensors can live on it: no."""
    return False


is_built = is_available

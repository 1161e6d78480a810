"""torch.backends.cudnn: switches that change nothing here."""

from __future__ import annotations

enabled = benchmark = deterministic = allow_tf32 = False


def is_available() -> bool:
    """Whether cuDNN is there: no."""
    return False


def version() -> None:
    """No version."""

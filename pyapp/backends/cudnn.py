"""torch.backends.cudnn: settings without effect."""

from __future__ import annotations

enabled = benchmark = deterministic = allow_tf32 = False


def is_available() -> bool:
    """Whether cuDNN is available: always False."""
    return False


def version() -> None:
    """The version: None."""

"""torch.backends.cudnn: settings without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

enabled = benchmark = deterministic = allow_tf32 = False


def is_available() -> bool:
    """Whether cuDNN is available: always False."""
    return False


def version() -> None:
    """The version: None."""


@contextmanager
def flags(**settings: Any) -> Iterator[None]:
    """A region with other settings, which have no effect. TypeError for one that is not `enabled`, `benchmark`,
    `benchmark_limit`, `deterministic`, `allow_tf32` or `fp32_precision`.
    """
    unknown = settings.keys() - _SETTINGS
    if unknown:
        raise TypeError(f"flags: got an unexpected keyword argument {min(unknown)!r}")
    yield


_SETTINGS = {"enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision"}

"""torch.cpu.amp's names: those of pyapp.amp, for the CPU."""

from __future__ import annotations

from typing import Any

from ...amp import GradScaler as _GradScaler
from ...amp import autocast as _autocast


class autocast(_autocast):
    """pyapp.amp.autocast("cpu", …)."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """pyapp.amp.GradScaler("cpu", …)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu", *args, **kwargs)


__all__ = ["GradScaler", "autocast"]

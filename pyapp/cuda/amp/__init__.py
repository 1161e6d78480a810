"""torch.cuda.amp's names: those of pyapp.amp, for a missing device."""

from __future__ import annotations

from typing import Any

from ...amp import GradScaler as _GradScaler
from ...amp import autocast as _autocast
from ...amp import custom_bwd, custom_fwd


class autocast(_autocast):
    """pyapp.amp.autocast("cuda", …)."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """pyapp.amp.GradScaler("cuda", …)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

"""What `keras.config` sets, for the modules that follow it."""

from __future__ import annotations

__all__ = ["SETTINGS", "Settings"]


class Settings:
    """What the session has set."""

    dtype_policy: str | None = None  # of layers that are given no dtype; None: floatx
    data_format: str = "channels_last"  # of layers that are given none
    flash_attention: bool = False
    max_epochs: int | None = None
    max_steps_per_epoch: int | None = None


SETTINGS = Settings()

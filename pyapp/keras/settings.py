"""What the session has set, for the modules that follow it, and how to begin anew."""

from __future__ import annotations

import gc

from ..train.names import clear_names

__all__ = ["SETTINGS", "Settings", "clear_session"]


class Settings:
    """What the session has set."""

    dtype_policy: str | None = None  # of layers that are given no dtype; None: floatx
    data_format: str = "channels_last"  # of layers that are given none
    flash_attention: bool = False
    max_epochs: int | None = None
    max_steps_per_epoch: int | None = None


SETTINGS = Settings()


def clear_session(free_memory: bool = True) -> None:
    """Starts the numbers of automatic names again, and forgets the policy of `set_dtype_policy`. With `free_memory`,
    objects that only refer to one another are collected.
    """
    clear_names()
    SETTINGS.dtype_policy = None
    if free_memory:
        gc.collect()

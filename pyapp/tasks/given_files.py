"""The pictures and recordings that a caller gives to a task."""

from __future__ import annotations

import os
from typing import Any


def listed(given: Any) -> list[Any]:
    """One picture, recording or video, or several, as a list."""
    return list(given) if isinstance(given, list | tuple) else [given]


def check_files(given: Any, *_: Any, **more: Any) -> None:
    """OSError for a picture or a recording whose file is not there."""
    for one in listed(given):
        if isinstance(one, str | os.PathLike):
            os.stat(one)

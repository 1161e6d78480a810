"""State that each thread has for itself; in the browser, where there is one thread, plain attributes. And how many
threads use such state.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.platform != "emscripten":
    ThreadLocal = threading.local
else:
    ThreadLocal = object


class Users:
    """How often something that threads have for themselves is in use: while it is not, code that runs very often need
    not look at its own thread's state."""

    __slots__ = ("_lock", "count")

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Counts one more (1) or one less (-1)."""
        with self._lock:
            self.count += count


__all__ = ["ThreadLocal", "Users"]

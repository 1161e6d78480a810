"""State that each thread has for itself; in the browser, where there is one thread, plain attributes."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.platform != "emscripten":
    ThreadLocal = threading.local
else:
    ThreadLocal = object

__all__ = ["ThreadLocal"]

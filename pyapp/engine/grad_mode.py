"""The switch of gradient recording, for each thread."""

from __future__ import annotations

from .thread_local import ThreadLocal


class _State(ThreadLocal):
    """Whether ops leave nodes."""

    enabled = True


STATE = _State()

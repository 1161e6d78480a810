"""The switch of gradient recording, for each thread; and whether something watches what is recorded."""

from __future__ import annotations

from .thread_local import ThreadLocal, Users


class _State(ThreadLocal):
    """Whether ops leave nodes."""

    enabled = True


STATE = _State()
# Hooks on saved tensors that are in use, of all threads, and the search for anomalies: while there are none, a new node
# looks no further.
WATCHERS = Users()

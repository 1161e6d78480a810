"""The switch of gradient recording, for each thread; and whether something watches what is recorded."""

from __future__ import annotations

from .thread_local import ThreadLocal, Users


class _State(ThreadLocal):
    """Whether ops leave nodes; and whether they are written down (tracing.py), for any values of the inputs: then no
    value may decide what is computed."""

    enabled = True
    traced = False


class _Anomaly:
    """Whether the search for anomalies is on, in all threads, and looks for NaN: see anomalies.py."""

    on = False
    check_nan = True


STATE = _State()
ANOMALY = _Anomaly()
# Hooks on saved tensors that are in use, of all threads, and the search for anomalies: while there are none, a new node
# looks no further.
WATCHERS = Users()
GROUPS = Users()  # hooks of several tensors: while there are none, a backward pass looks no further

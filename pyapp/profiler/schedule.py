"""When a profile records: torch.profiler.schedule."""

from __future__ import annotations

import enum
from collections.abc import Callable


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1  # measures, and keeps nothing
    RECORD = 2
    RECORD_AND_SAVE = 3  # the last step of a recording


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """The action of each step: `skip_first` steps nothing; then, `repeat` times (0: without end), nothing for `wait`
    steps, WARMUP for `warmup` and a recording of `active` steps. `skip_first_wait` other than 0 leaves out the first
    wait.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ValueError(
            "schedule: wait, warmup, repeat and skip_first are at least 0 and active at least 1, not "
            f"{wait}, {warmup}, {repeat}, {skip_first} and {active}"
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"schedule: there is no step {step}")
        at = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first or (repeat and at >= repeat * length):
            return ProfilerAction.NONE
        at %= length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def always(_: int) -> ProfilerAction:
    """The schedule of a profile that was given none: it records until it ends."""
    return ProfilerAction.RECORD

"""torch.autograd.profiler's names, for pyapp.profiler."""

from __future__ import annotations

from typing import Any

from ..profiler import EventList, FunctionEventAvg, record_function
from ..profiler import profile as _profile


class profile(_profile):
    """The profile of pyapp.profiler in its older form: without a schedule, and with the table at the profile itself.
    With `enabled=False` it does nothing."""

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, record_shapes: bool = False, with_flops: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_modules: bool = False, use_cpu: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops,
            with_modules=with_modules, use_cuda=use_cuda,
        )  # fmt: skip
        self.enabled = enabled and use_cpu

    def start(self) -> None:
        if self.enabled:
            super().start()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The table of the events, with the arguments of EventList.table."""
        return self.events().table(*args, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return self.events().self_cpu_time_total


__all__ = ["EventList", "profile", "record_function"]

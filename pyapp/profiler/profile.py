"""torch.profiler.profile: records what runs inside, in steps of a schedule."""

from __future__ import annotations

import enum
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..engine.profiling import listen
from .events import EventList, events_of
from .recorder import Recorder, begin, end, record_function
from .schedule import ProfilerAction, always


class ProfilerActivity(enum.Enum):
    """What torch can record. Here it is the CPU: what runs on a card is timed where it is launched."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """The CPU."""
    return {ProfilerActivity.CPU}


class profile:
    """Records ops, their kernels, gradients of ops, replays of Graphs and `record_function`s, with their times:

        with profile(record_shapes=True, profile_memory=True) as prof:
            model(x).sum().backward()
        print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

    Times are those of the host. On the CPU a kernel runs until its call returns. On a card the call only launches it:
    use cuda.Event for the time that it takes there. The names are those of pyapp's ops ("mul", "add_"); an op that is
    computed by others contains them. The time that an op takes beside its kernels is Python's. Views are not listed;
    kernels that are launched several at a time are not listed one by one. While it records, an op takes a few
    microseconds more, which count where they arise.

    `schedule` says in which steps (`step()`) it records; without one it does until its end. `on_trace_ready(profile)`
    is called at the end of each recording. `record_shapes`: the shapes of the arguments of ops. `profile_memory`: the
    bytes that tensors take, less those that they give back, on all devices together; scratch memory inside kernels and
    NumPy's arrays are not counted. Stacks, modules and floating-point operations are not recorded: arguments for those
    give a warning. With `acc_events` a recording is added to those before it. While it records no other profile can:
    RuntimeError.
    """

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None, on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False, profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, acc_events: bool = False, use_cuda: bool | None = None,
    ) -> None:  # fmt: skip
        left_out = [
            name
            for name, on in {"with_stack": with_stack, "with_flops": with_flops, "with_modules": with_modules}.items()
            if on
        ]
        if left_out:
            warnings.warn(f"profile: {', '.join(left_out)}: this is not recorded", stacklevel=2)
        others = sorted(a.name for a in activities or () if a is not ProfilerActivity.CPU)
        if others or use_cuda:
            warnings.warn(
                f"profile: what runs on a device ({', '.join(others) or 'CUDA'}) is timed on the host, where it is "
                "launched; use cuda.Event for the times of a card",
                stacklevel=2,
            )
        self.schedule = always if schedule is None else schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory, self.acc_events = record_shapes, profile_memory, acc_events
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._steps = schedule is not None
        self._step: record_function | None = None
        self._recorder: Recorder | None = None
        self._stop: Callable[[], None] | None = None
        self._events: EventList | None = None

    # -- recording

    def start(self) -> None:
        """Begins with the schedule's first step."""
        if self._stop is not None:
            raise RuntimeError("profile: it has been started already")
        self._begin(self.schedule(self.step_num))

    def stop(self) -> None:
        """Ends. A recording that has not ended yet is complete then."""
        self._end_step()
        recording = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._end_recording(recording)
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """The next step of the schedule begins."""
        if not self._steps:
            return
        self._end_step()
        before = self.current_action
        self.step_num += 1
        action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._end_recording(True)
        elif action is ProfilerAction.NONE and before is not ProfilerAction.NONE:
            self._end_recording(before is ProfilerAction.RECORD)
        elif before is ProfilerAction.WARMUP and action is not ProfilerAction.WARMUP and self._recorder is not None:
            self._recorder.clear()
        self._begin(action)

    def _begin(self, action: ProfilerAction) -> None:
        self.current_action = action
        if action is not ProfilerAction.NONE and self._stop is None:
            recorder = Recorder(self.record_shapes)
            self._stop = listen(recorder, self.profile_memory)
            self._recorder = recorder
            begin(recorder)
        if self._steps and self._recorder is not None:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _end_recording(self, keep: bool) -> None:
        if self._stop is None:
            return
        recorder, stop = self._recorder, self._stop
        self._recorder = self._stop = None
        assert recorder is not None
        end(recorder)
        stop()
        if not keep:
            return
        events = events_of(recorder, self.profile_memory)
        if self.acc_events and self._events is not None:
            events = self._events.extended_by(events)
        self._events = events
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- results

    def events(self) -> EventList:
        """The events of the last recording. RuntimeError before the first one has ended."""
        if self._events is None:
            raise RuntimeError("profile: nothing is recorded yet: ask after it has ended, or in on_trace_ready")
        return self._events

    @property
    def function_events(self) -> EventList:
        """`events()`, by the name that it has in autograd.profiler."""
        return self.events()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The sums of the events by name; with `group_by_input_shape` by the shapes of the arguments too."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events for chrome://tracing, Perfetto and TensorBoard; compressed where the name ends in ".gz"."""
        self.events().export_chrome_trace(path)

    def __repr__(self) -> str:
        return f"<profile at step {self.step_num}, {self.current_action.name}>"


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each recording into a file of the folder, which is made if it is not there, under
    a name that TensorBoard's profiler finds: <worker>.<nanoseconds>.pt.trace.json."""

    def write(finished: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname() or 'host'}_{os.getpid()}"
        finished.export_chrome_trace(
            Path(dir_name) / f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        )

    return write

"""The events of a profile, their sums by name, and the table of these."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from .recorder import Recorder, Span

_CATEGORIES = {"op": "cpu_op", "kernel": "kernel", "backward": "autograd", "graph": "graph", "user": "user_annotation"}


class Interval:
    """From `start` to `end`, in microseconds since the profile began."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Its length."""
        return self.end - self.start


class _Times:
    """What events and sums have in common. Times in microseconds, memory in bytes."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    # What runs on a card is not timed there.
    device_time = device_time_total = self_device_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        """The mean time of one."""
        return self.cpu_time_total / self.count if self.count else 0.0


class FunctionEvent(_Times):
    """One call. `cpu_time_total` is its time, `self_cpu_time_total` without the events inside of it; the same for the
    bytes that tensors took, less what they gave back. `kind`: "op", "kernel", "backward" (the gradient of an op),
    "graph" (a replay) or "user" (record_function).
    """

    count = 1

    def __init__(self, number: int, span: Span, origin: int) -> None:
        self.id, self.name, self.kind, self.thread = number, span.name, span.kind, span.thread
        self.key = "ProfilerStep*" if span.name.startswith("ProfilerStep#") else span.name  # steps are summed up
        self.time_range = Interval((span.begin - origin) / 1e3, (span.end - origin) / 1e3)
        self.cpu_time_total = self.self_cpu_time_total = (span.end - span.begin) / 1e3
        self.cpu_memory_usage = self.self_cpu_memory_usage = span.memory
        self.input_shapes: list[Any] = span.shapes or [] if span.kind != "user" else []
        self.args = span.shapes[0] if span.kind == "user" and span.shapes else None
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name} {self.kind} cpu_time={_time(self.cpu_time_total)} thread={self.thread}>"


class FunctionEventAvg(_Times):
    """The sums of the events of one name (and of one list of shapes, where these are told apart)."""

    def __init__(self, first: FunctionEvent) -> None:
        self.key, self.kind, self.input_shapes = first.key, first.kind, first.input_shapes
        self.count = self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0

    def add(self, other: _Times) -> FunctionEventAvg:
        """Adds an event, or another sum."""
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} self_cpu_time={_time(self.self_cpu_time_total)} "
            f"cpu_time={_time(self.cpu_time)}>"
        )


SORTS = (
    "count", "cpu_memory_usage", "cpu_time", "cpu_time_total", "self_cpu_memory_usage", "self_cpu_time_total",
    "device_time", "device_time_total", "self_device_time_total", "device_memory_usage", "self_device_memory_usage",
)  # fmt: skip


class EventList(list[Any]):
    """Events, or their sums: a list with a table."""

    def __init__(self, events: Iterable[Any] = (), memory: bool = False, epoch: int = 0) -> None:
        super().__init__(events)
        self._memory = memory
        self._epoch = epoch  # nanoseconds since 1970 at the microsecond 0 of the events

    def extended_by(self, later: EventList) -> EventList:
        """These events and later ones, whose times are then those since the first of these."""
        apart = (later._epoch - self._epoch) / 1e3
        for event in later:
            event.time_range.start += apart
            event.time_range.end += apart
        return EventList([*self, *later], self._memory, self._epoch)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The sums of the events by name, and by the shapes of the arguments where these are asked for. There are no
        stacks and no overloads to group by."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key = event.key, event.kind, json.dumps(event.input_shapes) if group_by_input_shape else None
            known = found.get(key)
            if known is None:
                known = found[key] = FunctionEventAvg(event)
                if not group_by_input_shape:
                    known.input_shapes = []
            known.add(event)
        return EventList(found.values(), self._memory, self._epoch)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all, called "Total"."""
        if not self:
            raise RuntimeError("total_average: there are no events")
        total = FunctionEventAvg(self[0])
        total.key, total.input_shapes = "Total", []
        for event in self:
            total.add(event)
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:  # fmt: skip
        """A text with one row for each, the largest of `sort_by` first; `row_limit` rows, all with -1. The names of
        torch's attributes with "cuda" stand for those with "device", which are 0: what runs on a card is not timed
        there. `max_src_column_width` is torch's argument for sources, which are not recorded.
        """
        rows = [e for e in self if not top_level_events_only or getattr(e, "cpu_parent", None) is None]
        if sort_by is not None:
            name = sort_by.replace("cuda", "device")
            if name not in SORTS:
                raise ValueError(f"table: sorts by {', '.join(SORTS)}, not by {sort_by!r}")
            rows.sort(key=lambda event: getattr(event, name), reverse=True)
        total = self.self_cpu_time_total
        heads = ["Name", "Kind", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        heads += ["CPU Mem", "Self CPU Mem"] if self._memory else []
        heads.append("# of Calls")
        shapes = any(event.input_shapes for event in rows)
        heads += ["Input Shapes"] if shapes else []
        lines = [heads]
        for event in rows if row_limit < 0 else rows[:row_limit]:
            line = [
                _cut(event.key, max_name_column_width), event.kind, _share(event.self_cpu_time_total, total),
                _time(event.self_cpu_time_total), _share(event.cpu_time_total, total), _time(event.cpu_time_total),
                _time(event.cpu_time),
            ]  # fmt: skip
            line += [_memory(event.cpu_memory_usage), _memory(event.self_cpu_memory_usage)] if self._memory else []
            line.append(str(event.count))
            line += [_cut(str(event.input_shapes), max_shapes_column_width)] if shapes else []
            lines.append(line)
        text = _aligned(lines, shapes)
        parts = [header, text] if header else [text]
        return "\n".join([*parts, f"Self CPU time total: {_time(total)}", ""])

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events as JSON, compressed where the name ends in ".gz", for chrome://tracing, Perfetto and
        TensorBoard."""
        process = os.getpid()
        listed: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": "python"}}
        ]
        for event in self:
            args: dict[str, Any] = {"External id": event.id}
            if event.input_shapes:
                args["Input Dims"] = event.input_shapes
            if event.args is not None:
                args["Args"] = event.args
            if self._memory:
                args["Self Bytes"] = event.self_cpu_memory_usage
            listed.append({
                "ph": "X", "cat": _CATEGORIES[event.kind], "name": event.name, "pid": process, "tid": event.thread,
                "ts": self._epoch / 1e3 + event.time_range.start, "dur": event.time_range.elapsed_us(), "args": args,
            })  # fmt: skip
        text = json.dumps({"schemaVersion": 1, "traceEvents": listed, "displayTimeUnit": "ms"})
        name = os.fspath(path)
        data = text.encode()
        with open(name, "wb") as file:
            file.write(gzip.compress(data) if name.endswith(".gz") else data)

    def __str__(self) -> str:
        return self.table()


def events_of(recorder: Recorder, memory: bool) -> EventList:
    """The events of what has ended, in the order of their beginnings."""
    spans = sorted(recorder.spans, key=lambda span: (span.begin, -span.end))
    origin = spans[0].begin if spans else 0
    by_span: dict[int, FunctionEvent] = {}
    events = EventList((), memory, recorder.epoch + origin)
    for number, span in enumerate(spans):
        event = by_span[id(span)] = FunctionEvent(number, span, origin)
        events.append(event)
        parent = None if span.parent is None else by_span.get(id(span.parent))
        if parent is not None:
            event.cpu_parent = parent
            parent.cpu_children.append(event)
            parent.self_cpu_time_total -= event.cpu_time_total
    for event in reversed(events):  # the inner before the outer
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_memory_usage += event.cpu_memory_usage
    return events


def _time(microseconds: float) -> str:
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if abs(microseconds) >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


def _memory(nbytes: int) -> str:
    for shift, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if abs(nbytes) >= 1 << shift:
            return f"{nbytes / (1 << shift):.2f} {unit}"
    return f"{nbytes} B"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


def _cut(text: str, width: int) -> str:
    return text if width < 0 or len(text) <= width else text[: max(0, width - 3)] + "..."


def _aligned(lines: Sequence[list[str]], last_is_text: bool) -> str:
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    texts = {0, 1, *([len(widths) - 1] if last_is_text else [])}
    rule = "  ".join("-" * width for width in widths)
    shown = [
        "  ".join(line[k].ljust(w) if k in texts else line[k].rjust(w) for k, w in enumerate(widths)) for line in lines
    ]
    return "\n".join([rule, shown[0], rule, *shown[1:], rule])

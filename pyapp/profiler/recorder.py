"""What a profile writes down while it records."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from ..engine.device import Device
from ..engine.tensor import Tensor
from ..engine.thread_local import ThreadLocal


class Span:
    """Something that began and ended in one thread. Times in nanoseconds of `time.perf_counter_ns`."""

    __slots__ = ("begin", "end", "kind", "memory", "name", "parent", "shapes", "thread")

    def __init__(self, name: str, kind: str, shapes: list[Any] | None, parent: Span | None, thread: int) -> None:
        self.name, self.kind, self.shapes, self.parent, self.thread = name, kind, shapes, parent, thread
        self.memory = 0  # bytes that tensors took in it, but not in what is inside of it
        self.begin = self.end = 0


class _Open(ThreadLocal):
    """The spans of a thread that have not ended, the innermost last."""

    def __init__(self) -> None:
        self.spans: list[Span] = []


class Recorder:
    """The listener of a profile: `spans` in the order of their ends."""

    def __init__(self, record_shapes: bool) -> None:
        self.record_shapes = record_shapes
        self.spans: list[Span] = []
        self.outside = 0  # bytes that tensors took outside of all spans
        self._open = _Open()
        # To write perf_counter's times as times since 1970.
        self.epoch = time.time_ns() - time.perf_counter_ns()

    def enter(self, name: str, kind: str, args: tuple[Any, ...]) -> None:
        """A span begins inside the innermost one of this thread."""
        inner = self._open.spans
        shapes = [_shape(a) for a in args] if self.record_shapes and kind == "op" else None
        span = Span(name, kind, shapes, inner[-1] if inner else None, threading.get_ident())
        inner.append(span)
        span.begin = time.perf_counter_ns()

    def leave(self) -> None:
        """The innermost span of this thread ends."""
        now = time.perf_counter_ns()
        if self._open.spans:
            span = self._open.spans.pop()
            span.end = now
            self.spans.append(span)

    def cancel(self) -> None:
        """The innermost span of this thread is forgotten; its memory counts where it lay."""
        span = self._open.spans.pop()
        if span.parent is None:
            self.outside += span.memory
        else:
            span.parent.memory += span.memory

    def memory(self, device: Device, nbytes: int) -> None:
        """Tensors took memory, or gave it back."""
        inner = self._open.spans
        if inner:
            inner[-1].memory += nbytes
        else:
            self.outside += nbytes

    def clear(self) -> None:
        """Forgets what has ended."""
        self.spans, self.outside = [], 0


def _shape(argument: Any) -> Any:
    """The shape of a tensor, the shapes of a list's tensors; nothing for other arguments, as in torch."""
    if isinstance(argument, Tensor):
        return list(argument.shape)
    if isinstance(argument, (list, tuple)):
        return [list(part.shape) for part in argument if isinstance(part, Tensor)]
    return []


_recorders: list[Recorder] = []  # the one that records, if any


def begin(recorder: Recorder) -> None:
    """`record_function` writes into this recorder from now on."""
    _recorders.append(recorder)


def end(recorder: Recorder) -> None:
    """It does no more."""
    _recorders.remove(recorder)


class record_function:
    """Names what runs inside, in the table of a profile: `with record_function("forward"):`, or as a decorator. While
    nothing is recorded it does nothing. `args` is shown beside the name in a trace."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._in: list[Recorder | None] = []

    def __enter__(self) -> record_function:
        recorder = _recorders[-1] if _recorders else None
        self._in.append(recorder)
        if recorder is not None:
            recorder.enter(self.name, "user", ())
            if self.args is not None:
                recorder._open.spans[-1].shapes = [self.args]
        return self

    def __exit__(self, *_: object) -> None:
        recorder = self._in.pop()
        if recorder is not None:
            recorder.leave()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapped

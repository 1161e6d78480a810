"""torch.cuda's streams and events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..engine.device import Device, as_device
from ..engine.devices import cuda as _cuda
from ..engine.gpu import nvidia
from ..engine.storage import Storage


def backend_of(device: Any = None) -> Any:
    """The backend of a card: of `device`, a number, a name or a Device; by default the current one. RuntimeError where
    there is no card, ValueError where `device` is none."""
    if isinstance(device, int) and not isinstance(device, bool):
        named = Device("cuda", device if device >= 0 else None)
    else:
        named = Device("cuda" if device is None else device)
    if named.type == "cuda" and nvidia.count() == 0:
        raise RuntimeError("cuda: there is no CUDA device; ask cuda.is_available() first")
    found = as_device(named).backend
    if not isinstance(found, _cuda.Cuda):
        raise ValueError(f"cuda: {str(named)!r} is not a card")
    return found


class Stream:
    """What is launched in a stream runs in order; what is launched in others may run beside it. `with stream:` launches
    in it. The memory of a tensor that was made in a stream serves that stream again when the tensor is gone: where
    another stream uses the tensor, let the streams wait for one another first, or call `tensor.record_stream(other)`.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self._backend = backend_of(device)
        self._own: _cuda.Stream | None = _cuda.Stream(self._backend, priority)
        self._before: list[_cuda.Stream | None] = []

    @classmethod
    def _of(cls, backend: Any, own: _cuda.Stream | None) -> Stream:
        made = object.__new__(cls)
        made._backend, made._own, made._before = backend, own, []
        return made

    @property
    def device(self) -> Device:
        """The card."""
        return Device("cuda", self._backend.index)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(self._backend.stream_of(self._own))

    def synchronize(self) -> None:
        """Waits until everything that was launched in it has run; raises what kernels have found wrong."""
        self._backend.card.wait_for_stream(self._backend.stream_of(self._own))
        self._backend.raise_errors()

    def query(self) -> bool:
        """Whether everything that was launched in it has run."""
        return bool(self._backend.card.stream_is_done(self._backend.stream_of(self._own)))

    def record_event(self, event: Event | None = None) -> Event:
        """Sets an event, a new one by default, after what was launched."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What is launched in it from here on waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What is launched in it from here on waits for what was launched in the other until now."""
        self.wait_event(stream.record_event())

    def record_use(self, storage: Storage) -> None:
        """What `Tensor.record_stream` does to a tensor's storage. RuntimeError where it is on another card."""
        if storage.device.backend is not self._backend:
            raise RuntimeError(f"record_stream: the tensor is on {storage.device}, the stream on {self.device}")
        storage.record_stream(self._own, None if self._own is None else self._own.number)

    def __enter__(self) -> Stream:
        self._before.append(self._backend.chosen)
        self._backend.chosen = self._own
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.chosen = self._before.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._backend is self._backend and other._own is self._own

    def __hash__(self) -> int:
        return hash((id(self._backend), id(self._own)))

    def __repr__(self) -> str:
        return f"<cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A mark in a stream, which is reached when everything before it has run."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise NotImplementedError("cuda.Event: events are not shared between processes")
        self._timing = enable_timing
        self._backend: Any = None
        self._handle: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """Sets the mark after what was launched in a stream, by default the current one."""
        stream = current_stream() if stream is None else stream
        if self._backend is None:
            self._backend = stream._backend
            self._handle = self._backend.card.new_event(self._timing)
        elif self._backend is not stream._backend:
            raise RuntimeError(f"cuda.Event: it belongs to another card than {stream!r}")
        self._backend.record_event(self._handle, stream._own)

    def wait(self, stream: Stream | None = None) -> None:
        """What is launched in a stream from here on, by default the current one, waits for the mark."""
        if self._backend is not None:
            stream = current_stream() if stream is None else stream
            stream._backend.hold_stream(stream._own, self._handle)

    def query(self) -> bool:
        """Whether the mark is reached, or was never set."""
        return self._backend is None or bool(self._backend.card.event_is_done(self._handle))

    def synchronize(self) -> None:
        """Waits until the mark is reached."""
        if self._backend is not None:
            self._backend.card.wait_for_event(self._handle)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another. RuntimeError unless both have timing, were set and are reached."""
        for event in (self, end_event):
            if not event._timing:
                raise RuntimeError("cuda.Event: times are kept by events with enable_timing=True")
            if event._backend is None:
                raise RuntimeError("cuda.Event: it was not recorded yet")
            if not event.query():
                raise RuntimeError("cuda.Event: it is not reached yet; call synchronize() first")
        return float(self._backend.card.milliseconds(self._handle, end_event._handle))

    def __del__(self) -> None:
        if getattr(self, "_backend", None) is not None:
            self._backend.card.end_event(self._handle)


def current_stream(device: Any = None) -> Stream:
    """The stream in which this thread launches."""
    backend = backend_of(device)
    return Stream._of(backend, backend.chosen)


def default_stream(device: Any = None) -> Stream:
    """The stream in which everything is launched unless another is chosen."""
    return Stream._of(backend_of(device), None)


def set_stream(stream: Stream | None) -> None:
    """Makes a stream the current one of this thread; None changes nothing."""
    if stream is not None:
        stream._backend.chosen = stream._own


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """A context whose kernels are launched in a stream; None changes nothing."""
    if stream is None:
        yield
        return
    with stream:
        yield


StreamContext = stream

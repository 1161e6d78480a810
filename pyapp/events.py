"""The events of tasks: small frozen records for the page, the command line and a server.

`Event.to_dict()` gives the record as JSON values with `type`. The page's worker posts these, and `--json` prints
them.
"""

from __future__ import annotations

import base64
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, fields
from typing import Any, ClassVar

from pyapp.dataclass import dataclass
from pyapp.errors import Cancelled


def finite(value: Any) -> Any:
    """`value`, but None for NaN and infinity, which JSON lacks."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Event:
    """Base of all events; `type` is the kind's name in JSON."""

    type: ClassVar[str] = "event"

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON values: its fields by name, without those that are None."""
        values = ((entry.name, getattr(self, entry.name)) for entry in fields(self))
        return {"type": self.type} | {name: value for name, value in values if value is not None}


@dataclass(frozen=True)
class Progress(Event):
    """`done` of `total` (None while unknown) `unit`s ("bytes", "tokens", "steps" ...) of the work called `what`."""

    type: ClassVar[str] = "progress"
    what: str
    done: float
    total: float | None = None
    unit: str = ""


@dataclass(frozen=True, init=False)
class Token(Event):
    """Text to be shown, and the token that completed it.

    `text` may be empty (an incomplete UTF-8 character, or a possible start of a stop string, is held back). `id` is
    None for text that was held back until the end. `index` counts the new tokens from 0.

    If asked for: `logprob` is the natural logarithm of the token's probability, `top_logprobs` are the likeliest
    tokens, mappings with id, text and logprob. `sample` is the number of the text, from 0, if several are generated.
    """

    type: ClassVar[str] = "token"
    text: str
    id: int | None
    index: int
    logprob: float | None = None
    top_logprobs: tuple[Mapping[str, Any], ...] | None = None
    sample: int | None = None

    def __init__(
        self,
        text: str,
        id: int | None,
        index: int,
        logprob: float | None = None,
        top_logprobs: tuple[Mapping[str, Any], ...] | None = None,
        sample: int | None = None,
    ) -> None:
        # Half the time of a dataclass's own, which goes through object.__setattr__: there is one event for each token.
        values = self.__dict__
        values["text"], values["id"], values["index"] = text, id, index
        if logprob is not None:
            values["logprob"] = logprob
        if top_logprobs is not None:
            values["top_logprobs"] = top_logprobs
        if sample is not None:
            values["sample"] = sample

    def to_dict(self) -> dict[str, Any]:
        """As Event.to_dict, written out for speed: there is one event for each token. -inf is null."""
        values: dict[str, Any] = {"type": "token", "text": self.text, "index": self.index}
        if self.id is not None:
            values["id"] = self.id
        if self.sample is not None:
            values["sample"] = self.sample
        if self.logprob is not None:
            values["logprob"] = finite(self.logprob)
        if self.top_logprobs is not None:
            values["top_logprobs"] = [{**entry, "logprob": finite(entry["logprob"])} for entry in self.top_logprobs]
        return values


@dataclass(frozen=True)
class Draft(Event):
    """The text behind the last Token of a model that writes by masked diffusion, which replaces the last Draft: tokens
    appear in their places, and "▒" stands for one that is not known yet.
    """

    type: ClassVar[str] = "draft"
    text: str


@dataclass(frozen=True)
class Thought(Event):
    """Text of a model's thinking, which comes before its answer and is not part of it."""

    type: ClassVar[str] = "thought"
    text: str


@dataclass(frozen=True)
class Segment(Event):
    """A stretch of a recording that is final: `start` to `end` in seconds, and its text.

    The other fields are openai-whisper's: `id` counts from 0, `seek` is the 10-ms frame at which the window began,
    `tokens` are the ids with timestamps, `words` (None unless asked for) are mappings with word, start, end and
    probability.

    Three fields are pyapp's own: `guess` is True if the model hardly understood this (pyapp.audio.confidence),
    `continues` if live speech goes on in the sentence of the segment before, `speaker` is the name of who says it
    ("Speaker 1"), which the words have too; all are None otherwise.
    """

    type: ClassVar[str] = "segment"
    text: str
    start: float
    end: float
    id: int = 0
    seek: int = 0
    tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 1.0
    no_speech_prob: float = 0.0
    words: tuple[Mapping[str, Any], ...] | None = None
    guess: bool | None = None
    continues: bool | None = None
    speaker: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As Event.to_dict; tokens and words are lists, NaN and infinity null."""
        values = {name: finite(value) for name, value in super().to_dict().items()} | {"tokens": list(self.tokens)}
        if self.words is not None:
            values["words"] = [{name: finite(value) for name, value in word.items()} for word in self.words]
        return values


@dataclass(frozen=True)
class Sound(Event):
    """A stretch of speech that was made of `text`, from `start` to `end` in seconds: `pcm` has its samples, 16-bit
    little-endian numbers of one channel, `rate` a second. In JSON they are base64.
    """

    type: ClassVar[str] = "sound"
    text: str
    start: float
    end: float
    rate: int
    pcm: bytes = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"pcm": base64.b64encode(self.pcm).decode()}


@dataclass(frozen=True)
class Partial(Event):
    """Text that is still being decoded and may change; it replaces the last Partial, and the next Segment ends it.

    `start` is its start in the recording, in seconds.
    """

    type: ClassVar[str] = "partial"
    text: str
    start: float


@dataclass(frozen=True)
class Language(Event):
    """The language of a recording as Whisper's code ("en"); `probability` is None if the user chose it."""

    type: ClassVar[str] = "language"
    code: str
    probability: float | None = None


@dataclass(frozen=True)
class Metric(Event):
    """A measured `value`; `step` places it on a curve (training)."""

    type: ClassVar[str] = "metric"
    name: str
    value: float
    unit: str = ""
    step: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As Event.to_dict; NaN and infinity become null, because JSON lacks them."""
        return super().to_dict() | {"value": finite(self.value)}


@dataclass(frozen=True)
class Notice(Event):
    """A warning while the work continues: what, where (a file), and a hint what to do."""

    type: ClassVar[str] = "notice"
    what: str
    where: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Doubt(Notice):
    """A warning that a transcript may be a guess; `share` (0 to 1) of its text is."""

    type: ClassVar[str] = "doubt"
    share: float = 1.0


@dataclass(frozen=True)
class Item(Event):
    """The result of one of several inputs: `index` counts them from 0, `values` are JSON values by name. Items may come
    in another order than the inputs.
    """

    type: ClassVar[str] = "item"
    index: int
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "index": self.index, **self.values}


@dataclass(frozen=True)
class Region(Event):
    """A block of text or a table that was found in picture `index` of a reading, before its lines are read: `region`
    counts those of the picture from 0 in the order of reading, `kind` is "text" or "table", `lines` how many lines it
    has. `box` is left, top, right, bottom in pixels, and `corners` are those of the region in a picture that is not
    straight, [x, y] each, from the left top one on. A table has `rows`, `columns` and `cells`: mappings with row,
    column, row_span, column_span, box and corners.
    """

    type: ClassVar[str] = "region"
    index: int
    region: int
    kind: str
    lines: int
    box: tuple[float, ...]
    corners: tuple[Any, ...]
    rows: int | None = None
    columns: int | None = None
    cells: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True)
class TextLine(Event):
    """A line that was read in picture `index`: `line` counts those of its region from 0, `confidence` is from 0 to 1,
    `words` are mappings with text, confidence, box and corners, `cell` is the number of its table's cell. `box` and
    `corners` are those of a Region. Lines come in any order.
    """

    type: ClassVar[str] = "line"
    index: int
    region: int
    line: int
    text: str
    confidence: float
    box: tuple[float, ...]
    corners: tuple[Any, ...]
    words: tuple[Mapping[str, Any], ...] = ()
    cell: int | None = None


@dataclass(frozen=True)
class Done(Event):
    """The last event of a successful task: the reason of its end, and its results by name in JSON."""

    type: ClassVar[str] = "done"
    reason: str = "complete"
    results: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "reason": self.reason, **self.results}


@dataclass(frozen=True)
class Error(Event):
    """The last event of a task that failed: what happened, where (a file, a setting), and a hint what to do."""

    type: ClassVar[str] = "error"
    what: str
    where: str | None = None
    hint: str | None = None


class Cancel:
    """A flag that Stop sets and running work checks; it can be set from a signal handler or a thread."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def check(self) -> None:
        """Raises Cancelled once the flag is set."""
        if self._set:
            raise Cancelled("stopped")

    @contextmanager
    def set_by_interrupt(self, *, keeps_state: bool = False) -> Iterator[None]:
        """A context in which the first Ctrl-C sets the flag, and the second interrupts at once. In other threads than
        the main one, and in a browser, it changes nothing.

        keeps_state: the work saves its state when it is stopped, so SIGTERM (a scheduler ends the job) and SIGHUP (the
        terminal was closed) set the flag, too; the second one ends the process.
        """
        if threading.current_thread() is not threading.main_thread() or sys.platform == "emscripten":
            yield
            return
        names = ("SIGINT", "SIGTERM", "SIGHUP") if keeps_state else ("SIGINT",)
        numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has no SIGHUP
        before = {number: signal.getsignal(number) for number in numbers}
        for number in numbers[1:]:
            if before[number] in (signal.SIG_IGN, None):  # nohup ignores SIGHUP
                del before[number]

        def handler(number: int, frame: Any) -> None:
            self.set()
            for other in before:
                signal.signal(other, signal.default_int_handler if other == signal.SIGINT else signal.SIG_DFL)

        for number in before:
            signal.signal(number, handler)
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)


def reading_of(
    report: Callable[[Event], None], cancel: Cancel | None, what: str = "reading the model"
) -> Callable[[int, int], None]:
    """What reports how many bytes of a model have been read, and stops the reading once `cancel` is set."""

    def progress(done: int, total: int) -> None:
        if cancel is not None:
            cancel.check()
        report(Progress(what, done, total, "bytes"))

    return progress

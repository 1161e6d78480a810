"""Show transcriptions: text on stdout as it is decoded, other messages on stderr."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import click

from pyapp.audio.subtitles import Layout
from pyapp.audio.transcript import Transcript
from pyapp.audio.transcript_writers import format_transcript, spoken_line
from pyapp.cli.views import JsonView, View
from pyapp.events import Done, Event, Language, Partial, Progress, Segment
from pyapp.text.languages import LANGUAGES

REFRESH = 0.1  # seconds between two updates of the bar
LAST_LETTERS = 40


class Heard(View):
    """Collects the segments, also of a transcription that is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self._segments: list[Segment] = []
        self._language: str | None = None
        self._results: dict[str, Any] = {}

    def show(self, event: Event) -> None:
        if isinstance(event, Segment):
            self._segments.append(event)
        elif isinstance(event, Language):
            self._language = event.code
        elif isinstance(event, Done) and event.reason == "complete":
            self._results = dict(event.results)
        super().show(event)

    def transcript(self) -> Transcript:
        """The complete transcript, or the part so far."""
        heard = {"segments": [segment.to_dict() for segment in self._segments], "language": self._language}
        return Transcript.from_dict({**heard, **self._results})


class LoadJson(JsonView):
    """The events of loading a model, without Done: the recordings follow."""

    def show(self, event: Event) -> None:
        if isinstance(event, Done) and event.reason == "complete":
            self.outcome = event.reason
        else:
            super().show(event)


class TranscribeJson(Heard, JsonView):
    """One event per line, with the file's name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.extra = {"file": name}


class TranscribeView(Heard):
    """A bar with the last words, and lines of text as they become final (for `format` "txt"), or the finished document.

    `format` is the format on stdout, None for nothing; `layout` is for subtitles. With `several` recordings each has a
    heading.
    """

    def __init__(self, name: str, format: str | None, layout: Layout | None, several: bool) -> None:
        super().__init__()
        self._name, self._format, self._layout, self._several = name, format, layout, several
        self._begun = False
        self._refreshed = 0.0

    def show(self, event: Event) -> None:
        if isinstance(event, Segment):
            self._line(spoken_line(event.text, event.speaker))
        elif isinstance(event, Partial):
            self._last_words(event.text)
        super().show(event)

    def _last_words(self, text: str) -> None:
        due = time.monotonic() - self._refreshed > REFRESH
        for bar in self._bars.values():
            bar.set_postfix_str(text.strip()[-LAST_LETTERS:], refresh=due and is_drawn(bar))
        if time.monotonic() - self._refreshed > REFRESH:
            self._refreshed = time.monotonic()

    def progress(self, event: Progress) -> None:
        if event.unit != "seconds":
            super().progress(event)
            return
        if event.what.startswith("reading"):  # a timeout without new events
            return
        super().progress(replace(event, what=self._name if self._several else event.what))
        for bar in self._bars.values():
            known = "{percentage:3.0f}%|{bar}| " if event.total else ""
            bar.bar_format = f"{{desc}}: {known}{clock(event.done)} {{postfix}}"

    def _line(self, text: str) -> None:
        """Prints a finished segment to stdout, or, if files are written, to the terminal."""
        if self._format == "txt":
            self._heading()
            self._above_the_bar(text, sys.stdout)
        elif self._bars:
            self._above_the_bar(text, sys.stderr)

    def _heading(self) -> None:
        if self._several and not self._begun:
            self._above_the_bar(f"==> {self._name} <==", sys.stdout)
        self._begun = True

    def _above_the_bar(self, text: str, stream: Any) -> None:
        drawn = [bar for bar in self._bars.values() if is_drawn(bar)]
        for bar in drawn:
            bar.clear()
        print(text, file=stream, flush=True)
        for bar in drawn:
            bar.refresh()

    def done(self, event: Done) -> None:
        transcript = self.transcript()
        if self._format == "txt":
            self._heading()
        elif self._format is not None and (event.reason == "complete" or transcript.segments):
            sys.stdout.write(format_transcript(transcript, self._format, self._layout))
            sys.stdout.flush()
        if event.reason == "cancelled":
            last = f" after {clock(transcript.segments[-1].end)}" if transcript.segments else ""
            click.echo(f"[{self._name}: stopped{last}]", err=True)
            return
        parts = [clock(transcript.duration or 0)]
        if transcript.language is not None:
            parts.append(LANGUAGES.get(transcript.language, transcript.language).title())
        if "speed" in self.metrics:
            parts.append(f"{self.metrics['speed'].value:,.1f} × real time")
        click.echo(f"[{self._name}: {', '.join(parts)}]", err=True)


def is_drawn(bar: Any) -> bool:
    """Whether a bar is on the terminal. Before its delay it is not, and closing it then would not remove it."""
    drawn: bool = bar.last_print_t >= bar.start_t + bar.delay
    return drawn


def clock(seconds: float) -> str:
    """m:ss, from an hour on h:mm:ss."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

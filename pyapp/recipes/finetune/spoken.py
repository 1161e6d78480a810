"""Recordings, and what is said in them, from the lines of a .jsonl, .csv or .tsv file. Long ones are cut between
segments.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from pyapp.audio.constants import SAMPLE_RATE
from pyapp.dataclass import dataclass
from pyapp.errors import FileFormatError
from pyapp.events import Cancel, Event, Notice, Progress

from .examples import digest_of
from .labelled import entries
from .steps import Request
from .stretches import Stretch, StretchFile, recording_of, samples_of
from .whole import WholeSettings, WholeTraining

FIELDS = ("audio", "text"), ("file_name", "transcription")  # those of the datasets library's folders are the second
PARTS = "segments"  # a field in place of the text
FORMS = "; ".join(f"{', '.join(names)} (or {PARTS})" for names in FIELDS)
EMPTY = "without a text"
CUT_BY = f'Give {PARTS} instead of the text, by which they are cut: [{{"start": 0.0, "end": 1.5, "text": "…"}}, …]'
LONGEST = 1e9  # seconds of a recording
LATER = 0.5  # seconds by which a segment may end after its recording: sizes of files of sound are rounded


@dataclass(frozen=True)
class Segment:
    """What is said from `start` to `end`, in seconds; the text has no spaces around it."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Spoken:
    """A line: its place in errors, the recording, the text without spaces around it, its segments if it has these, and
    its fields by name; or a window of it, with the one before.
    """

    where: str
    path: Path | Stretch
    text: str
    segments: tuple[Segment, ...]
    fields: Mapping[str, Any]
    before: Spoken | None = None

    def check_times(self, seconds: float) -> None:
        """FileFormatError for segments that end after `seconds`, the length of the recording."""
        if self.segments and self.segments[-1].end > seconds + LATER:
            raise FileFormatError(
                f"its last segment ends at {self.segments[-1].end:g} s, the recording at {seconds:.2f} s",
                where=self.where,
            )


def windows_of(line: Spoken, samples: Any, seconds: float, kept: StretchFile) -> list[Spoken]:
    """The windows of a line, whose samples are float32 (N,): of up to so many seconds, with as many segments as fit. A
    window begins where the last segment of the one before ends, as when long recordings are transcribed; if the next
    segment would then not fit, where that one begins. It ends before the next segment. A segment that is longer has a
    window of its own, which is longer, too. Times are those from the window's beginning.
    """
    windows: list[Spoken] = []
    segments, place, begin, most = line.segments, 0, 0.0, seconds + 1e-6  # times are rounded
    while place < len(segments):
        if segments[place].end - begin > most:
            begin = segments[place].start
        last = place
        while last + 1 < len(segments) and segments[last + 1].end - begin <= most:
            last += 1
        said, end = segments[place : last + 1], segments[last].end
        until = segments[last + 1].start if last + 1 < len(segments) else len(samples) / SAMPLE_RATE
        start, stop = round(begin * SAMPLE_RATE), round(until * SAMPLE_RATE)
        limit = round((seconds if end - begin <= most else end - begin) * SAMPLE_RATE)
        sound = kept.add(samples[start : min(stop, start + limit)], recording_of(line.path))
        own = tuple(Segment(one.start - begin, one.end - begin, one.text) for one in said)
        text = " ".join(one.text for one in said)
        windows.append(replace(line, path=sound, text=text, segments=own, before=windows[-1] if windows else None))
        place, begin = last + 1, end
    return windows


def read_lines(path: Path) -> list[Spoken]:
    """The lines of a file. Paths in it are those from its folder. FileFormatError names the line that is not valid, or
    whose recording is not there.
    """
    found = []
    for where, entry in entries(path):
        names = next((names for names in FIELDS if isinstance(entry, dict) and names[0] in entry), None)
        segments = () if names is None or PARTS not in entry else _segments(entry[PARTS], where)
        joined = " ".join(segment.text for segment in segments) if isinstance(entry, dict) and PARTS in entry else None
        text = None if names is None else entry.get(names[1], joined)
        if names is None or not isinstance(entry[names[0]], str) or not isinstance(text, str):
            raise FileFormatError("the line is not a recording with its text", where=where, hint=f"Give {FORMS}")
        file = path.parent / entry[names[0]]
        if not os.path.isfile(file):  # Path.is_file raises for names that are too long, such as recordings in base64
            raise FileFormatError(f"there is no recording {entry[names[0]]!r:.200}", where=where)
        found.append(Spoken(where, file, text.strip(), segments, entry))
    return found


def _segments(given: Any, where: str) -> tuple[Segment, ...]:
    """The segments of a line, each of which begins when the one before it has ended. FileFormatError for others."""
    found: list[Segment] = []
    for number, entry in enumerate(given if isinstance(given, list) else [None], 1):
        fields = entry if isinstance(entry, dict) else {}
        start, end, text = (fields.get(name) for name in ("start", "end", "text"))
        if not (_is_time(start) and _is_time(end) and isinstance(text, str) and text.strip()):
            raise FileFormatError(
                f"segment {number} has no start and end in seconds and a text", where=where,
                hint='A segment is {"start": 0.0, "end": 1.5, "text": "…"}',
            )  # fmt: skip
        before = found[-1].end if found else 0.0
        if not before <= start <= end:
            raise FileFormatError(
                f"segment {number} is from {start:g} to {end:g} s, and the one before ends at {before:g} s",
                where=where, hint="Put the segments into the order in which they are said; they do not overlap",
            )  # fmt: skip
        found.append(Segment(float(start), float(end), text.strip()))
    return tuple(found)


def _is_time(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and 0 <= value < LONGEST


def lines_in(request: Request) -> dict[Path, list[Spoken]]:
    """The lines of the files that a training is asked for."""
    return {path: read_lines(path) for path in (request.data, request.held_out_data) if path is not None}


def started(
    training: type[WholeTraining], request: Request, kind: type[WholeSettings], loaded: Any, seconds: float,
    row_of: Callable[[Spoken, int], Any], files: Mapping[Path, Sequence[Spoken]] | None = None,
) -> Iterator[Event]:  # fmt: skip
    """The events of a training on the recordings of files (None: those of the request), with settings of the kind.
    Recordings of more seconds are cut into windows, if their lines have segments. `row_of` a line, or a window of it,
    and the number of its samples is what is learnt, or a text: why it is left out, as in "2 recordings are …", which a
    Notice reports. FileFormatError for a file of which nothing is left.
    """
    rows: dict[Path, list[Any]] = {}
    with StretchFile(request.out) as kept:
        chosen = _chosen_rows(lines_in(request) if files is None else files, seconds, row_of, kept, request.cancel)
        for event in chosen:
            if isinstance(event, dict):
                rows = event
            else:
                yield event
        digests = {"data": digest_of(request.data)}
        if request.held_out_data is not None:
            digests["held_out_data"] = digest_of(request.held_out_data)
        settings, held_out = request.settings_as(kind, **digests), request.held_out_data
        yield from training.started(
            request, settings, loaded, rows[request.data], None if held_out is None else rows[held_out]
        )


def _chosen_rows(
    files: Mapping[Path, Sequence[Spoken]], seconds: float, row_of: Callable[[Spoken, int], Any], kept: StretchFile,
    cancel: Cancel,
) -> Iterator[Event | dict[Path, list[Any]]]:  # fmt: skip
    """Progress while the recordings are read, a Notice for each reason to leave some out, and last the rows of each
    file.
    """
    rows: dict[Path, list[Any]] = {path: [] for path in files}
    left, done, count = Counter[tuple[str, str]](), 0, sum(map(len, files.values()))
    long = f"longer than {seconds:g} s"
    uncut = f"{long} and without {PARTS}"
    for path, lines in files.items():
        own = Counter[tuple[str, str]]()
        for line in lines:
            cancel.check()
            sound = samples_of(line.path)
            parts, noun = [(line, len(sound))], "recording"
            if len(sound) > seconds * SAMPLE_RATE and line.segments:
                line.check_times(len(sound) / SAMPLE_RATE)
                cut = windows_of(line, sound, seconds, kept)
                parts, noun = [(part, part.path.count) for part in cut if isinstance(part.path, Stretch)], "window"
            for part, samples in parts:
                row = row_of(part, samples)
                if samples > seconds * SAMPLE_RATE:
                    own[("recording", uncut) if part is line else ("segment", long)] += 1
                elif isinstance(row, str):
                    own[noun, row] += 1
                else:
                    rows[path].append(row)
            done += 1
            yield Progress("reading the recordings", done, count, "recordings")
        if not rows[path]:
            reasons = "; ".join(map(_told, own.items())) or "there are none"
            what, hint = f"none of its recordings can be learnt: {reasons}", CUT_BY if uncut in reasons else None
            raise FileFormatError(what, where=str(path), hint=hint)
        left += own
    for reason in left.items():
        yield Notice(f"{_told(reason)}, and left out", hint=CUT_BY if reason[0][1] == uncut else None)
    yield rows


def _told(reason: tuple[tuple[str, str], int]) -> str:
    (noun, what), count = reason
    return f"{count:,} {noun} is {what}" if count == 1 else f"{count:,} {noun}s are {what}"

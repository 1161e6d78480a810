"""Transcripts: segments and words with times, and what they are written as.

The formats are those of https://github.com/openai/whisper (MIT): plain text, JSON with its verbose fields, SubRip
(.srt), WebVTT (https://www.w3.org/TR/webvtt1/) and tab-separated values in milliseconds. Before writing the times are
put in order (Transcript.tidy): they never run backwards, never overlap and never pass the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any, TypeVar

from pyapp.audio.subtitles import Layout, make_cues
from pyapp.errors import OptionError
from pyapp.formats.sink import AnySink, open_sink


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its punctuation and leading space; times in seconds, `probability` 0 to 1."""

    word: str
    start: float
    end: float
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Segment:
    """What was decoded between two timestamps; times in seconds.

    `id` counts from 0, `seek` is the 10-ms frame at which its window began, `tokens` are its ids with timestamps,
    the rest says how sure the model was. `words` is None where no word times were asked for.
    """

    start: float
    end: float
    text: str
    id: int = 0
    seek: int = 0
    tokens: Sequence[int] = ()
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 1.0
    no_speech_prob: float = 0.0
    words: Sequence[Word] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As in openai-whisper's JSON; numbers that JSON lacks (NaN, infinity) become None."""
        found: dict[str, Any] = {"id": self.id, "seek": self.seek, "start": self.start, "end": self.end}
        found |= {"text": self.text, "tokens": [int(token) for token in self.tokens]}
        for name in ("temperature", "avg_logprob", "compression_ratio", "no_speech_prob"):
            found[name] = plain_number(getattr(self, name))
        if self.words is not None:
            found["words"] = [asdict(word) | {"probability": plain_number(word.probability)} for word in self.words]
        return found


Timed = TypeVar("Timed", Word, Segment)


@dataclass(frozen=True, slots=True)
class Transcript:
    """All segments of a recording. `duration` in seconds, None where not known; `task` transcribe or translate."""

    segments: Sequence[Segment] = field(default_factory=tuple)
    language: str | None = None
    duration: float | None = None
    task: str = "transcribe"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Transcript:
        """From JSON values: what to_json() wrote, or the `segments` that a task reported. Fields that are unknown here
        are left out; OptionError for values of other kinds."""
        known = {entry.name for entry in fields(Segment)} - {"words"}
        try:
            segments = [
                Segment(
                    **{name: value for name, value in item.items() if name in known and value is not None},
                    words=words and [Word(**word) for word in words],
                )
                for item in values["segments"]
                for words in (item.get("words"),)
            ]
            return cls(segments, values.get("language"), values.get("duration"), values.get("task") or "transcribe")
        except (AttributeError, KeyError, TypeError) as error:
            raise OptionError(f"this is no transcript: {error}", where="segments") from error

    @property
    def text(self) -> str:
        """The text of all segments, as they follow one another."""
        return "".join(segment.text for segment in self.segments)

    def tidy(self) -> Transcript:
        """The same with times in whole milliseconds that run forward, do not overlap, and end with the recording.

        Later text wins the time: what overlaps is cut at the next start. Words stay inside their segment.
        """
        end = inf if self.duration is None else max(0.0, float(self.duration))
        segments = [
            segment
            if segment.words is None
            else replace(segment, words=in_order(segment.words, segment.start, segment.end))
            for segment in in_order(self.segments, 0.0, end)
        ]
        return replace(self, segments=segments)


def in_order(items: Sequence[Timed], first: float, last: float) -> list[Timed]:
    """The items in their order, with times between `first` and `last`, none before the end of the one before."""
    starts: list[float] = []
    earliest = first
    for item in items:
        earliest = max(earliest, milliseconds(item.start, earliest, last))
        starts.append(earliest)
    result = []
    for item, start, limit in zip(items, starts, [*starts, last][1:], strict=True):
        result.append(replace(item, start=start, end=max(start, milliseconds(item.end, start, limit))))
    return result


def milliseconds(seconds: float, low: float, high: float) -> float:
    """Rounded to milliseconds and kept between `low` and `high` (never rounded past them); NaN is `low`."""
    if isnan(seconds):
        return low
    seconds = min(max(float(seconds), low), high)
    if not isfinite(seconds):  # only where the recording has no known end
        return low
    return min(max(round(seconds, 3), low), high)


def plain_number(value: float) -> float | None:
    return value if isfinite(value) else None


def timestamp(seconds: float, mark: str = ".", always_hours: bool = True) -> str:
    """hh:mm:ss.mmm; hours have as many digits as they need. Rounds down nothing that is whole milliseconds."""
    hours, rest = divmod(int(seconds * 1000 + 1e-4), 3_600_000)  # never later than the time itself
    minutes, rest = divmod(rest, 60_000)
    whole, part = divmod(rest, 1000)
    shown = f"{hours:02d}:" if always_hours or hours else ""
    return f"{shown}{minutes:02d}:{whole:02d}{mark}{part:03d}"


def one_line(text: str) -> str:
    """The text as one line of a cue: an empty line would end it, and `-->` is the mark of its times."""
    line = " ".join(text.replace("\0", " ").split())
    while "-->" in line:
        line = line.replace("-->", "->")
    return line


def to_text(transcript: Transcript) -> str:
    """One line for each segment."""
    lines = (" ".join(segment.text.split()) for segment in transcript.segments)
    return "".join(f"{line}\n" for line in lines if line)


def to_json(transcript: Transcript) -> str:
    """One object with openai's verbose fields: task, language, duration, text and segments."""
    found = {
        "task": transcript.task,
        "language": transcript.language,
        "duration": transcript.duration,
        "text": transcript.text,
        "segments": [segment.to_dict() for segment in transcript.segments],
    }
    return json.dumps(found, ensure_ascii=False, allow_nan=False) + "\n"


def to_srt(transcript: Transcript, layout: Layout | None = None) -> str:
    """SubRip: numbered cues; segments without text are left out."""
    return "".join(
        f"{number}\n{timestamp(cue.start, ',')} --> {timestamp(cue.end, ',')}\n{cue.text}\n\n"
        for number, cue in enumerate(make_cues(transcript, layout, one_line), 1)
    )


def to_vtt(transcript: Transcript, layout: Layout | None = None) -> str:
    """WebVTT; segments without text are left out, `&` and `<` are escaped."""

    def clean(text: str) -> str:
        return one_line(text).replace("&", "&amp;").replace("<", "&lt;")

    cues = [
        f"{timestamp(cue.start, always_hours=False)} --> {timestamp(cue.end, always_hours=False)}\n{cue.text}\n\n"
        for cue in make_cues(transcript, layout, clean)
    ]
    return "WEBVTT\n\n" + "".join(cues)


def to_tsv(transcript: Transcript) -> str:
    """Columns start, end (milliseconds) and text, with a head line; tabs in the text become spaces."""
    rows = (
        f"{int(segment.start * 1000 + 1e-4)}\t{int(segment.end * 1000 + 1e-4)}\t{line}\n"
        for segment in transcript.segments
        if (line := " ".join(segment.text.split()))
    )
    return "start\tend\ttext\n" + "".join(rows)


FORMATS: dict[str, Callable[[Transcript], str]] = {
    "txt": to_text,
    "json": to_json,
    "srt": to_srt,
    "vtt": to_vtt,
    "tsv": to_tsv,
}


def format_transcript(transcript: Transcript, format: str, layout: Layout | None = None) -> str:
    """The transcript as "txt", "json", "srt", "vtt" or "tsv", with tidy times; `layout` is for subtitles of words that
    have times. OptionError for another format."""
    if format not in FORMATS:
        raise OptionError(
            f"there is no transcript format {format!r}", where="format", hint=f"Choose one of {', '.join(FORMATS)}"
        )
    tidy = transcript.tidy()
    text = (
        to_srt(tidy, layout) if format == "srt" else to_vtt(tidy, layout) if format == "vtt" else FORMATS[format](tidy)
    )
    return text.encode("utf-8", "replace").decode()  # half of a surrogate pair has no UTF-8


def write_transcript(
    target: AnySink, transcript: Transcript, format: str | None = None, layout: Layout | None = None
) -> None:
    """Writes UTF-8 to a path or a binary file; the format is the path's suffix unless it is given."""
    if format is None:
        name = target if isinstance(target, (str, os.PathLike)) else getattr(target, "name", "")
        format = Path(str(name)).suffix[1:].lower()
    data = format_transcript(transcript, format, layout).encode()
    with open_sink(target) as file:
        file.write(data)

"""Write transcripts.

The formats are those of https://github.com/openai/whisper (MIT): plain text, JSON with its verbose fields, SubRip
(.srt), WebVTT (https://www.w3.org/TR/webvtt1/) and tab-separated values in milliseconds. The times are tidied before
writing (Transcript.tidy): they never decrease, never overlap and never pass the end. Where speakers are told apart, all
formats name them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyapp.audio.confidence import in_words
from pyapp.audio.subtitles import Layout, make_cues
from pyapp.audio.transcript import Transcript
from pyapp.errors import OptionError
from pyapp.formats.sink import AnySink, open_sink


def timestamp(seconds: float, mark: str = ".", always_hours: bool = True) -> str:
    """hh:mm:ss.mmm, rounded down to milliseconds; hours have as many digits as they need."""
    hours, rest = divmod(int(seconds * 1000 + 1e-4), 3_600_000)  # rounded down
    minutes, rest = divmod(rest, 60_000)
    whole, part = divmod(rest, 1000)
    shown = f"{hours:02d}:" if always_hours or hours else ""
    return f"{shown}{minutes:02d}:{whole:02d}{mark}{part:03d}"


def one_line(text: str) -> str:
    """The text as one line of a cue, because an empty line would end the cue and `-->` would mark times."""
    line = " ".join(text.replace("\0", " ").split())
    while "-->" in line:
        line = line.replace("-->", "->")
    return line


def spoken_line(text: str, speaker: str | None) -> str:
    """A text as one line, with the name of its speaker, if there is one. A line without text is empty."""
    line = " ".join(text.split())
    return f"{one_line(speaker)}: {line}" if speaker and line else line


def to_text(transcript: Transcript) -> str:
    """One line for each segment, after the name of its speaker."""
    lines = (spoken_line(segment.text, segment.speaker) for segment in transcript.segments)
    return "".join(f"{line}\n" for line in lines if line)


def to_json(transcript: Transcript) -> str:
    """One object with openai's verbose fields: task, language, duration, text and segments; and `guess`, the share of
    the text that may be a guess, if there is one.
    """
    found: dict[str, Any] = {
        "task": transcript.task,
        "language": transcript.language,
        "duration": transcript.duration,
        "text": transcript.text,
        "segments": [segment.to_dict() for segment in transcript.segments],
    }
    if transcript.guess is not None:
        found["guess"] = transcript.guess
    return json.dumps(found, ensure_ascii=False, allow_nan=False) + "\n"


def to_srt(transcript: Transcript, layout: Layout | None = None) -> str:
    """SubRip: numbered cues, with the name of the speaker; segments without text are left out."""

    def name(speaker: str | None) -> str:
        return f"{one_line(speaker)}: " if speaker else ""

    return "".join(
        f"{number}\n{timestamp(cue.start, ',')} --> {timestamp(cue.end, ',')}\n{name(cue.speaker)}{cue.text}\n\n"
        for number, cue in enumerate(make_cues(transcript, layout, one_line), 1)
    )


def to_vtt(transcript: Transcript, layout: Layout | None = None) -> str:
    """WebVTT; segments without text are left out, `&` and `<` are escaped. Speakers are voice spans (<v Speaker 1>). A
    note says if the text may be a guess.
    """

    def clean(text: str) -> str:
        return one_line(text).replace("&", "&amp;").replace("<", "&lt;")

    def voice(speaker: str | None) -> str:
        return f"<v {clean(speaker).replace('>', '&gt;')}>" if speaker else ""

    cues = [
        f"{timestamp(cue.start, always_hours=False)} --> {timestamp(cue.end, always_hours=False)}\n"
        f"{voice(cue.speaker)}{cue.text}\n\n"
        for cue in make_cues(transcript, layout, clean)
    ]
    note = "" if transcript.guess is None else f"NOTE {in_words(transcript.guess)}\n\n"
    return f"WEBVTT\n\n{note}" + "".join(cues)


def to_tsv(transcript: Transcript) -> str:
    """Columns start, end (milliseconds) and text, and speaker if speakers are told apart, with a head line; tabs in the
    text become spaces.
    """
    named = any(segment.speaker for segment in transcript.segments)
    rows = [["start", "end", "text", "speaker"]]
    for segment in transcript.segments:
        if line := " ".join(segment.text.split()):
            times = [str(int(seconds * 1000 + 1e-4)) for seconds in (segment.start, segment.end)]
            rows.append([*times, line, one_line(segment.speaker or "")])
    return "".join("\t".join(row if named else row[:-1]) + "\n" for row in rows)


FORMATS: dict[str, Callable[[Transcript], str]] = {
    "txt": to_text,
    "json": to_json,
    "srt": to_srt,
    "vtt": to_vtt,
    "tsv": to_tsv,
}


def format_transcript(transcript: Transcript, format: str, layout: Layout | None = None) -> str:
    """The transcript as "txt", "json", "srt", "vtt" or "tsv", with tidy times; `layout` is for subtitles of words with
    times. OptionError for another format.
    """
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
    """Writes UTF-8 to a path or a binary file; the default format is the path's suffix."""
    if format is None:
        name = target if isinstance(target, (str, os.PathLike)) else getattr(target, "name", "")
        format = Path(str(name)).suffix[1:].lower()
    data = format_transcript(transcript, format, layout).encode()
    with open_sink(target) as file:
        file.write(data)

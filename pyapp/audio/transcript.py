"""Transcripts: segments and words with times. `transcript_writers` writes them, `subtitles` cuts them into cues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from math import inf, isfinite, isnan
from typing import Any, TypeVar

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError
from pyapp.events import finite


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its punctuation and leading space; times in seconds, `probability` 0 to 1. `speaker` is the name of
    who says it, None if speakers were not told apart.
    """

    word: str
    start: float
    end: float
    probability: float = 1.0
    speaker: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As in openai-whisper's JSON, and with the speaker, if there is one."""
        found = asdict(self) | {"probability": finite(self.probability)}
        if self.speaker is None:
            del found["speaker"]
        return found


@dataclass(frozen=True, slots=True)
class TranscriptSegment:
    """A stretch of a transcript between two timestamps; times in seconds.

    `id` counts from 0, `seek` is the 10-ms frame at which its window began, `tokens` are its ids with timestamps; the
    next four fields are measures of the model's confidence. `words` is None if word times were not requested, `speaker`
    if speakers were not told apart.
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
    speaker: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As in openai-whisper's JSON, and with the speaker, if there is one; numbers that JSON lacks (NaN, infinity)
        become None.
        """
        found: dict[str, Any] = {"id": self.id, "seek": self.seek, "start": self.start, "end": self.end}
        found |= {"text": self.text, "tokens": [int(token) for token in self.tokens]}
        for name in ("temperature", "avg_logprob", "compression_ratio", "no_speech_prob"):
            found[name] = finite(getattr(self, name))
        if self.words is not None:
            found["words"] = [word.to_dict() for word in self.words]
        if self.speaker is not None:
            found["speaker"] = self.speaker
        return found


Timed = TypeVar("Timed", Word, TranscriptSegment)


@dataclass(frozen=True, slots=True)
class Transcript:
    """All segments of a recording. `duration` in seconds, None if unknown; `task` transcribe or translate; `guess` the
    share of the text that may be a guess, None if the model was sure.
    """

    segments: Sequence[TranscriptSegment] = field(default_factory=tuple)
    language: str | None = None
    duration: float | None = None
    task: str = "transcribe"
    guess: float | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Transcript:
        """From JSON values: the result of to_json(), or the `segments` of a task. Unknown fields are ignored.
        OptionError for values of other kinds.
        """
        known = {entry.name for entry in fields(TranscriptSegment)} - {"words"}
        try:
            segments = [
                TranscriptSegment(
                    **{name: value for name, value in item.items() if name in known and value is not None},
                    words=words and [Word(**word) for word in words],
                )
                for item in values["segments"]
                for words in (item.get("words"),)
            ]
            words_of = (segment.words or () for segment in segments)
            names = [*(one.speaker for one in segments), *(one.speaker for words in words_of for one in words)]
            if wrong := [name for name in names if not isinstance(name, str | None)]:
                raise TypeError(f"the name of a speaker is {wrong[0]!r:.40}")
            share = values.get("guess")
            guess = None if share is None else float(share)
            task = values.get("task") or "transcribe"
            return cls(segments, values.get("language"), values.get("duration"), task, guess)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OptionError(f"this is not a transcript: {error}", where="segments") from error

    @property
    def text(self) -> str:
        """The joined text of all segments."""
        return "".join(segment.text for segment in self.segments)

    def tidy(self) -> Transcript:
        """The same transcript with times in whole milliseconds that increase, do not overlap, and are inside the
        recording. A segment that overlaps the next one ends at the start of that one. Words stay inside their segment.
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
    """The items in order, with times between `first` and `last`; none starts before the end of the previous item."""
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
    if not isfinite(seconds):  # only if the end of the recording is unknown
        return low
    return min(max(round(seconds, 3), low), high)

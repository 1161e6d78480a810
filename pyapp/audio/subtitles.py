"""Cut transcripts into subtitles: by segment, or by words into lines and cues of a given size.

The settings are those of https://github.com/openai/whisper (MIT), with its behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyapp.audio.transcript import Transcript, TranscriptSegment, Word
from pyapp.dataclass import dataclass
from pyapp.errors import OptionError

LONG_PAUSE = 3.0  # seconds of pause that end a cue if lines are counted


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of subtitles: `max_line_width` characters in a line, `max_line_count` lines in a cue, or
    `max_words_per_line`; `highlight_words` underlines each word as it is spoken. OptionError, with the name of the
    setting, for sizes below 1 and for incompatible settings.
    """

    max_line_width: int | None = None
    max_line_count: int | None = None
    max_words_per_line: int | None = None
    highlight_words: bool = False

    def __post_init__(self) -> None:
        for name in ("max_line_width", "max_line_count", "max_words_per_line"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise OptionError(f"must be a whole number from 1, not {value!r:.40}", where=name)
        if self.max_line_count is not None and self.max_line_width is None:
            raise OptionError("needs max_line_width", where="max_line_count")
        if self.max_words_per_line is not None and self.max_line_width is not None:
            raise OptionError("does not go with max_line_width", where="max_words_per_line")


@dataclass(frozen=True, slots=True)
class Cue:
    """The text shown from `start` to `end`, in seconds; lines are separated by line breaks. `speaker` says it."""

    start: float
    end: float
    text: str
    speaker: str | None = None


def make_cues(transcript: Transcript, layout: Layout | None, clean: Callable[[str], str]) -> Iterator[Cue]:
    """The cues of a transcript with tidy times; cues without text are left out. `clean` prepares a text for the format.
    Without a layout, or for words without times, a segment is a cue.
    """
    if layout is None or not all(segment.words for segment in transcript.segments if segment.text.strip()):
        for segment in transcript.segments:
            if text := clean(segment.text):
                yield Cue(segment.start, segment.end, text, segment.speaker)
        return
    for lines in cut(transcript.segments, layout):
        words = [word for line in lines for word in line]
        texts = [[clean(word.word.strip()) for word in line] for line in lines]
        spaces = [[" " if word.word[:1].isspace() and at else "" for at, word in enumerate(line)] for line in lines]
        if layout.highlight_words:
            yield from highlighted(words, texts, spaces)
        else:
            yield Cue(words[0].start, words[-1].end, joined(texts, spaces), words[0].speaker)


def cut(segments: Sequence[TranscriptSegment], layout: Layout) -> Iterator[list[list[Word]]]:
    """The cues as lines of words. Segments are not joined, unless both the width and the count of lines are given and
    one speaker says them.
    """
    by_segment = layout.max_line_count is None or layout.max_line_width is None
    lines: list[list[Word]] = []
    width, last = 0, 0.0
    speaker = None
    for segment in segments:
        chunk = layout.max_words_per_line or len(segment.words or ())
        changes, speaker = segment.speaker != speaker, segment.speaker
        for at, word in enumerate(segment.words or ()):
            fits = layout.max_line_width is None or width + len(word.word) <= layout.max_line_width
            paused = not by_segment and word.start - last > LONG_PAUSE
            begins = (by_segment and at % chunk == 0) or (changes and at == 0)
            full = layout.max_line_count is not None and len(lines) >= layout.max_line_count
            if lines and fits and not paused and not begins:
                lines[-1].append(word)
                width += len(word.word)
            else:
                if lines and (begins or (layout.max_line_count is not None and (paused or full))):
                    yield lines
                    lines = []
                lines.append([word])
                width = len(word.word.strip())
            last = word.start
    if lines:
        yield lines


def joined(
    texts: Sequence[Sequence[str]], spaces: Sequence[Sequence[str]], marked: tuple[int, int] | None = None
) -> str:
    """The lines as one text; the word at `marked` (line, index in it) is underlined."""
    return "\n".join(
        "".join(
            space + (f"<u>{text}</u>" if (row, at) == marked else text)
            for at, (text, space) in enumerate(zip(line, gaps, strict=True))
        )
        for row, (line, gaps) in enumerate(zip(texts, spaces, strict=True))
    )


def highlighted(
    words: Sequence[Word], texts: Sequence[Sequence[str]], spaces: Sequence[Sequence[str]]
) -> Iterator[Cue]:
    """A cue while each word is spoken, and one for each pause between words."""
    places = [(row, at) for row, line in enumerate(texts) for at in range(len(line))]
    last = words[0].start
    for word, place in zip(words, places, strict=True):
        if last < word.start:
            yield Cue(last, word.start, joined(texts, spaces), word.speaker)
        yield Cue(word.start, word.end, joined(texts, spaces, place), word.speaker)
        last = word.end

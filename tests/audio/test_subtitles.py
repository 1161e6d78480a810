"""Words as subtitles: lines and cues of a given size, divided as by openai-whisper."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from pyapp.audio.subtitles import Layout
from pyapp.audio.transcript import Transcript, TranscriptSegment, Word
from pyapp.audio.transcript_writers import format_transcript
from pyapp.errors import OptionError


def spoken(*texts: str, pause: float = 0.5) -> Transcript:
    """A word each half second, with a pause after each segment."""
    segments, time = [], 1.0
    for number, text in enumerate(texts):
        words = []
        for word in text.split():
            words.append(Word(f" {word}", time, time + 0.4, 0.9))
            time += 0.5
        segments.append(TranscriptSegment(words[0].start, words[-1].end, f" {text}", number, words=words))
        time += pause
    return Transcript(segments, "en", time)


def cues(transcript: Transcript, **settings: Any) -> list[tuple[str, str]]:
    """(times, text) of each cue in SubRip."""
    parts = format_transcript(transcript, "srt", Layout(**settings)).strip().split("\n\n")
    return [(part.split("\n", 2)[1].replace("00:00:", ""), part.split("\n", 2)[2]) for part in parts]


TALK = ("the quick brown fox jumps", "over the lazy dog")


def test_without_settings_a_segment_is_a_cue() -> None:
    talk = spoken(*TALK)
    assert format_transcript(talk, "srt", Layout()) == format_transcript(talk, "srt")
    assert format_transcript(talk, "vtt", Layout()) == format_transcript(talk, "vtt")


def test_words_per_line() -> None:
    assert cues(spoken(*TALK), max_words_per_line=2) == [
        ("01,000 --> 01,900", "the quick"), ("02,000 --> 02,900", "brown fox"), ("03,000 --> 03,400", "jumps"),
        ("04,000 --> 04,900", "over the"), ("05,000 --> 05,900", "lazy dog"),
    ]  # fmt: skip


def test_width_alone_keeps_segments_together() -> None:
    assert cues(spoken(*TALK), max_line_width=12) == [
        ("01,000 --> 03,400", "the quick\nbrown fox\njumps"), ("04,000 --> 05,900", "over the\nlazy dog"),
    ]  # fmt: skip


def test_width_and_count_fill_cues_across_segments() -> None:
    found = cues(spoken(*TALK), max_line_width=12, max_line_count=2)
    assert found == [
        ("01,000 --> 02,900", "the quick\nbrown fox"), ("03,000 --> 04,900", "jumps over\nthe"),
        ("05,000 --> 05,900", "lazy dog"),
    ] or found[0] == ("01,000 --> 02,900", "the quick\nbrown fox")  # fmt: skip
    assert all(len(line) <= 12 and text.count("\n") < 2 for _, text in found for line in text.split("\n"))
    assert " ".join(" ".join(text.split()) for _, text in found) == " ".join(TALK)
    apart = cues(spoken(*TALK, pause=5.0), max_line_width=40, max_line_count=2)
    assert [text for _, text in apart] == list(TALK)  # a long pause ends a cue


def test_a_cue_is_of_one_speaker() -> None:
    talk = spoken(*TALK)
    named = [replace(segment, speaker=name) for segment, name in zip(talk.segments, ("Ann", "Bob"), strict=True)]
    named = [replace(one, words=[replace(word, speaker=one.speaker) for word in one.words or ()]) for one in named]
    found = cues(replace(talk, segments=named), max_line_width=12, max_line_count=2)
    assert found == [
        ("01,000 --> 02,900", "Ann: the quick\nbrown fox"), ("03,000 --> 03,400", "Ann: jumps"),
        ("04,000 --> 05,900", "Bob: over the\nlazy dog"),
    ]  # fmt: skip
    marked = format_transcript(replace(talk, segments=named), "vtt", Layout(max_words_per_line=2, highlight_words=True))
    assert "<v Ann><u>the</u> quick" in marked and "<v Bob>lazy <u>dog</u>" in marked


def test_highlighted_words() -> None:
    assert cues(spoken("the quick fox"), highlight_words=True) == [
        ("01,000 --> 01,400", "<u>the</u> quick fox"), ("01,400 --> 01,500", "the quick fox"),
        ("01,500 --> 01,900", "the <u>quick</u> fox"), ("01,900 --> 02,000", "the quick fox"),
        ("02,000 --> 02,400", "the quick <u>fox</u>"),
    ]  # fmt: skip
    text = format_transcript(spoken("a<b & c"), "vtt", Layout(highlight_words=True))
    assert "<u>a&lt;b</u> &amp; c" in text


def test_segments_without_word_times_stay_as_they_are() -> None:
    plain = Transcript([TranscriptSegment(0.0, 1.0, " one two three")], "en", 1.0)
    assert format_transcript(plain, "srt", Layout(max_words_per_line=1)) == format_transcript(plain, "srt")


@pytest.mark.parametrize(
    "settings, name",
    [
        ({"max_line_width": 0}, "max_line_width"),
        ({"max_words_per_line": "2"}, "max_words_per_line"),
        ({"max_line_count": 2}, "max_line_count"),
        ({"max_words_per_line": 2, "max_line_width": 20}, "max_words_per_line"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(OptionError) as caught:
        Layout(**settings)
    assert caught.value.where == name


@pytest.mark.native_only
@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(40))
def test_the_same_cues_as_openai_whisper(seed: int) -> None:
    utils = pytest.importorskip("whisper.utils")
    random_ = random.Random(seed)
    sizes = range(1, 9)
    texts = [" ".join("abcdefgh"[: random_.choice(sizes)] for _ in range(random_.choice(sizes))) for _ in range(6)]
    talk = spoken(*texts, pause=random_.choice([0.1, 1.0, 4.0])).tidy()
    settings: dict[str, Any] = random_.choice(
        [
            {"max_line_width": random_.randint(9, 30)},
            {"max_line_width": random_.randint(9, 30), "max_line_count": random_.randint(1, 3)},
            {"max_words_per_line": random_.randint(1, 5)},
            {},
        ]
    )
    settings["highlight_words"] = random_.random() < 0.5
    result = json.loads(format_transcript(talk, "json"))
    for format, writer in (("srt", utils.WriteSRT), ("vtt", utils.WriteVTT)):
        file = io.StringIO()
        writer(".").write_result(result, file=file, options=dict(settings))
        assert format_transcript(talk, format, Layout(**settings)) == file.getvalue()

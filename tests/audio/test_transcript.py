"""The files of transcripts, and that their times are always valid."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyapp.audio.transcript import Transcript, TranscriptSegment, Word
from pyapp.audio.transcript_writers import FORMATS, format_transcript, write_transcript
from pyapp.errors import OptionError

GREETING = [Word(" Grüße,", 0.0, 1.25), Word(" 世界.", 1.25, 2.5)]
TALK = Transcript(
    [
        TranscriptSegment(0.0, 2.5, " Grüße, 世界.", tokens=[50364, 1, 2], words=GREETING),
        TranscriptSegment(2.5, 3.0, " ", id=1),
        TranscriptSegment(3661.0421, 3662.0, " a --> b ----> c\n\n & <i>\td", id=2, seek=300, avg_logprob=-inf),
    ],
    language="de",
    duration=3700.0,
)


def test_text() -> None:
    assert format_transcript(TALK, "txt") == "Grüße, 世界.\na --> b ----> c & <i> d\n"


def test_srt() -> None:
    assert format_transcript(TALK, "srt") == (
        "1\n00:00:00,000 --> 00:00:02,500\nGrüße, 世界.\n\n2\n01:01:01,042 --> 01:01:02,000\na -> b -> c & <i> d\n\n"
    )


def test_vtt() -> None:
    assert format_transcript(TALK, "vtt") == (
        "WEBVTT\n\n00:00.000 --> 00:02.500\nGrüße, 世界.\n\n"
        "01:01:01.042 --> 01:01:02.000\na -> b -> c &amp; &lt;i> d\n\n"
    )


def test_tsv() -> None:
    assert format_transcript(TALK, "tsv") == (
        "start\tend\ttext\n0\t2500\tGrüße, 世界.\n3661042\t3662000\ta --> b ----> c & <i> d\n"
    )


def test_json() -> None:
    text = format_transcript(TALK, "json")
    assert "世界" in text
    found = json.loads(text)
    assert {name: found[name] for name in ("task", "language", "duration")} == {
        "task": "transcribe", "language": "de", "duration": 3700.0,
    }  # fmt: skip
    assert found["text"] == TALK.text
    assert found["segments"][0] == {
        "id": 0,
        "seek": 0,
        "start": 0.0,
        "end": 2.5,
        "text": " Grüße, 世界.",
        "tokens": [50364, 1, 2],
        "temperature": 0.0,
        "avg_logprob": 0.0,
        "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
        "words": [
            {"word": " Grüße,", "start": 0.0, "end": 1.25, "probability": 1.0},
            {"word": " 世界.", "start": 1.25, "end": 2.5, "probability": 1.0},
        ],
    }
    assert found["segments"][2]["avg_logprob"] is None and "words" not in found["segments"][2]


def test_speakers_are_named_in_all_formats() -> None:
    words = [Word(" Hi", 0.0, 0.5, 0.9, "Ann"), Word(" you", 0.5, 1.0, 0.9, "Ann")]
    segments = [
        TranscriptSegment(0.0, 1.0, " Hi you", words=words, speaker="Ann"),
        TranscriptSegment(1.0, 2.0, " <Hi>", speaker="B>\n<o"),
        TranscriptSegment(2.0, 3.0, " So"), TranscriptSegment(3.0, 4.0, " ", speaker="Ann"),
    ]  # fmt: skip
    talk = Transcript(segments, "en", 4.0)
    assert format_transcript(talk, "txt") == "Ann: Hi you\nB> <o: <Hi>\nSo\n"
    assert format_transcript(talk, "srt").split("\n")[2:7:4] == ["Ann: Hi you", "B> <o: <Hi>"]
    assert [row for row in format_transcript(talk, "vtt").split("\n") if row[:2] in ("<v", "So")] == [
        "<v Ann>Hi you", "<v B&gt; &lt;o>&lt;Hi>", "So",
    ]  # fmt: skip
    assert format_transcript(talk, "tsv").split("\n")[:4] == [
        "start\tend\ttext\tspeaker", "0\t1000\tHi you\tAnn", "1000\t2000\t<Hi>\tB> <o", "2000\t3000\tSo\t",
    ]  # fmt: skip
    found = json.loads(format_transcript(talk, "json"))
    assert [segment.get("speaker") for segment in found["segments"]] == ["Ann", "B>\n<o", None, "Ann"]
    assert found["segments"][0]["words"][0]["speaker"] == "Ann"
    assert format_transcript(Transcript.from_dict(found), "json") == format_transcript(talk, "json")
    with pytest.raises(OptionError, match="name of a speaker is 5"):
        Transcript.from_dict({"segments": [{"start": 0, "end": 1, "text": "", "speaker": 5}]})


def test_a_hundred_hours() -> None:
    talk = Transcript([TranscriptSegment(360_000.0, 363_599.999, "late")])
    assert "100:00:00,000 --> 100:59:59,999" in format_transcript(talk, "srt")
    assert "100:00:00.000 --> 100:59:59.999" in format_transcript(talk, "vtt")


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_said(format: str) -> None:
    text = format_transcript(Transcript(duration=1.0), format)
    if format == "json":
        assert json.loads(text)["segments"] == []
    else:
        assert text == {"txt": "", "srt": "", "vtt": "WEBVTT\n\n", "tsv": "start\tend\ttext\n"}[format]


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert format_transcript(Transcript([TranscriptSegment(0, 1, "a\ud800b")]), "txt") == "a?b\n"


def test_later_text_wins_the_time() -> None:
    found = (
        Transcript(
            [TranscriptSegment(0, 100, "a"), TranscriptSegment(1, 2, "b"), TranscriptSegment(0.5, 9, "c")], duration=5.0
        )
        .tidy()
        .segments
    )
    assert [(segment.start, segment.end) for segment in found] == [(0, 1), (1, 1), (1, 5)]


times = st.floats(-10, 500) | st.sampled_from([nan, inf, -inf, 0.0, 1e-9, 359_999.9996])
words = st.builds(Word, st.text(max_size=5), times, times, st.floats(0, 1))
texts = st.text(max_size=20) | st.sampled_from(
    ["-->", "--->\n-->", "\n\n", "\r\n1\n00:00:00,000 --> 00:00:01,000\nx", "\x85", "\u2028"]
)
segments = st.builds(TranscriptSegment, times, times, texts, words=st.none() | st.lists(words, max_size=4))
talks = st.builds(
    Transcript, st.lists(segments, max_size=8), duration=st.none() | st.floats(0, 400) | st.sampled_from([0.0, 29.9996])
)


def assert_in_order(spans: list[tuple[float, float]], first: float, last: float) -> None:
    for start, end in spans:
        assert first <= start <= end <= last
        first = end


@given(talks)
def test_times_never_run_backwards_overlap_or_pass_the_end(talk: Transcript) -> None:
    tidy = talk.tidy()
    end = inf if talk.duration is None else talk.duration
    assert [segment.text for segment in tidy.segments] == [segment.text for segment in talk.segments]
    assert_in_order([(segment.start, segment.end) for segment in tidy.segments], 0.0, end)
    for segment in tidy.segments:
        assert_in_order([(word.start, word.end) for word in segment.words or ()], segment.start, segment.end)
    assert tidy.tidy() == tidy


def seconds(stamp: str) -> float:
    hours, minutes, rest = (["0", *stamp.split(":")])[-3:]
    return int(hours) * 3600 + int(minutes) * 60 + float(rest.replace(",", "."))


@pytest.mark.parametrize("format, mark", [("srt", ","), ("vtt", r"\.")])
@given(talk=talks)
def test_cues_can_be_read_back(format: str, mark: str, talk: Transcript) -> None:
    text = format_transcript(talk, format)
    body = text.removeprefix("WEBVTT\n\n")
    cues = body.split("\n\n")
    assert cues.pop() == ""
    found = []
    for number, cue in enumerate(cues, 1):
        lines = cue.split("\n")
        if format == "srt":
            assert lines.pop(0) == str(number)
        stamp = rf"((?:\d{{2,}}:)?\d\d:\d\d{mark}\d{{3}})"
        match = re.fullmatch(rf"{stamp} --> {stamp}", lines[0])
        assert match and len(lines) == 2 and lines[1].strip() and "-->" not in lines[1]
        found.append((seconds(match[1]), seconds(match[2])))
    assert len(found) == sum(bool(" ".join(segment.text.replace("\0", " ").split())) for segment in talk.segments)
    assert_in_order(found, 0.0, inf if talk.duration is None else talk.duration + 0.0005)  # cues count milliseconds


@given(talks)
def test_json_and_tsv_are_always_valid(talk: Transcript) -> None:
    found = json.loads(format_transcript(talk, "json"), parse_constant=pytest.fail)
    assert len(found["segments"]) == len(talk.segments)
    rows = format_transcript(talk, "tsv").split("\n")
    assert rows[0] == "start\tend\ttext" and rows[-1] == ""
    columns = [row.split("\t") for row in rows[1:-1]]
    assert all(len(row) == 3 for row in columns)
    assert_in_order([(int(row[0]), int(row[1])) for row in columns], 0, inf)


def test_writing_to_files(tmp_path: Path) -> None:
    for format in FORMATS:
        path = tmp_path / f"talk.{format.upper()}"
        write_transcript(path, TALK)
        assert path.read_bytes().decode() == format_transcript(TALK, format)
    file = io.BytesIO()
    write_transcript(file, TALK, "srt")
    assert file.getvalue().decode() == format_transcript(TALK, "srt")


@pytest.mark.parametrize("format", ["doc", "", "SRT"])
def test_unknown_format(format: str) -> None:
    with pytest.raises(OptionError, match="txt, json, srt, vtt, tsv"):
        format_transcript(TALK, format)


@pytest.mark.native_only
def test_writing_a_transcript_needs_no_numpy() -> None:
    code = (
        "import sys; import pyapp.audio.activity, pyapp.audio.mel, pyapp.audio.resampling, pyapp.audio.wav; "
        "from pyapp.audio import Transcript, TranscriptSegment; "
        "from pyapp.audio.transcript_writers import format_transcript; "
        "print(format_transcript(Transcript([TranscriptSegment(0, 1, 'a')]), 'srt')); assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2])


def test_what_json_says_is_read_back() -> None:
    words = (Word(" Hello", 0.5, 0.9, 0.75), Word(" you.", 1.0, 1.5))
    said = TranscriptSegment(0.5, 1.5, " Hello you.", 3, 100, (50364, 2), 0.2, -0.5, 1.25, 0.125, words)
    talk = Transcript([said, TranscriptSegment(2.0, 3.0, " Bye.", avg_logprob=nan)], "en", 4.5, "translate")
    found = Transcript.from_dict(json.loads(format_transcript(talk, "json")))
    assert format_transcript(found, "json").replace('"avg_logprob": 0.0', '"avg_logprob": null') == format_transcript(
        talk, "json"
    )
    assert Transcript.from_dict({"segments": [{"start": 1, "end": 2, "text": "a", "type": "segment"}]}).text == "a"


@pytest.mark.parametrize("wrong", [{}, {"segments": 3}, {"segments": [{"text": "no times"}]}, {"segments": ["text"]}])
def test_what_is_no_transcript_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="not a transcript"):
        Transcript.from_dict(wrong)

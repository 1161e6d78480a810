"""Recordings of every format as blocks at 16 kHz: the samples, the notices, and the errors."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.audio import SAMPLE_RATE, Resampler, mix_channels, open_audio, reader, write_wav
from pyapp.audio.unreadable import unreadable
from pyapp.errors import FileFormatError
from pyapp.formats.source import BytesSource
from tests.audio.sounds import RATE, noise, place, silence, sweep, syllable


def wav_bytes(samples: np.ndarray, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    write_wav(file, samples, rate)
    return file.getvalue()


def whole(source: Any, **settings: Any) -> np.ndarray:
    with open_audio(source, **settings) as opened:
        return np.concatenate(list(opened))


def notices(source: Any) -> list[str]:
    with open_audio(source) as opened:
        for _ in opened:
            pass
        assert all(notice.where == opened.name and notice.hint for notice in opened.notices)
        return [notice.what for notice in opened.notices]


def talk(seconds: float = 4.0) -> np.ndarray:
    """Something like speech, mono at 16 kHz."""
    return place(seconds, *((at, syllable(0.3, 110 + 20 * at)) for at in np.arange(0.2, seconds - 0.5, 0.6)))


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """No soxr: the resampler of pyapp itself."""
    monkeypatch.setitem(sys.modules, "soxr", None)


# -- what comes out


def test_a_wave_file_as_it_is(tmp_path: Path) -> None:
    sound = talk()
    path = tmp_path / "talk.wav"
    write_wav(path, sound, RATE)
    with open_audio(path) as opened:
        assert opened.name == str(path) and opened.duration == 4.0 and opened.seconds == 0
        blocks = list(opened)
        assert opened.seconds == 4.0 and not opened.notices and not list(opened)
    assert all(block.dtype == np.float32 and block.ndim == 1 and len(block) for block in blocks)
    np.testing.assert_allclose(np.concatenate(blocks), sound - sound.mean(), atol=2**-15)


def test_paths_bytes_sources_streams_and_samples_give_the_same(tmp_path: Path, ours: None) -> None:
    sound = np.stack([sweep(), noise(2.0)], axis=1)
    data = wav_bytes(sound, 22_050)
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    expected = whole(path)
    for source in (str(path), data, BytesSource(data), io.BytesIO(data)):
        np.testing.assert_array_equal(whole(source), expected)
    np.testing.assert_allclose(whole(sound, rate=22_050), expected, atol=2**-15)
    np.testing.assert_allclose(whole(sound.astype(np.float64), rate=22_050), expected, atol=2**-15)


@pytest.mark.parametrize("rate, channels", [(8000, 1), (44_100, 2), (48_000, 1), (11_025, 3)])
def test_blocks_make_no_difference(rate: int, channels: int, ours: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = noise(1.3).repeat(3)[: rate * channels].reshape(-1, channels) * 0.9
    monkeypatch.setattr(reader, "BLOCK_SAMPLES", 4096)
    with open_audio(wav_bytes(sound, rate)) as opened:
        blocks = list(opened)
    assert len(blocks) > 2 and max(map(len, blocks)) <= 4096 * SAMPLE_RATE / rate + 1000
    resampler = Resampler(rate)
    mixed = mix_channels(sound.astype(np.float32))
    expected = np.concatenate([resampler.process(mixed), resampler.finish()])
    found = np.concatenate(blocks)
    assert len(found) == len(expected) == -(-len(mixed) * SAMPLE_RATE // rate)
    np.testing.assert_allclose(found, expected, atol=5e-3)  # the offset filter knows a block at a time


def test_eight_channels_at_96_khz() -> None:
    time = np.arange(96_000) / 96_000
    tones = [0.5 * np.sin(2 * np.pi * hertz * time) for hertz in (300, 300, 1000, 1000, 20_000, 30_000, 40_000, 44_000)]
    found = whole(wav_bytes(np.stack(tones, axis=1), 96_000))
    assert len(found) == SAMPLE_RATE
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    expected = 0.125 * (np.sin(2 * np.pi * 300 * time) + np.sin(2 * np.pi * 1000 * time))
    np.testing.assert_allclose(found[800:-800], expected[800:-800], atol=2e-3)  # what 16 kHz cannot hold is gone


def test_soxr_and_our_resampler_agree() -> None:
    pytest.importorskip("soxr")
    time = np.arange(3 * 44_100) / 44_100
    tones = [np.sin(2 * np.pi * hertz * time + hertz) for hertz in (80, 440, 1234.5, 3000, 6500)]
    sound = (0.15 * np.sum(tones, axis=0)).astype(np.float32)
    both = []
    for resampler in (reader.SoxrResampler(44_100, SAMPLE_RATE), Resampler(44_100)):
        parts = [resampler.process(sound[at : at + 10_000]) for at in range(0, len(sound), 10_000)]
        both.append(np.concatenate([*parts, resampler.finish()]))
    assert len(both[0]) == len(both[1]) == 48_000
    assert np.abs(both[0] - both[1])[1000:-1000].max() < 1e-4


# -- pipes


class Pipe(io.RawIOBase):
    """Gives a few bytes at a time and cannot be rewound, as a pipe does."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part, self._data = self._data[:1000][: len(buffer)], self._data[len(self._data[:1000][: len(buffer)]) :]
        buffer[: len(part)] = part
        return len(part)

    @property
    def left(self) -> int:
        return len(self._data)


def test_a_wave_file_through_a_pipe_is_heard_while_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BLOCK_SAMPLES", 4000)
    sound, data = talk(), wav_bytes(talk())
    pipe = Pipe(data)
    with open_audio(io.BufferedReader(pipe, 1000)) as opened:
        assert opened.name == "stdin" and opened.duration == 4.0
        first = next(iter(opened))
        assert pipe.left > 0.8 * len(data)
        np.testing.assert_allclose(np.concatenate([first, *opened]), sound, atol=2e-3)
    endless = data[:40] + b"\xff" * 4 + data[44:]  # as ffmpeg writes to a pipe
    with open_audio(io.BufferedReader(Pipe(endless))) as opened:
        assert opened.duration is None
        assert sum(map(len, opened)) == len(sound) and opened.seconds == 4.0 and not opened.notices


def test_a_pipe_that_ends_early() -> None:
    data = wav_bytes(talk())
    assert notices(io.BytesIO(data[:64_044])) == ["the recording ends after 2.0 s: its header announces 4.0 s"]
    for length in (0, 4, 30):
        with pytest.raises(FileFormatError, match="stdin: (the file is empty|the stream ended after)"):
            open_audio(io.BytesIO(data[:length]))
    with pytest.raises(FileFormatError, match="the recording is empty"):
        whole(io.BytesIO(data[:44]))


# -- notices


def test_notices() -> None:
    good = talk() * 4
    assert np.abs(good).max() > 0.7 and not notices(wav_bytes(good))
    assert not notices(wav_bytes(good / np.abs(good).max()))  # full scale, but not clipped
    assert notices(wav_bytes(silence(1.0))) == ["the recording is silent"]
    assert notices(wav_bytes(silence(1.0) + 0.3)) == ["the recording is silent"]
    (clipped,) = notices(wav_bytes(np.clip(good * 8, -1, 1)))
    assert clipped.startswith("the recording is clipped: ") and clipped.endswith("% of it is at full scale")
    assert notices(wav_bytes(good / 2 + 0.25)) == ["the recording has a DC offset of 25 % of full scale"]
    for other, told in ((-good, 1), (-0.8 * good, 1), (0 * good, 0), (good, 0), (np.roll(good, 7000), 0)):
        found = notices(wav_bytes(np.stack([good, other], 1)))
        assert found == ["the channels of the recording cancel one another out"] * told
    assert notices(wav_bytes(good)[:-32_000]) == ["the recording ends after 3.0 s: its header announces 4.0 s"]


@pytest.mark.parametrize("drift", [0.0, 0.02])
def test_the_dc_offset_is_taken_away(drift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BLOCK_SAMPLES", 8000)
    sound = noise(40.0, 0.05)
    time = np.arange(len(sound)) / RATE
    found = whole((sound + 0.2 + drift * time / 40).astype(np.float32))
    assert abs(found.mean()) < 0.01
    assert np.abs(found - sound).max() < 0.005 + drift
    assert np.abs(np.diff(found - sound)).max() < 1e-5  # no steps


# -- what cannot be read


WAV = wav_bytes(talk(1.0))
BAD = {
    b"": "the file is empty",
    b"RIFF": "truncated",
    WAV[:30]: "truncated",
    WAV[:44]: "the recording is empty",
    WAV[:24] + struct.pack("<I", 4_000_000_000) + WAV[28:]: "sample rate is 4,000,000,000 Hz",
    WAV[:22] + struct.pack("<H", 60_000) + WAV[24:]: "there are 60000 channels",
    b"\0\0\0\x20ftypM4A " + bytes(99): "an MP4 or M4A file.*ffmpeg -i",
    b"\x1aE\xdf\xa3" + bytes(99): "a WebM or Matroska file.*ffmpeg -i",
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11" + bytes(99): "a Windows Media file",
    b"#!AMR\n" + b"\xff" * 99: "an AMR file",
}


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_what_cannot_be_read(data: bytes) -> None:
    with pytest.raises(FileFormatError, match=BAD[data]) as caught:
        whole(data)
    assert caught.value.hint


def test_samples_that_are_none() -> None:
    with pytest.raises(FileFormatError, match="the recording is empty"):
        whole(np.zeros(0, np.float32))
    with pytest.raises(FileFormatError, match="NaN or infinite"):
        whole(np.array([0.0, np.nan], np.float32))
    with pytest.raises(FileFormatError, match="larger than 1e"):
        whole(np.array([0.0, 1e30], np.float32))
    for wrong in (np.zeros(5, np.int16), np.zeros((2, 2, 2), np.float32)):
        with pytest.raises(FileFormatError, match="takes floats"):
            open_audio(wrong)
    with pytest.raises(FileNotFoundError):
        open_audio("no such file.wav")


def test_without_soundfile_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    path = tmp_path / "a talk.mp3"
    path.write_bytes(b"ID3\4" + bytes(500))
    expected = "an MP3 file needs the package soundfile, which is not installed"
    for source in (path, io.BytesIO(path.read_bytes())):
        with pytest.raises(FileFormatError, match=expected) as caught:
            open_audio(source)
        assert caught.value.hint and "ffmpeg -i " in caught.value.hint
    assert f"-i '{path}'" not in caught.value.hint  # a pipe has no name
    with pytest.raises(FileFormatError, match="IMA ADPCM"):  # our own reader's word counts
        open_audio(WAV[:20] + struct.pack("<H", 0x11) + WAV[22:])


# -- libsndfile's formats


@pytest.fixture
def soundfile() -> Any:
    return pytest.importorskip("soundfile")


def encode(soundfile: Any, sound: np.ndarray, rate: int, kind: str, subtype: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, rate, format=kind, subtype=subtype)
    return file.getvalue()


FORMATS = [
    ("FLAC", "PCM_16", 44_100), ("OGG", "VORBIS", 44_100), ("OGG", "OPUS", 48_000), ("MP3", "MPEG_LAYER_III", 44_100),
    ("AIFF", "PCM_24", 22_050), ("CAF", "ALAC_16", 44_100), ("WAV", "ULAW", 8000), ("WAV", "IMA_ADPCM", 16_000),
]  # fmt: skip


@pytest.mark.native_only
@pytest.mark.parametrize("kind, subtype, rate", FORMATS)
def test_other_formats(kind: str, subtype: str, rate: int, soundfile: Any, tmp_path: Path) -> None:
    sound = 0.3 * np.sin(2 * np.pi * 440 * np.arange(rate * 3) / rate).astype(np.float32)
    data = encode(soundfile, np.stack([sound, sound], axis=1), rate, kind, subtype)
    path = tmp_path / f"sound.{kind.lower()}"
    path.write_bytes(data)
    expected = 0.3 * np.sin(2 * np.pi * 440 * np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE)
    with open_audio(path) as opened:
        assert opened.duration == pytest.approx(3.0, abs=0.1)
        found = np.concatenate(list(opened))
        assert not opened.notices
    assert abs(len(found) - len(expected)) < 0.1 * SAMPLE_RATE
    middle = slice(SAMPLE_RATE, 2 * SAMPLE_RATE)
    assert np.abs(found[middle] - expected[middle]).max() < (0.06 if "ADPCM" in subtype else 0.03)
    if subtype != "ULAW":  # which a pipe gives in other parts
        for source in (data, BytesSource(data), io.BufferedReader(Pipe(data))):
            np.testing.assert_array_equal(whole(source), found)


@pytest.mark.native_only
def test_what_comes_before_the_damage_is_used(soundfile: Any) -> None:
    sound = noise(4.0)
    flac = encode(soundfile, sound, RATE, "FLAC", "PCM_16")
    with open_audio(flac[: len(flac) // 2]) as opened:
        assert opened.duration == 4.0
        found = np.concatenate(list(opened))
        assert 1.0 < opened.seconds < 2.1
        (notice,) = opened.notices
        assert notice.what.startswith("the recording ends after ") and "flac" in notice.what and notice.hint
    np.testing.assert_allclose(found, sound[: len(found)], atol=5e-3)
    mp3 = encode(soundfile, sound, RATE, "MP3", "MPEG_LAYER_III")
    (ends,) = notices(mp3[: len(mp3) // 2])
    assert ends.endswith("its header announces 4.0 s")
    ogg = encode(soundfile, sound, RATE, "OGG", "VORBIS")
    (ends,) = notices(ogg[: len(ogg) * 2 // 3])
    assert ends.endswith("the mark of its end is missing")


@pytest.mark.native_only
@pytest.mark.parametrize("head", [b"fLaC", b"OggS", b"ID3\4", b"\xff\xfb", b"FORM", b"hello, ", b"%PDF-1.4"])
def test_damage_at_the_beginning(head: bytes, soundfile: Any) -> None:
    data = head + np.random.default_rng(5).bytes(5000)
    with pytest.raises(FileFormatError, match=r"(but it is damaged|not a recording that can be read) \(.*\)"):
        whole(data)
    with pytest.raises(FileFormatError):
        whole(io.BytesIO(data))


def test_a_model_is_no_recording() -> None:
    assert "ffmpeg -i talk.amr" in str(unreadable("talk.amr", "", "")) and "model" in str(unreadable("a.GGUF", "", ""))


@pytest.mark.native_only
def test_a_file_that_libsndfile_takes_for_an_mp3(soundfile: Any) -> None:
    with pytest.raises(FileFormatError, match=r"can be read \(format not recognised\)"):
        whole(b"\xff\xfe\0\1garbage\n")


@pytest.mark.native_only
def test_files_are_closed(tmp_path: Path, soundfile: Any) -> None:
    import gc
    import warnings

    for kind, subtype in (("WAV", "PCM_16"), ("FLAC", "PCM_16")):
        path = tmp_path / f"a.{kind}"
        path.write_bytes(encode(soundfile, noise(0.2), RATE, kind, subtype))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with open_audio(path) as opened:
                list(opened)
            del opened
            path.write_bytes(path.read_bytes()[:60])
            with pytest.raises(FileFormatError):
                whole(path) if kind == "FLAC" else whole(path.read_bytes()[:44])
            gc.collect()

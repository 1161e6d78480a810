"""WAVE files: every sample format against its definition, damaged files, and files that are written and read again."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyapp.audio import load_speech, open_wav, read_wav, write_wav
from pyapp.errors import FileFormatError
from tests.audio.sounds import RATE, noise
from tests.together import examples

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")


def chunk(name: bytes, data: bytes, length: int | None = None) -> bytes:
    return name + struct.pack("<I", len(data) if length is None else length) + data + b"\0" * (len(data) & 1)


def form(encoding: int = PCM, channels: int = 1, rate: int = RATE, bits: int = 16, block: int | None = None) -> bytes:
    frame = channels * bits // 8 if block is None else block
    return struct.pack("<HHIIHH", encoding, channels, rate, rate * frame & 0xFFFFFFFF, frame, bits)


def wave(*chunks: bytes, kind: bytes = b"RIFF") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return kind + struct.pack("<I", len(body) & 0xFFFFFFFF) + body


def encode(values: np.ndarray, encoding: int, bits: int) -> bytes:
    """Samples in -1 .. 1, by the definition of each format, in Python's own integers."""
    if encoding == FLOAT:
        return struct.pack(f"<{len(values)}{'f' if bits == 32 else 'd'}", *values)
    top = 1 << (bits - 1)
    numbers = [min(top - 1, round(float(value) * top)) for value in values]
    if bits == 8:
        return bytes(number + 128 for number in numbers)
    return b"".join(number.to_bytes(bits // 8, "little", signed=True) for number in numbers)


VALUES = np.array([0.0, 0.5, -0.5, -1.0, 0.25, -0.125, 0.99, -0.33, 0.01, 0.7, -0.7, 0.001])


def test_the_laws_of_telephones() -> None:
    """Values of ITU-T G.711's tables: the ends of the first and the last segment, both signs; two channels."""
    for encoding, full, table in (
        (6, 4096, {0xD5: 1, 0x55: -1, 0xAA: 4032, 0x2A: -4032, 0xC5: 33, 0x45: -33, 0xF5: 66, 0x80: 688}),
        (7, 8192, {0xFF: 0, 0x7F: 0, 0x80: 8031, 0x00: -8031, 0xFE: 2, 0x7E: -2, 0xEF: 33, 0x6F: -33}),
    ):
        data = wave(chunk(b"fmt ", form(encoding, 2, 8000, 8)), chunk(b"data", bytes(table)))
        samples, rate = read_wav(data)
        assert rate == 8000 and samples.dtype == np.float32 and samples.shape == (4, 2)
        assert (samples.reshape(-1) * full).tolist() == list(table.values())
    with pytest.raises(FileFormatError, match="16 bits"):
        read_wav(wave(chunk(b"fmt ", form(7, bits=16)), SAMPLES))


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("encoding, bits", [(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)])
def test_every_sample_format(encoding: int, bits: int, channels: int, extensible: bool) -> None:
    head = form(encoding, channels, 44_100, bits)
    if extensible:
        guid = struct.pack("<H", encoding) + GUID_TAIL
        head = struct.pack("<H", EXTENSIBLE) + head[2:] + struct.pack("<HHI", 22, bits, 0) + guid
    data = wave(chunk(b"fmt ", head), chunk(b"data", encode(VALUES, encoding, bits)))
    samples, rate = read_wav(data)
    assert rate == 44_100 and samples.dtype == np.float32 and samples.shape == (len(VALUES) // channels, channels)
    np.testing.assert_allclose(samples.reshape(-1), VALUES, atol=max(2.0 ** (1 - bits), 1e-7))


def test_other_chunks_and_odd_lengths_are_passed_over() -> None:
    data = encode(VALUES, PCM, 16)
    plain = wave(chunk(b"fmt ", form()), chunk(b"data", data))
    busy = wave(
        chunk(b"LIST", b"INFOsome"), chunk(b"odd ", b"abc"), chunk(b"fmt ", form()), chunk(b"fact", b"1234"),
        chunk(b"data", data), chunk(b"LIST", b"later"),
    )  # fmt: skip
    np.testing.assert_array_equal(read_wav(busy)[0], read_wav(plain)[0])


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF, 0x7FFFFFFF, 5000])
def test_a_length_that_is_unknown_or_too_long_means_all_that_is_there(length: int) -> None:
    data = wave(chunk(b"fmt ", form()), chunk(b"data", encode(VALUES, PCM, 16) + b"\1", length))
    assert read_wav(data[:-1])[0].shape == (len(VALUES), 1), "the half sample at the end is left out"


def test_rf64() -> None:
    samples = encode(VALUES, PCM, 16)
    sizes = chunk(b"ds64", struct.pack("<QQQI", 0, len(samples), len(VALUES), 0))
    data = wave(
        sizes, chunk(b"fmt ", form()), chunk(b"data", samples, 0xFFFFFFFF), chunk(b"LIST", b"tail"), kind=b"RF64"
    )
    assert read_wav(data)[0].shape == (len(VALUES), 1)


def test_reading_in_parts(tmp_path: Path) -> None:
    sound = noise(0.1).reshape(-1, 2) * 3
    path = tmp_path / "sound.wav"
    write_wav(path, sound, 22_050)
    with open_wav(path) as wav:
        assert (wav.rate, wav.channels, wav.bits, wav.frames) == (22_050, 2, 16, 800)
        assert wav.duration == pytest.approx(800 / 22_050)
        parts = [wav.read(at, 300) for at in range(0, 1200, 300)]
        assert [len(part) for part in parts] == [300, 300, 200, 0]
        np.testing.assert_array_equal(np.concatenate(parts), wav.read())
        np.testing.assert_allclose(wav.read(), np.clip(sound, -1, 1 - 2**-15), atol=2**-16)


def test_written_files_are_what_pythons_own_reader_reads() -> None:
    wave_module = pytest.importorskip("wave")
    file = io.BytesIO()
    write_wav(file, np.array([0.0, 1.0, -1.0, 0.5, 2.0, -2.0], np.float64), 8000)
    with wave_module.open(io.BytesIO(file.getvalue())) as reader:
        assert reader.getparams()[:4] == (1, 2, 8000, 6)
        assert struct.unpack("<6h", reader.readframes(6)) == (0, 32767, -32768, 16384, 32767, -32768)


GOOD = wave(chunk(b"fmt ", form()), chunk(b"data", encode(VALUES, PCM, 16)))
SAMPLES = chunk(b"data", b"\0" * 96)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "empty"),
        (b"RIFF", "truncated"),
        (GOOD[:10], "truncated"),
        (GOOD[:12], "no format"),
        (GOOD[:30], "truncated"),
        (GOOD[:36], "no samples"),
        (GOOD[:44], "it has no samples"),
        (wave(SAMPLES, chunk(b"fmt ", form())), "before their format"),
        (b"ID3\4" + bytes(100), "an MP3 file"),
        (b"OggS" + bytes(100), "an Ogg file"),
        (bytes(4) + b"ftypM4A " + bytes(90), "an MP4 file"),
        (b"hello, this is text", "not a WAVE file"),
        (wave(chunk(b"fmt ", form(2, bits=4)), SAMPLES), "ADPCM"),
        (wave(chunk(b"fmt ", form(0x1234)), SAMPLES), "0x1234"),
        (wave(chunk(b"fmt ", form(bits=12)), SAMPLES), "12 bits"),
        (wave(chunk(b"fmt ", form(FLOAT, bits=16)), SAMPLES), "16 bits"),
        (wave(chunk(b"fmt ", form(channels=0)), SAMPLES), "0 channels"),
        (wave(chunk(b"fmt ", form(channels=2000)), SAMPLES), "channels"),
        (wave(chunk(b"fmt ", form(rate=0)), SAMPLES), "sample rate is 0"),
        (wave(chunk(b"fmt ", form(rate=4_000_000_000)), SAMPLES), "sample rate"),
        (wave(chunk(b"fmt ", form(block=3)), SAMPLES), "a frame has 3 bytes"),
        (wave(chunk(b"fmt ", struct.pack("<H", EXTENSIBLE) + form()[2:] + bytes(24)), SAMPLES), "extended"),
        (wave(chunk(b"fmt ", form(FLOAT, bits=32)), chunk(b"data", struct.pack("<2f", 0, float("nan")))), "NaN"),
        (wave(chunk(b"fmt ", form(FLOAT, bits=64)), chunk(b"data", struct.pack("<d", 1e300))), "infinite"),
        (b"RIFF\0\0\0\0WAVE" + chunk(b"junk", b"") * 20_000, "no format"),
    ],
)
def test_bad_files_say_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message) as caught:
        read_wav(data)
    assert caught.value.where and caught.value.hint


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_damaged_files_never_raise_anything_else(data: st.DataObject) -> None:
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(GOOD) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(GOOD)))
    try:
        samples, rate = read_wav(bytes(damaged[:cut]))
    except FileFormatError:
        return
    assert np.isfinite(samples).all() and rate > 0 and 0 < samples.size <= len(GOOD)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_wav(tmp_path / "none.wav")


@pytest.mark.parametrize(
    "samples, rate",
    [
        (np.zeros(3, np.int16), 8000),
        (np.zeros((2, 2, 2)), 8000),
        (np.array([np.nan]), 8000),
        (np.zeros(3), 0),
        (np.zeros((3, 0)), 8000),
    ],
)
def test_what_cannot_be_written(samples: np.ndarray, rate: int) -> None:
    with pytest.raises(ValueError, match="write_wav"):
        write_wav(io.BytesIO(), samples, rate)


def test_load_speech_of_96_khz_with_8_channels_and_a_dc_offset() -> None:
    time = np.arange(96_000) / 96_000
    tone = 0.5 * np.sin(2 * np.pi * 440 * time)
    file = io.BytesIO()
    write_wav(file, tone[:, None] * np.linspace(0.2, 1.8, 8) * 0.5 + 0.1, 96_000)
    found = load_speech(file.getvalue())
    assert found.shape == (RATE,) and found.dtype == np.float32
    assert abs(found.mean()) < 1e-6
    expected = 0.25 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
    np.testing.assert_allclose(found[200:-200], expected[200:-200], atol=1e-3)


def test_load_speech_reads_long_files_in_blocks() -> None:
    sound = noise(20.0)
    file = io.BytesIO()
    write_wav(file, np.stack([sound] * 4, axis=1), RATE)
    found = load_speech(file.getvalue())
    assert found.shape == sound.shape
    np.testing.assert_allclose(found, sound - sound.mean(dtype=np.float64), atol=2**-15)

"""The sound of MP4, WebM and other files of FFmpeg's kinds (make_golden_containers.py)."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from pyapp.audio.decoders import Decoder, SourceFile, open_decoder, open_stream
from pyapp.errors import FileFormatError
from pyapp.formats import BytesSource
from tests.hostile import damaged_texts
from tests.together import check_each

pytestmark = pytest.mark.native_only  # the page's browser decodes these files
GOLDEN = {
    name: base64.b64decode(data)
    for name, data in json.loads(Path(__file__).with_name("golden_containers.json").read_text()).items()
}


def samples_of(decoder: Decoder, count: int = 1000) -> np.ndarray:
    parts = []
    while len(part := decoder.read(count)):
        assert len(part) <= count
        parts.append(part)
    decoder.close()
    return np.concatenate(parts) if parts else np.empty((0, decoder.channels), np.float32)


def test_a_tone_in_each_kind() -> None:
    pytest.importorskip("av")

    def check(name: str) -> None:
        data = GOLDEN[name]
        decoder = open_decoder(data)
        assert decoder.channels == 1 and decoder.rate in (16_000, 48_000) and decoder.frames is not None
        found = samples_of(decoder)[:, 0]
        assert decoder.ended_early is None and 0.48 < len(found) / decoder.rate < 0.66
        middle = found[int(0.1 * decoder.rate) : int(0.4 * decoder.rate)]
        loudest = np.fft.rfftfreq(len(middle), 1 / decoder.rate)[np.abs(np.fft.rfft(middle)).argmax()]
        assert abs(loudest - 440) < 5 and abs(middle).max() == pytest.approx(0.5, abs=0.1)
        piped = samples_of(open_stream(io.BytesIO(data)), 77)[:, 0]
        np.testing.assert_array_equal(piped, found)

    check_each(check, [(name,) for name in ("m4a", "webm", "mkv", "aac")])


def test_what_cannot_be_read() -> None:
    pytest.importorskip("av")
    with pytest.raises(FileFormatError, match="an MP4 or M4A file without sound"):
        open_decoder(GOLDEN["silent.mp4"])
    at = GOLDEN["m4a"].index(b"dref") + 1  # two bytes more, and FFmpeg does not find what the sound is in
    with pytest.raises(FileFormatError, match="unknown format"):
        open_decoder(GOLDEN["m4a"][:at] + b"||" + GOLDEN["m4a"][at:])
    short = open_decoder(GOLDEN["mkv"][:3000])
    assert 0 < len(samples_of(short)) < 8000
    for name in ("m4a", "webm", "mkv", "aac"):
        for data in [GOLDEN[name][: len(GOLDEN[name]) // 3], *damaged_texts(GOLDEN[name], 25)]:
            try:
                assert np.isfinite(samples_of(open_decoder(data))).all()
            except FileFormatError as error:
                assert error.hint


def test_there_is_nothing_behind_the_end_of_a_file() -> None:
    """Libsndfile asks for it where a damaged file points there; its callbacks cannot raise."""
    file = SourceFile(BytesSource(b"abc", "a.flac"))
    assert file.seek(9) == 9 and file.readinto(bytearray(4)) == 0


def test_without_the_package_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    for source in (GOLDEN["m4a"], io.BytesIO(GOLDEN["m4a"])):
        with pytest.raises(FileFormatError, match="an MP4 or M4A file needs the package av") as caught:
            open_decoder(source) if isinstance(source, bytes) else open_stream(source)
        assert caught.value.hint and "pyapp[media]" in caught.value.hint and "ffmpeg -i" in caught.value.hint

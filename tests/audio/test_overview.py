"""The overview of a recording, compared with values computed from all its samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pyapp.audio import SAMPLES_AT_ONCE, write_wav
from pyapp.audio.overview import Overview, read_overview
from pyapp.errors import FileFormatError, OptionError
from pyapp.events import Progress


def write(path: Path, samples: np.ndarray, rate: int = 16000) -> str:
    write_wav(path, samples.astype(np.float32), rate)
    return str(path)


def overview(source: str | bytes, bins: int = 1000) -> Overview:
    *_, last = read_overview(source, bins)
    assert isinstance(last, Overview)
    return last


@pytest.mark.parametrize(("frames", "channels", "bins"), [(1, 1, 10), (999, 2, 10), (SAMPLES_AT_ONCE * 2 + 7, 1, 333)])
def test_peaks_are_those_of_the_stretches(tmp_path: Path, frames: int, channels: int, bins: int) -> None:
    random = np.random.default_rng(frames)
    samples = random.uniform(-0.7, 0.7, (frames, channels)).astype(np.float32)
    found = overview(write(tmp_path / "a.wav", samples), bins)
    stored = np.rint(samples * 32768) / 32768
    mono = stored.mean(axis=1)
    each = -(-frames // min(bins, frames))
    expected = [np.abs(mono[i : i + each] - mono.mean()).max() for i in range(0, frames, each)]
    np.testing.assert_allclose(found.peaks, expected, atol=1e-5)
    assert (found.duration, found.rate, found.channels, found.bits) == (frames / 16000, 16000, channels, 16)


def test_offset_is_told_and_not_drawn(tmp_path: Path) -> None:
    wave = 0.1 * np.sin(np.arange(16000) * 0.1)
    found = overview(write(tmp_path / "a.wav", wave + 0.3))
    assert max(found.peaks) == pytest.approx(0.1, abs=2e-3)
    assert ["DC offset" in notice.what for notice in found.notices] == [True]


def test_silence_and_clipping_are_told(tmp_path: Path) -> None:
    silent = overview(write(tmp_path / "a.wav", np.zeros(8000)), 50)
    assert set(silent.peaks) == {0.0} and len(silent.peaks) == 50
    assert "silent" in silent.notices[0].what
    clipped = overview(write(tmp_path / "b.wav", np.clip(np.sin(np.arange(16000) * 0.05) * 1.5, -1, 1)))
    assert "clipped" in clipped.notices[0].what
    json.dumps(clipped.to_dict(), allow_nan=False)


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    *told, found = read_overview(write(tmp_path / "a.wav", np.zeros(SAMPLES_AT_ONCE * 3)), 10)
    assert isinstance(found, Overview) and len(told) == 3
    assert isinstance(told[-1], Progress) and told[-1].done == told[-1].total == found.duration


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="empty"):
        overview(write(tmp_path / "a.wav", np.zeros(0)))
    with pytest.raises(FileFormatError, match="not a WAVE file"):
        overview(b"Dear diary, today")
    with pytest.raises(OptionError):
        overview(write(tmp_path / "b.wav", np.zeros(9)), 0)

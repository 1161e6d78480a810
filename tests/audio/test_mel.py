"""Log-mel spectrograms against openai-whisper's (make_golden.py) and against their own definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyapp.audio import log_mel_spectrogram, mel_filters, pad_or_trim, read_wav
from tests.audio.sounds import MEL_SOUNDS, noise, silence

STEP = 8  # frames of the golden files that lie between two that were kept
ROWS = (0, 5, 17, 40, 79)
JFK = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "jfk.wav"


def jfk_samples() -> np.ndarray | None:
    """Eleven seconds of real speech, which are not part of the project; None if the file is missing."""
    return read_wav(JFK)[0][:, 0].copy() if JFK.is_file() else None


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).with_name("golden.npz")) as file:
        return dict(file)


@pytest.mark.parametrize("n_mels", [80, 128])
def test_filters_are_whispers(golden: dict[str, np.ndarray], n_mels: int) -> None:
    filters = mel_filters(n_mels)
    assert filters.shape == (n_mels, 201) and filters.dtype == np.float32
    np.testing.assert_allclose(filters, golden[f"filters/{n_mels}"], rtol=0, atol=1e-6)
    assert not filters.flags.writeable


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize("name", MEL_SOUNDS)
def test_spectrograms_are_whispers(golden: dict[str, np.ndarray], name: str, n_mels: int) -> None:
    found = log_mel_spectrogram(MEL_SOUNDS[name](), n_mels)
    assert found.dtype == np.float32 and found.shape == (n_mels, golden[f"{name}/{n_mels}/frames"])
    np.testing.assert_allclose(found[:, ::STEP], golden[f"{name}/{n_mels}"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("n_mels", [80, 128])
def test_real_speech(golden: dict[str, np.ndarray], n_mels: int) -> None:
    samples = jfk_samples()
    if samples is None:
        pytest.skip("jfk.wav is not here")
    found = log_mel_spectrogram(samples, n_mels)
    np.testing.assert_allclose(found[list(ROWS)], golden[f"jfk/{n_mels}/rows"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.mean(axis=1), golden[f"jfk/{n_mels}/means"], rtol=0, atol=1e-5)
    padded = log_mel_spectrogram(samples, n_mels, padding=480_000)
    assert padded.shape == (n_mels, 1100 + 3000)
    np.testing.assert_allclose(padded[list(ROWS), ::STEP], golden[f"jfk/{n_mels}/padded"], rtol=0, atol=1e-4)


def by_definition(samples: np.ndarray, n_mels: int) -> np.ndarray:
    """The discrete Fourier transform as a product of matrices, in float64."""
    index = np.arange(400)
    basis = np.exp(-2j * np.pi * np.outer(index, np.arange(201)) / 400)
    window = np.sin(np.pi * index / 400) ** 2
    reflected = np.pad(samples.astype(np.float64), 200, mode="reflect")
    frames = [reflected[at : at + 400] * window for at in range(0, len(samples) // 160 * 160, 160)]
    power = np.abs(np.array(frames) @ basis) ** 2
    logs = np.log10(np.maximum(power @ mel_filters(n_mels).T.astype(np.float64), 1e-10)).T
    return (np.maximum(logs, logs.max() - 8) + 4) / 4


@pytest.mark.parametrize("length", [160, 161, 200, 201, 399, 640, 1999])
@pytest.mark.parametrize("n_mels", [1, 80, 201])
def test_lengths(length: int, n_mels: int) -> None:
    samples = noise(0.2, 0.3)[:length]
    found = log_mel_spectrogram(samples, n_mels)
    assert found.shape == (n_mels, length // 160)
    np.testing.assert_allclose(found, by_definition(samples, n_mels), rtol=0, atol=1e-4)


def test_long_recordings_are_computed_in_parts() -> None:
    samples = noise(21.0)
    found = log_mel_spectrogram(samples)
    np.testing.assert_allclose(found[:, 1000:1060], by_definition(samples, 80)[:, 1000:1060], rtol=0, atol=1e-4)


def test_silence_and_nothing() -> None:
    np.testing.assert_allclose(log_mel_spectrogram(silence(0.5)), -1.5, rtol=1e-6)
    assert log_mel_spectrogram(silence(0)).shape == (80, 0)
    assert log_mel_spectrogram(silence(0.005)).shape == (80, 0)
    np.testing.assert_allclose(log_mel_spectrogram(silence(0), padding=1600), np.full((80, 10), -1.5), rtol=1e-6)


def test_padding_is_silence_at_the_end() -> None:
    samples = noise(1.0)
    found = log_mel_spectrogram(samples, padding=8000)
    np.testing.assert_array_equal(found, log_mel_spectrogram(np.concatenate([samples, silence(0.5)])))


def test_pad_or_trim() -> None:
    samples = noise(0.1)
    np.testing.assert_array_equal(pad_or_trim(samples, 100), samples[:100])
    padded = pad_or_trim(samples)
    assert padded.shape == (480_000,) and not padded[1600:].any()
    np.testing.assert_array_equal(padded[:1600], samples)


@pytest.mark.parametrize(
    "samples, arguments",
    [
        (np.zeros((2, 400), np.float32), {}),
        (np.array([0, np.nan, 0], np.float32), {}),
        (np.array([0, np.inf], np.float32), {}),
        (np.zeros(400, np.float32), {"n_mels": 0}),
        (np.zeros(400, np.float32), {"n_mels": 202}),
        (np.zeros(400, np.float32), {"padding": -1}),
    ],
)
def test_bad_input(samples: np.ndarray, arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="log_mel_spectrogram|mel_filters"):
        log_mel_spectrogram(samples, **arguments)

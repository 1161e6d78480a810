"""Resampling against a direct sum in float64, against band-limited signals, and block by block."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

from pyapp.audio import Resampler, mix_channels, remove_dc, resample
from tests.audio.sounds import noise
from tests.together import fewer_in_browser

RATES = [8000, 11_025, 22_050, 32_000, 44_100, 48_000, 96_000, 12_345]


def direct(samples: np.ndarray, rate: int, to_rate: int) -> np.ndarray:
    """Every output as a sum over the input, weighted by a Kaiser-windowed sinc at its distance."""
    lower = min(rate, to_rate)
    width = ceil(48 * rate / lower)
    beta = 0.1102 * (90 - 8.7)
    cutoff = (1 - (90 - 7.95) / (2.285 * 96 * np.pi) / 2) * lower / rate  # of the input's Nyquist frequency
    positions = np.arange(len(samples), dtype=np.float64)
    found = np.zeros(-(-len(samples) * to_rate // rate))
    for n in range(len(found)):
        centre = n * rate / to_rate
        around = np.arange(np.floor(centre + 1e-9) - width, np.floor(centre + 1e-9) + width + 1)
        distance = around - centre
        weights = np.sinc(distance * cutoff) * np.i0(beta * np.sqrt(1 - np.minimum(1, (distance / (width + 1)) ** 2)))
        inside = (around >= 0) & (around < len(positions))
        found[n] = (weights[inside] * samples[around[inside].astype(np.int64)]).sum() / weights.sum()
    return found


@pytest.mark.parametrize("rate", fewer_in_browser(RATES))
def test_as_the_direct_sum(rate: int) -> None:
    samples = noise(0.05, 0.3)
    found = resample(samples, rate)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, direct(samples, rate, 16_000), atol=2e-6)


@pytest.mark.parametrize("rate", RATES)
def test_tones_below_the_edge_stay_and_those_above_vanish(rate: int) -> None:
    lower = min(rate, 16_000)
    time, to_time = np.arange(rate) / rate, np.arange(16_000) / 16_000
    middle = slice(1600, -1600)
    for hertz in (50, 1000, 0.43 * lower):
        found = resample(np.sin(2 * np.pi * hertz * time).astype(np.float32), rate)
        np.testing.assert_allclose(found[middle], np.sin(2 * np.pi * hertz * to_time)[middle], atol=3e-4)
    if rate > 16_000:
        found = resample(np.sin(2 * np.pi * 8100 * time).astype(np.float32), rate)
        assert np.abs(found[middle]).max() < 10 ** (-80 / 20)


@pytest.mark.parametrize("rate", [8000, 16_000, 44_100, 48_000, 12_345])
@pytest.mark.parametrize("block", [1, 37, 1000, 5000])
def test_blocks_give_the_same_samples(rate: int, block: int) -> None:
    samples = noise(0.15)[: 300 if block == 1 else 2400]
    resampler = Resampler(rate)
    parts = [resampler.process(samples[at : at + block]) for at in range(0, len(samples), block)]
    np.testing.assert_allclose(np.concatenate([*parts, resampler.finish()]), resample(samples, rate), rtol=0, atol=1e-6)


def test_memory_of_a_stream_is_bounded() -> None:
    resampler = Resampler(44_100)
    for _ in range(40):
        resampler.process(noise(0.1))
        assert len(resampler._input) < 2 * resampler.taps + 441


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("length", [0, 1, 2, 1001])
def test_lengths_and_constants(rate: int, length: int) -> None:
    found = resample(np.full(length, 0.25, np.float32), rate)
    assert len(found) == -(-length * 16_000 // rate)
    edge = 200
    np.testing.assert_allclose(found[edge:-edge], 0.25, atol=1e-6)


def test_the_same_rate_changes_nothing() -> None:
    samples = noise(0.1)
    np.testing.assert_array_equal(resample(samples, 16_000), samples)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="positive"):
        Resampler(0)
    with pytest.raises(ValueError, match="one channel"):
        resample(np.zeros((4, 2), np.float32), 8000)
    with pytest.raises(ValueError, match="mix_channels"):
        mix_channels(np.zeros(4, np.float32))


def test_channels_are_averaged_and_dc_taken_away() -> None:
    samples = noise(0.1).reshape(-1, 2)
    np.testing.assert_allclose(mix_channels(samples), samples.mean(axis=1), atol=1e-7)
    np.testing.assert_array_equal(mix_channels(samples[:, :1]), samples[:, 0])
    np.testing.assert_allclose(remove_dc(samples[:, 0] + np.float32(0.3)).mean(), 0, atol=1e-6)
    assert remove_dc(np.zeros(0, np.float32)).shape == (0,)

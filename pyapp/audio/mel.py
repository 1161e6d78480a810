"""Log-mel spectrograms for Whisper.

Source: log_mel_spectrogram of https://github.com/openai/whisper (MIT), after Radford et al., Robust Speech Recognition
via Large-Scale Weak Supervision (2022), section 2.2: power of a short-time Fourier transform (Hann window of 400, hop
of 160 samples, the ends reflected), mel filters, log10, at most 8 decades, scaled to about -1 .. 1. The filters are
those of M. Slaney, Auditory Toolbox (1998): triangles of equal area on a scale that is linear to 1 kHz and logarithmic
above.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.engine.ops.spectrum import log_mel, power_spectrum

from .constants import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.engine.tensor import Tensor

FFT_SIZE = 400  # 25 ms
HOP = 160  # 10 ms
BINS = FFT_SIZE // 2 + 1
CHUNK_SAMPLES = 30 * SAMPLE_RATE  # the encoder's window
SMALLEST_POWER = 1e-10
DECADES = 8.0
FRAMES_AT_ONCE = 1024


def log_mel_spectrogram(samples: NDArray[np.float32], n_mels: int = 80, padding: int = 0) -> NDArray[np.float32]:
    """Mono float32 (samples,) at 16 kHz to float32 (n_mels, (samples + padding) // 160).

    `padding` zeros are appended first. All-zero samples give -1.5. Values are clamped to 8 decades below the loudest
    bin, so the spectrogram of a part differs from the part of a spectrogram. ValueError for another shape, and for NaN
    or infinite samples.
    """
    samples = np.asarray(samples, np.float32)
    if samples.ndim != 1:
        raise ValueError(f"log_mel_spectrogram: takes mono samples (samples,), not {samples.shape}")
    if padding < 0:
        raise ValueError(f"log_mel_spectrogram: padding is {padding}, expected 0 or more")
    if not np.isfinite(samples).all():
        raise ValueError("log_mel_spectrogram: samples must be finite numbers")
    frames = (len(samples) + padding) // HOP
    if not frames:
        return np.empty((len(mel_filters(n_mels)), 0), np.float32)
    padded = np.concatenate([samples, np.zeros(padding, np.float32)]) if padding else samples
    logs = mel_logs(reflect(padded), frames, n_mels)
    np.maximum(logs, logs.max() - np.float32(DECADES), out=logs)
    logs += np.float32(4)
    logs *= np.float32(0.25)
    return logs


def mel_logs(samples: NDArray[np.float32], frames: int, n_mels: int) -> NDArray[np.float32]:
    """log10 of the mel power, float32 (n_mels, frames), of the windows that begin at 0, 160, 320, … of `samples`."""
    filters, ranges = filter_tensors(n_mels)
    logs: NDArray[np.float32] = log_mel(
        from_numpy(samples), unit_roots(), filters, ranges, frames, HOP, SMALLEST_POWER
    ).array()
    return logs


def spectrum(samples: NDArray[np.float32], frames: int) -> NDArray[np.float32]:
    """Power float32 (201, frames) of the windows that begin at 0, 160, 320, … of `samples`."""
    if not frames:
        return np.empty((BINS, 0), np.float32)
    found: NDArray[np.float32] = power_spectrum(
        from_numpy(np.ascontiguousarray(samples, np.float32)), unit_roots(), frames, HOP
    ).array()
    return found


def reflect(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The samples with 200 more on each side, mirrored at the first and the last sample; fewer than 201 are mirrored
    repeatedly.
    """
    half = FFT_SIZE // 2
    if not len(samples):
        return np.zeros(FFT_SIZE, np.float32)
    return np.pad(samples, half, mode="reflect")


def pad_or_trim(samples: NDArray[np.float32], length: int = CHUNK_SAMPLES) -> NDArray[np.float32]:
    """Exactly `length` samples: trimmed, or padded with zeros."""
    result = np.zeros(length, np.float32)
    result[: min(length, len(samples))] = samples[:length]
    return result


@lru_cache(maxsize=1)
def unit_roots() -> Tensor:
    """float32 (400, 2): the cosine and sine of each of 400 steps around the circle."""
    angles = 2 * np.pi * np.arange(FFT_SIZE, dtype=np.float64) / FFT_SIZE
    return from_numpy(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))


@lru_cache(maxsize=4)
def filter_tensors(n_mels: int) -> tuple[Tensor, Tensor]:
    """The mel filters float32 (n_mels, 201), and int32 (n_mels, 2): the first bin of each filter and one
    past its last.
    """
    filters = mel_filters(n_mels)
    taken = filters > 0
    first, last = taken.argmax(1), BINS - taken[:, ::-1].argmax(1)
    ranges = (np.stack([first, last], axis=1) * taken.any(1, keepdims=True)).astype(np.int32)
    return from_numpy(filters), from_numpy(ranges)


@lru_cache(maxsize=4)
def mel_filters(n_mels: int = 80) -> NDArray[np.float32]:
    """float32 (n_mels, 201): triangles from 0 to 8 kHz, of equal area. Read-only. ValueError unless 1 .. 201."""
    if not 1 <= n_mels <= BINS:
        raise ValueError(f"mel_filters: n_mels is {n_mels}, expected 1 to {BINS} (Whisper has 80 or 128)")
    filters: NDArray[np.float32] = triangles(n_mels, BINS, SAMPLE_RATE, 0.0, SAMPLE_RATE / 2).astype(np.float32)
    filters.flags.writeable = False
    return filters


def triangles(
    count: int, points: int, rate: int, lowest: float, highest: float, of_htk: bool = False
) -> NDArray[np.float64]:
    """float64 (count, points): triangles of equal area from `lowest` to `highest` Hz, over the points of a spectrum
    from 0 Hz to half the rate; `of_htk`: of the height 1, on HTK's scale 2595 log10(1 + f / 700).
    """
    if of_htk:
        low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (lowest, highest))
        edges = 700 * (10 ** (np.linspace(low, high, count + 2) / 2595) - 1)
    else:
        edges = mel_to_hertz(np.linspace(hertz_to_mel(lowest), hertz_to_mel(highest), count + 2))
    frequencies = np.arange(points, dtype=np.float64) * (rate / (2 * (points - 1)))
    rising = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    height = np.ones(count) if of_htk else 2.0 / (edges[2:] - edges[:-2])
    found: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling)) * height[:, None]
    return found


LINEAR_STEP = 200.0 / 3  # Hz of one mel below the corner
CORNER = 1000.0
CORNER_MEL = CORNER / LINEAR_STEP
STEPS_TO_6400_HZ = 27.0  # logarithmic mels from 1 to 6.4 kHz


def hertz_to_mel(hertz: float) -> float:
    """Slaney's scale."""
    if hertz < CORNER:
        return hertz / LINEAR_STEP
    return float(CORNER_MEL + np.log(hertz / CORNER) * (STEPS_TO_6400_HZ / np.log(6.4)))


def mel_to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of hertz_to_mel, for arrays."""
    above = np.maximum(mel - CORNER_MEL, 0.0)
    return np.where(mel < CORNER_MEL, mel * LINEAR_STEP, CORNER * np.exp(above * (np.log(6.4) / STEPS_TO_6400_HZ)))

"""Log-mel filter banks as Kaldi computes them, which networks for speakers read.

Source: https://kaldi-asr.org/doc/feat.html, and the behaviour of torchaudio.compliance.kaldi.fbank (BSD): frames of
25 ms each 10 ms without padding, the mean removed, pre-emphasis of 0.97, a Povey, Hamming or Hann window, the power of
an FFT of 512, triangles on the scale 1127 ln(1 + f / 700) from 20 Hz to 8 kHz, natural logarithms.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyapp.engine.lazy import np
from pyapp.errors import OptionError

from .constants import SAMPLE_RATE
from .mel import FFT_SIZE as FRAME
from .mel import HOP

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS = 512  # of the FFT
LOWEST = 20.0  # Hz
PRE_EMPHASIS = 0.97
SMALLEST = 1.1920929e-07  # the smallest step of float32, below which no power goes into the logarithm
WINDOWS = ("povey", "hamming", "hann")


def filter_bank(samples: NDArray[np.float32], bins: int = 80, window: str = "povey") -> NDArray[np.float32]:
    """Samples (samples,) at 16 kHz to float32 (frames, bins), with frames = 1 + (samples - 400) // 160; none for fewer
    than 400. The scale of the samples is the caller's: Kaldi's is that of 16-bit integers.
    """
    frames = frames_of(len(samples))
    if not frames:
        return np.empty((0, bins), np.float32)
    found = samples.astype(np.float64)[np.arange(frames)[:, None] * HOP + np.arange(FRAME)]  # (frames, 400)
    found -= found.mean(axis=1, keepdims=True)
    found[:, 1:] -= PRE_EMPHASIS * found[:, :-1]
    found[:, 0] *= 1 - PRE_EMPHASIS
    power = np.abs(np.fft.rfft(found * window_of(window), POINTS)) ** 2  # (frames, 257)
    logs: NDArray[np.float32] = np.log(np.maximum(power @ filters(bins).T, SMALLEST)).astype(np.float32)
    return logs


def frames_of(samples: int) -> int:
    """The number of frames that so many samples have."""
    return max(0, 1 + (samples - FRAME) // HOP)


@lru_cache(maxsize=3)
def window_of(name: str) -> NDArray[np.float64]:
    """(400,)"""
    angles = 2 * np.pi * np.arange(FRAME, dtype=np.float64) / (FRAME - 1)
    if name == "hamming":
        return 0.54 - 0.46 * np.cos(angles)
    if name in ("povey", "hann"):
        found: NDArray[np.float64] = (0.5 - 0.5 * np.cos(angles)) ** (0.85 if name == "povey" else 1)
        return found
    raise OptionError(f"there is no window {name!r:.40}", where="window", hint=f"Choose {' or '.join(WINDOWS)}")


@lru_cache(maxsize=4)
def filters(bins: int, lowest: float = LOWEST, highest: float = SAMPLE_RATE / 2) -> NDArray[np.float64]:
    """(bins, 257): triangles of height 1 from `lowest` to `highest` Hz; the bin at 8 kHz is in none."""
    if not 1 <= bins <= POINTS // 4:
        raise OptionError(f"must be from 1 to {POINTS // 4}, not {bins}", where="bins")
    low, high = (1127 * np.log(1 + hertz / 700) for hertz in (lowest, highest))
    step = (high - low) / (bins + 1)
    left = low + step * np.arange(bins)[:, None]
    mel = 1127 * np.log(1 + np.arange(POINTS // 2 + 1) * (SAMPLE_RATE / POINTS) / 700)
    found: NDArray[np.float64] = np.maximum(0.0, np.minimum((mel - left) / step, (left + 2 * step - mel) / step))
    found[:, -1] = 0
    return found

"""The note that is loudest in each moment of a recording, whatever its octave.

Source: Ellis, Chroma feature analysis and synthesis (2007, https://www.ee.columbia.edu/~dpwe/resources/matlab/chroma-
ansyn/), in the values of librosa.filters.chroma (ISC) that MusicGen was trained with.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyapp.engine.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS = 16384  # samples of a moment
HOP = 4096  # samples from moment to moment
LOWEST = 27.5  # Hz, the A of octave 0
CENTRE, WIDTH = 5.0, 2.0  # octaves that count most: a bell over them
A_ABOVE_C = 3  # semitones from A up to the next C


def loudest_notes(samples: NDArray[np.float32], rate: int, notes: int = 12) -> NDArray[np.int64]:
    """Samples (N,) → for each moment the number (M,) of its loudest note, from C on; M = 1 + max(N, 16384) // 4096."""
    short = max(0, POINTS - len(samples))
    samples = np.pad(samples, (short // 2, short - short // 2))
    padded = np.pad(samples, POINTS // 2, mode="reflect").astype(np.float64)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(POINTS) / POINTS)
    bank = note_filters(rate, notes)
    found = []
    for start in range(0, len(padded) - POINTS + 1, HOP):
        power = np.abs(np.fft.rfft(padded[start : start + POINTS] * window)) ** 2  # (8193,)
        found.append(int(np.argmax(bank @ power)))
    return np.array(found, np.int64)


@lru_cache(maxsize=2)
def note_filters(rate: int, notes: int = 12) -> NDArray[np.float64]:
    """(notes, 8193): how much of each frequency is in each note, by a bell around the note in every octave."""
    octaves = np.log2(np.arange(1, POINTS) * (rate / POINTS) / LOWEST)
    places = np.concatenate(([octaves[0] - 1.5], octaves)) * notes  # of the frequencies, in notes
    widths = np.concatenate((np.maximum(np.diff(places), 1.0), [1.0]))
    half = round(notes / 2)
    apart = np.remainder(places - np.arange(notes)[:, None] + half, notes) - half
    bells = np.exp(-0.5 * (2 * apart / widths) ** 2)
    bells /= np.sqrt((bells**2).sum(axis=0))
    bells *= np.exp(-0.5 * ((places / notes - CENTRE) / WIDTH) ** 2)
    found: NDArray[np.float64] = np.roll(bells, -A_ABOVE_C * (notes // 12), axis=0)[:, : POINTS // 2 + 1]
    return found

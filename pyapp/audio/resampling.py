"""Resampling by a windowed sinc in polyphase form; mixing of channels; removal of the DC offset.

Source: J. O. Smith, Digital Audio Resampling (https://ccrma.stanford.edu/~jos/resample/); window: Kaiser, with his
formulas for stop-band attenuation and transition width. Output sample n of L/M times the rate lies at input n M / L; it
is a weighted sum of the input around there, with weights that depend only on the phase n M mod L.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, gcd, pi
from typing import TYPE_CHECKING

from pyapp.engine import no_grad
from pyapp.engine.lazy import np
from pyapp.engine.ops import as_strided, from_numpy, matmul

if TYPE_CHECKING:
    from numpy.typing import NDArray

ZERO_CROSSINGS = 48  # of the sinc on each side, at the lower rate
ATTENUATION = 90.0  # attenuation in dB of frequencies that would alias
BETA = 0.1102 * (ATTENUATION - 8.7)
# Kaiser's transition width as a fraction of the lower Nyquist frequency; the stop band begins at that frequency.
TRANSITION = (ATTENUATION - 7.95) / (2.285 * 2 * ZERO_CROSSINGS * pi)
CUTOFF = 1 - TRANSITION / 2
TABLE_LIMIT = 1 << 21  # largest number of cached weights of a pair of rates; more are computed again
TABLES = 4  # pairs of rates with cached weights
PHASES_AT_ONCE = 64


class Resampler:
    """Changes the sample rate of a recording that arrives in blocks, with the same result as resample() of the whole.

    `rate` and `to_rate` in Hz, positive integers. `process(block)` takes float32 (samples,) and returns the complete
    output samples; `finish()` returns the rest.
    """

    def __init__(self, rate: int, to_rate: int = 16_000) -> None:
        if rate < 1 or to_rate < 1:
            raise ValueError(f"Resampler: sample rates are positive, not {rate} and {to_rate}")
        divisor = gcd(rate, to_rate)
        self.up, self.down = to_rate // divisor, rate // divisor
        self._scale = min(1.0, self.up / self.down) * CUTOFF  # of the sinc's argument
        self.half = ceil(ZERO_CROSSINGS * max(1.0, self.down / self.up))  # input samples on each side
        self.taps = 2 * self.half + 1
        self._table = kept_weights(self.up, self.down)
        self._input = np.zeros(self.half, np.float32)  # samples before the first are silence
        self._first = -self.half  # index in the recording of self._input[0]
        self._seen = 0
        self._made = 0

    def process(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """The output samples that this block completes, float32 (samples,)."""
        block = np.asarray(block, np.float32)
        if block.ndim != 1:
            raise ValueError(f"Resampler: takes one channel (samples,), not {block.shape}")
        self._seen += len(block)
        if self.up == self.down:
            return block.copy()
        self._input = np.concatenate([self._input, block])
        # n is complete when its last input, n M // L + half, is there
        available = self._seen - self.half
        return self._make(max(self._made, -(-available * self.up // self.down)))

    def finish(self) -> NDArray[np.float32]:
        """The remaining output samples; ceil(samples * to_rate / rate) in all."""
        if self.up == self.down:
            return np.zeros(0, np.float32)
        total = -(-self._seen * self.up // self.down)
        self._input = np.concatenate([self._input, np.zeros(self.taps, np.float32)])
        return self._make(total)

    @no_grad()
    def _make(self, end: int) -> NDArray[np.float32]:
        """Computes outputs self._made .. end, and drops the input that is no longer needed."""
        begin, count = self._made, end - self._made
        out = np.empty(count, np.float32)
        given, size = from_numpy(self._input), out.itemsize
        for group in range(0, min(self.up, count), PHASES_AT_ONCE):
            indices = range(begin + group, begin + min(group + PHASES_AT_ONCE, self.up, count))
            for n, weights in zip(indices, self._weights([n * self.down % self.up for n in indices]), strict=True):
                # every up-th output has the same weights, `down` inputs further on
                start = n * self.down // self.up - self.half - self._first
                mine = out[n - begin :: self.up]
                if self.down < self.taps:  # windows that overlap: NumPy would not give them to its BLAS
                    windows = as_strided(given, (self.taps, len(mine)), (1, self.down), start)
                    mine[:] = matmul(from_numpy(weights.reshape(1, -1)), windows).numpy()[0]
                else:
                    shape, strides = (len(mine), self.taps), (size * self.down, size)
                    mine[:] = np.ndarray(shape, np.float32, self._input, size * start, strides) @ weights
        self._made = end
        keep = max(0, min(end * self.down // self.up - self.half - self._first, len(self._input)))
        self._input = self._input[keep:].copy()
        self._first += keep
        return out

    def _weights(self, phases: list[int]) -> list[NDArray[np.float32]]:
        """Weights (taps,) of each phase."""
        missing = [phase for phase in phases if phase not in self._table]
        found = dict(zip(missing, self._compute(missing), strict=True)) if missing else {}
        rows = [found[phase] if phase in found else self._table[phase] for phase in phases]
        if self.up * self.taps <= TABLE_LIMIT:
            self._table.update(found)
        return rows

    def _compute(self, phases: list[int]) -> NDArray[np.float32]:
        """float32 (phases, taps); each row sums to 1, so that a constant is unchanged."""
        offsets = np.arange(-self.half, self.half + 1, dtype=np.float64)
        distance = offsets[None, :] - np.array(phases, np.float64)[:, None] / self.up
        inside = np.clip(1 - (distance / (self.half + 1)) ** 2, 0, None)
        weights = np.sinc(distance * self._scale) * np.i0(BETA * np.sqrt(inside))
        return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


@lru_cache(TABLES)
def kept_weights(up: int, down: int) -> dict[int, NDArray[np.float32]]:
    """Weights by phase, shared by recordings of the same rate."""
    return {}


def resample(samples: NDArray[np.float32], rate: int, to_rate: int = 16_000) -> NDArray[np.float32]:
    """One channel, float32 (samples,), at another rate: ceil(samples * to_rate / rate) of them.

    The response is flat to 0.88 of the lower Nyquist frequency and 90 dB down above that frequency. Zeros are assumed
    before and after the recording.
    """
    resampler = Resampler(rate, to_rate)
    return np.concatenate([resampler.process(samples), resampler.finish()])


def mix_channels(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32 (frames, channels) to (frames,): the mean of the channels."""
    if samples.ndim != 2 or samples.shape[1] < 1:
        raise ValueError(f"mix_channels: takes (frames, channels), not {samples.shape}")
    return samples[:, 0].copy() if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float64).astype(np.float32)


def remove_dc(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The samples minus their mean: the offset of a cheap sound card would raise the lowest mel bins."""
    return (samples - samples.mean(dtype=np.float64)).astype(np.float32) if len(samples) else samples

"""A recording at a glance: how long, how loud, what is wrong with it, and its outline to draw. Read by blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.errors import OptionError
from pyapp.events import Progress

from . import SAMPLES_AT_ONCE
from .resampling import mix_channels
from .wav import AnySource, open_wav

if TYPE_CHECKING:
    from numpy.typing import NDArray

FULL = 0.999  # of full scale: a sample that may have been cut off
RUN = 3  # samples in a row at full scale are no chance


@dataclass(frozen=True, slots=True)
class Overview:
    """`duration` in seconds, `rate` in Hz; of the channels mixed into one and without its DC offset: `peaks`, the
    largest absolute values of equally long stretches, and `loudest` of them all, 1 is full scale; `offset` is that DC
    offset, `clipped` the share of samples (0 to 1) that lie in flat tops at full scale.
    """

    duration: float
    rate: int
    channels: int
    bits: int
    peaks: tuple[float, ...]
    loudest: float
    offset: float
    clipped: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; peaks have three decimals, which is more than a screen shows."""
        names = ("duration", "rate", "channels", "bits", "loudest", "offset", "clipped")
        return {name: getattr(self, name) for name in names} | {"peaks": [round(peak, 3) for peak in self.peaks]}


def read_overview(source: AnySource, bins: int = 1000) -> Iterator[Progress | Overview]:
    """Reads a WAVE file (path, bytes or ByteSource) once, by blocks of bounded size: Progress in seconds after each,
    and the Overview at last. Raises FileFormatError as open_wav() and read() do, OptionError for `bins` below 1.
    """
    if bins < 1:
        raise OptionError(f"bins must be 1 or more, not {bins}", where="bins")
    with open_wav(source) as wav:
        each = -(-wav.frames // min(bins, wav.frames))  # frames of a stretch
        stretches = -(-wav.frames // each)
        low, high = np.full(stretches, np.inf, np.float32), np.full(stretches, -np.inf, np.float32)
        total, cut = 0.0, 0
        block = max(1, SAMPLES_AT_ONCE // wav.channels)
        for start in range(0, wav.frames, block):
            samples = wav.read(start, block)
            mono = mix_channels(samples)
            add_extremes(low, high, mono, start, each)
            total += float(mono.sum(dtype=np.float64))
            cut += flat_samples(samples)
            done = min(start + block, wav.frames) / wav.rate
            yield Progress("reading the recording", done, wav.duration, "seconds")
        offset = total / wav.frames
        peaks = np.maximum(high - offset, offset - low)
        yield Overview(
            duration=wav.duration, rate=wav.rate, channels=wav.channels, bits=wav.bits,
            peaks=tuple(peaks.tolist()), loudest=float(peaks.max()), offset=offset,
            clipped=cut / (wav.frames * wav.channels),
        )  # fmt: skip


def add_extremes(
    low: NDArray[np.float32], high: NDArray[np.float32], mono: NDArray[np.float32], start: int, each: int
) -> None:
    """Takes a block that begins at frame `start` into the lowest and highest values of stretches of `each` frames."""
    first, last = start // each, (start + len(mono) - 1) // each
    edges = (np.arange(first, last + 1, dtype=np.int64) * each - start).astype(np.intp)
    edges[0] = 0
    low[first : last + 1] = np.minimum(low[first : last + 1], np.minimum.reduceat(mono, edges))
    high[first : last + 1] = np.maximum(high[first : last + 1], np.maximum.reduceat(mono, edges))


def flat_samples(samples: NDArray[np.float32]) -> int:
    """How many of the samples (frames, channels) lie in runs of RUN or more at full scale, in one channel."""
    if not (np.abs(samples).max(initial=0) >= FULL):
        return 0
    found = 0
    for side in (samples >= FULL, samples <= -FULL):
        edges = np.diff(side.astype(np.int8), axis=0, prepend=0, append=0)
        for channel in edges.T:
            lengths = np.flatnonzero(channel < 0) - np.flatnonzero(channel > 0)
            found += int(lengths[lengths >= RUN].sum())
    return found

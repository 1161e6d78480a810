"""An overview of a recording: length, level, problems, and its outline for drawing. Reads by blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import OptionError
from pyapp.events import Notice, Progress
from pyapp.formats.source import AnySource

from .constants import SAMPLES_AT_ONCE
from .quality import Quality
from .resampling import mix_channels
from .wav import open_wav

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Overview:
    """`duration` in seconds, `rate` in Hz, `bits` of a sample. `peaks` are the largest absolute values of equally long
    parts, after the channels are mixed and the DC offset is removed; 1 is full scale. `notices` are warnings about the
    sound.
    """

    duration: float
    rate: int
    channels: int
    bits: int
    peaks: tuple[float, ...]
    notices: tuple[Notice, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; peaks have three decimals, more than a screen resolves."""
        found = {name: getattr(self, name) for name in ("duration", "rate", "channels", "bits")}
        peaks = [round(peak, 3) for peak in self.peaks]
        return {**found, "peaks": peaks, "notices": [notice.to_dict() for notice in self.notices]}


def read_overview(source: AnySource, bins: int = 1000) -> Iterator[Progress | Overview]:
    """Reads a WAVE file (path, bytes or ByteSource) once, by blocks of bounded size. Yields Progress in seconds after
    each block, then the Overview. Raises FileFormatError as open_wav() and read() do, OptionError for `bins` below 1.
    """
    if bins < 1:
        raise OptionError(f"bins must be 1 or more, not {bins}", where="bins")
    with open_wav(source) as wav:
        each = -(-wav.frames // min(bins, wav.frames))  # frames of a part
        stretches = -(-wav.frames // each)
        low, high = np.full(stretches, np.inf, np.float32), np.full(stretches, -np.inf, np.float32)
        quality, total = Quality(), 0.0
        block = max(1, SAMPLES_AT_ONCE // wav.channels)
        for start in range(0, wav.frames, block):
            samples = wav.read(start, block)
            quality.add(samples)
            mono = mix_channels(samples)
            add_extremes(low, high, mono, start, each)
            total += float(mono.sum(dtype=np.float64))
            done = min(start + block, wav.frames) / wav.rate
            yield Progress("reading the recording", done, wav.duration, "seconds")
        offset = total / wav.frames
        peaks = tuple(np.maximum(high - offset, offset - low).tolist())
        yield Overview(wav.duration, wav.rate, wav.channels, wav.bits, peaks, tuple(quality.notices(wav.name)))


def add_extremes(
    low: NDArray[np.float32], high: NDArray[np.float32], mono: NDArray[np.float32], start: int, each: int
) -> None:
    """Updates the lowest and highest values of parts of `each` frames with a block that begins at frame `start`."""
    first, last = start // each, (start + len(mono) - 1) // each
    edges = (np.arange(first, last + 1, dtype=np.int64) * each - start).astype(np.intp)
    edges[0] = 0
    low[first : last + 1] = np.minimum(low[first : last + 1], np.minimum.reduceat(mono, edges))
    high[first : last + 1] = np.maximum(high[first : last + 1], np.maximum.reduceat(mono, edges))

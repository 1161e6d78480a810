"""What makes the spectrograms of CLAP, in decibels, as transformers does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import ModelError

from ..mel import FRAMES_AT_ONCE, SMALLEST_POWER, triangles
from .recordings import checked_recordings
from .settings import RecordingProcessor, expect, whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_FUSED = 600.0  # seconds of a recording that is heard whole by CLAP


@dataclass(frozen=True)
class DecibelProcessor(RecordingProcessor):
    """What makes CLAP's spectrograms: the power of an FFT of 1,024 samples each 480 at 48 kHz, the ends reflected, in
    `bins` triangles of equal area on Slaney's scale from `lowest` to `highest` Hz, in decibels. A shorter recording is
    repeated as often as it fits into `length` seconds, and then filled with silence; of a longer one the beginning is
    heard.

    `fused`: a longer one is heard whole (Wu et al. 2022, arXiv 2211.06687): shrunk to `length` seconds, and a stretch
    of its first third, its middle and its last third, where transformers draws them. The triangles are of the height 1,
    on HTK's scale.
    """

    bins: int = 64
    length: int = 10
    lowest: float = 0.0
    highest: float = 14000.0
    fused: bool = False

    heard = rate = 48000  # samples a second
    window, hop = 1024, 480

    @property
    def seconds(self) -> float:
        """How much of a recording is heard."""
        return MOST_FUSED if self.fused else float(self.length)

    @property
    def frames(self) -> int:
        """The frames of a spectrogram."""
        return self.length * self.rate // self.hop + 1

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        expect(settings, where, fft_window_size=cls.window, hop_length=cls.hop, padding="repeatpad")
        bins = whole_number(settings, where, "feature_size", cls.bins, cls.window // 2)
        length = whole_number(settings, where, "max_length_s", cls.length, 60)
        lowest, highest = settings.get("frequency_min", cls.lowest), settings.get("frequency_max", cls.highest)
        if any(type(hertz) not in (int, float) for hertz in (lowest, highest)) or not 0 <= lowest < highest <= 24000:
            raise ModelError(f"it hears from {lowest!r:.40} to {highest!r:.40} Hz", where=where)
        return cls(bins, length, float(lowest), float(highest))

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, None]:
        """Recordings, each float (N,) at 48 kHz, as a batch (B, frames, bins) float32, or (B, 4, frames, bins) if
        fused; there is no mask.
        """
        arrays = checked_recordings(recordings)
        shape = (len(arrays), *([4] if self.fused else []), self.frames, self.bins)
        found = np.empty(shape, np.float32)
        for row, array in enumerate(arrays):
            found[row] = self._fused(array) if self.fused else self._decibels(array)
        return from_numpy(found), None

    def _decibels(self, array: NDArray[np.float32], whole: bool = False) -> NDArray[np.float64]:
        """(frames, bins) of what is heard; of all samples, if a recording is longer, with `whole`."""
        most = self.length * self.rate
        most = max(most, len(array)) if whole else most
        points = self.window // 2 + 1
        filters = triangles(self.bins, points, self.rate, self.lowest, self.highest, self.fused).T  # (513, bins)
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.window) / self.window)
        sound = np.tile(array, most // len(array)) if len(array) < most else array[:most]
        sound = np.pad(sound.astype(np.float64), (0, most - len(sound)))
        sound = np.pad(sound, self.window // 2, mode="reflect")
        parts = np.lib.stride_tricks.sliding_window_view(sound, self.window)[:: self.hop]  # (frames, 1024)
        found = np.empty((len(parts), self.bins))
        for first in range(0, len(parts), FRAMES_AT_ONCE):
            here = slice(first, first + FRAMES_AT_ONCE)
            power = np.abs(np.fft.rfft(parts[here] * hann, axis=1)) ** 2
            found[here] = 10 * np.log10(np.maximum(power @ filters, SMALLEST_POWER))
        return found

    def _fused(self, array: NDArray[np.float32]) -> NDArray[np.float64]:
        """(4, frames, bins): the whole recording, and three stretches; four times a short one."""
        whole, count = self._decibels(array, whole=True), self.frames
        if len(whole) <= count:
            return np.stack([whole] * 4)
        thirds = np.array_split(np.arange(len(whole) - count + 1), 3)
        starts = [int(part[len(part) // 2]) if len(part) else 0 for part in thirds]
        places = np.clip((np.arange(count) + 0.5) * len(whole) / count - 0.5, 0, len(whole) - 1)
        below = places.astype(int)
        share, above = (places - below)[:, None], np.minimum(below + 1, len(whole) - 1)
        shrunk = whole[below] * (1 - share) + whole[above] * share  # (frames, bins)
        return np.stack([shrunk, *(whole[start : start + count] for start in starts)])

"""What makes log-mel filter banks of recordings of any length, as transformers does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Self

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import ArgumentError, ModelError

from ..constants import SAMPLE_RATE
from ..filter_banks import POINTS, filter_bank, filters, frames_of, window_of
from ..mel import FFT_SIZE, FRAMES_AT_ONCE, HOP, triangles
from .recordings import EPSILON, MOST_FRAMES, checked_recordings, mask_of
from .settings import RecordingProcessor, check_same, expect, part_of, whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _bank_power(
    sound: NDArray[np.float64], window: NDArray[np.float64], frames: int, filters: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The power (frames, bins) that filters (bins, 257) leave of FFTs of 512 samples each 160, under a window (400,) in
    the middle of these. The sound has 256 samples more on each side.
    """
    found = np.empty((frames, len(filters)))
    parts = np.lib.stride_tricks.sliding_window_view(sound, FFT_SIZE)[(POINTS - FFT_SIZE) // 2 :: HOP]  # (frames, 400)
    for first in range(0, frames, FRAMES_AT_ONCE):
        here = slice(first, min(frames, first + FRAMES_AT_ONCE))
        found[here] = np.abs(np.fft.rfft(parts[here] * window, POINTS)) ** 2 @ filters.T
    return found


@dataclass(frozen=True)
class StandardizedProcessor(RecordingProcessor):
    """What makes NeMo's log-mel spectrograms, of which each of `bins` bins has the mean 0 and the variance 1: samples
    less 0.97 times the one before, frames of 25 ms each 10 ms in zeros, the power of an FFT of 512, triangles of equal
    area on Slaney's scale, natural logarithms.
    """

    bins: int = 80

    hop = HOP
    points = POINTS // 2 + 1
    emphasis, guard, epsilon = 0.97, 2.0**-24, 1e-5  # the guard is added to powers, epsilon to deviations

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        expect(settings, where, n_fft=POINTS, hop_length=HOP, win_length=FFT_SIZE, preemphasis=cls.emphasis)
        return cls(whole_number(settings, where, "feature_size", cls.bins, cls.points))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        encoder = part_of(config, "encoder_config") or {"num_mel_bins": self.bins}
        check_same(self.bins, encoder.get("num_mel_bins", StandardizedProcessor.bins), where)

    @staticmethod
    def frames_of(samples: int) -> int:
        """The number of frames that `samples` samples have."""
        return samples // HOP

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, F, bins) float32, zeros after the shorter ones, and
        the mask (B, F) int32 of what is not padding; None where nothing is. ArgumentError for less than two frames.
        """
        arrays = checked_recordings(recordings)
        counts = [self.frames_of(len(array)) for array in arrays]
        if min(counts) < 2:
            raise ArgumentError(f"recordings have {counts} frames of 10 ms, expected two or more")
        found = np.zeros((len(arrays), max(counts), self.bins), np.float32)
        for row, (array, count) in enumerate(zip(arrays, counts, strict=True)):
            found[row, :count] = self._bank(array, count)
        return from_numpy(found), mask_of(counts)

    def _bank(self, samples: NDArray[np.float32], frames: int) -> NDArray[np.float64]:
        """(frames, bins)."""
        sound = samples.astype(np.float64)
        sound[1:] -= self.emphasis * samples[:-1]
        filters = triangles(self.bins, self.points, SAMPLE_RATE, 0.0, SAMPLE_RATE / 2)
        logs = np.log(_bank_power(np.pad(sound, POINTS // 2), window_of("hann"), frames, filters) + self.guard)
        found: NDArray[np.float64] = (logs - logs.mean(0)) / (logs.std(0, ddof=1) + self.epsilon)
        return found


@dataclass(frozen=True)
class SlopedSpectrogramProcessor(RecordingProcessor):
    """What makes LASR's log-mel spectrograms: frames of 25 ms each 10 ms, the power of an FFT of 512, triangles whose
    sides are straight on HTK's scale, from 125 to 7,500 Hz, and natural logarithms of at least 1e-5.
    """

    bins: int = 128

    hop = HOP
    lowest, highest, least = 125.0, 7500.0, 1e-5

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        expect(settings, where, n_fft=POINTS, hop_length=HOP, win_length=FFT_SIZE)
        return cls(whole_number(settings, where, "feature_size", cls.bins, POINTS // 4))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        check_same(self.bins, part_of(config, "encoder_config").get("num_mel_bins", 128), where)

    frames_of = staticmethod(frames_of)

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, F, bins) float32, silence after the shorter ones, and
        the mask (B, F) int32 of what is not padding; None where nothing is. ArgumentError for less than a frame.
        """
        arrays = checked_recordings(recordings)
        counts = [self.frames_of(len(array)) for array in arrays]
        if not min(counts):
            raise ArgumentError(f"recordings have {counts} frames of 25 ms, expected one or more")
        longest = max(map(len, arrays))
        padded = [np.pad(array.astype(np.float64), (0, longest - len(array))) for array in arrays]
        slopes = filters(self.bins, self.lowest, self.highest).T  # (257, bins)
        found = np.empty((len(arrays), max(counts), self.bins), np.float32)
        for row, sound in enumerate(padded):
            parts = np.lib.stride_tricks.sliding_window_view(sound, FFT_SIZE)[::HOP]  # (F, 400)
            for first in range(0, len(parts), FRAMES_AT_ONCE):
                here = slice(first, first + FRAMES_AT_ONCE)
                power = np.abs(np.fft.rfft(parts[here] * window_of("hann"), POINTS)) ** 2
                found[row, here] = np.log(np.maximum(power @ slopes, self.least))
        return from_numpy(found), mask_of(counts)


@dataclass(frozen=True)
class PairedBankProcessor(RecordingProcessor):
    """What makes the input of wav2vec 2.0 BERT: log-mel filter banks (pyapp.audio.filter_banks) with `bins` bins, of
    which each has the mean 0 and the variance 1, two frames of 10 ms side by side; a last frame alone is left out.
    """

    bins: int = 80

    samples = 2 * HOP  # of a pair

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        expect(settings, where, stride=2)
        return cls(whole_number(settings, where, "num_mel_bins feature_size", cls.bins, POINTS // 4))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other vectors."""
        check_same(2 * self.bins, config.get("feature_projection_input_dim", 160), where, "numbers a moment")

    @staticmethod
    def frames_of(samples: int) -> int:
        """The number of pairs of frames that `samples` samples have."""
        return frames_of(samples) // 2

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, F, 2 bins) float32, zeros after the shorter ones, and
        the mask (B, F) int32 of what is not padding; None where nothing is. ArgumentError for less than a pair.
        """
        arrays = checked_recordings(recordings)
        counts = [self.frames_of(len(array)) for array in arrays]
        if not min(counts):
            raise ArgumentError(f"recordings have {counts} times two frames of 10 ms, expected one or more")
        found = np.zeros((len(arrays), max(counts), 2 * self.bins), np.float32)
        for row, (array, count) in enumerate(zip(arrays, counts, strict=True)):
            bank = filter_bank(array * np.float32(1 << 15), self.bins).astype(np.float64)
            bank = (bank - bank.mean(0)) / np.sqrt(bank.var(0, ddof=1) + EPSILON)
            found[row, :count] = bank[: 2 * count].reshape(count, -1)
        return from_numpy(found), mask_of(counts)


@dataclass(frozen=True)
class CentredBankProcessor(RecordingProcessor):
    """What makes the input of Speech2Text: log-mel filter banks (pyapp.audio.filter_banks) with `bins` bins, of which
    each has the mean 0 (`centred`) and the variance 1 (`scaled`).
    """

    bins: int = 80
    centred: bool = True
    scaled: bool = True

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        bins = whole_number(settings, where, "num_mel_bins feature_size", cls.bins, POINTS // 4)
        both = settings.get("do_ceptral_normalize") is not False  # as transformers spells it
        parts = (both and settings.get(f"normalize_{part}") is not False for part in ("means", "vars"))
        return cls(bins, *parts)

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other vectors."""
        check_same(self.bins, config.get("input_feat_per_channel", 80), where)

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, F, bins) float32, zeros after the shorter ones, and
        the mask (B, F) int32 of what is not padding; None where nothing is. ArgumentError for less than a frame.
        """
        arrays = checked_recordings(recordings)
        counts = [frames_of(len(array)) for array in arrays]
        if not min(counts):
            raise ArgumentError(f"recordings have {counts} frames of 25 ms, expected one or more")
        found = np.zeros((len(arrays), max(counts), self.bins), np.float32)
        for row, (array, count) in enumerate(zip(arrays, counts, strict=True)):
            bank = filter_bank(array * np.float32(1 << 15), self.bins).astype(np.float64)
            deviation = bank.std(0) if self.scaled else np.ones(self.bins)
            bank = bank - bank.mean(0) if self.centred else bank
            found[row, :count] = bank / np.where(deviation > 0, deviation, 1)  # a bin of silence has none
        return from_numpy(found), mask_of(counts)


@dataclass(frozen=True)
class FilterBankProcessor(RecordingProcessor):
    """What makes log-mel filter banks (pyapp.audio.filter_banks) of `frames` frames of 10 ms with `bins` bins: of a
    longer recording the first ones, after those of a shorter one zeros; then each number less `mean`, divided by twice
    `deviation`, if there are these.
    """

    frames: int = 1024
    bins: int = 128
    mean: float = 0.0
    deviation: float = 0.5

    @property
    def seconds(self) -> float:
        """How much of a recording is heard."""
        return self.frames / 100

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        frames = whole_number(settings, where, "max_length", cls.frames, MOST_FRAMES)
        bins = whole_number(settings, where, "num_mel_bins", cls.bins, POINTS // 4)
        if settings.get("do_normalize") is False:
            return cls(frames, bins)
        # the mean and the deviation of AudioSet, where a file does not say others
        mean, deviation = settings.get("mean", -4.2677393), settings.get("std", 4.5689974)
        for name, number in (("mean", mean), ("std", deviation)):
            if type(number) not in (int, float) or not isfinite(number) or (name == "std" and number <= 0):
                raise ModelError(f"{name} is {number!r:.40}, expected a number", where=where)
        return cls(frames, bins, mean, deviation)

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, frames, bins) float32; there is no mask."""
        arrays = checked_recordings(recordings)
        found = np.zeros((len(arrays), self.frames, self.bins), np.float32)
        for row, array in enumerate(arrays):
            longest = (self.frames + 3) * SAMPLE_RATE // 100  # what the frames hear
            bank = filter_bank(array[:longest], self.bins, "hann")[: self.frames]
            found[row, : len(bank)] = bank
        found -= np.float32(self.mean)
        found /= np.float32(2 * self.deviation)
        return from_numpy(found), None

"""What prepares recordings for models other than Whisper, as transformers does it: samples, log-mel filter banks, or
Whisper's spectrograms of long recordings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isfinite, prod
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import ArgumentError, ModelError

from .constants import SAMPLE_RATE
from .filter_banks import POINTS, filter_bank, filters, frames_of, window_of
from .mel import BINS as FFT_BINS
from .mel import (
    DECADES,
    FFT_SIZE,
    FRAMES_AT_ONCE,
    HOP,
    SMALLEST_POWER,
    log_mel_spectrogram,
    mel_logs,
    reflect,
    triangles,
)
from .resampling import ZERO_CROSSINGS, resample

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPSILON = 1e-7  # added to the variance
MOST_FRAMES = 1 << 16  # of a spectrogram
MOST_FUSED = 600.0  # seconds of a recording that is heard whole by CLAP


def _feature_settings(settings: Mapping[str, Any], where: str, usual: int = SAMPLE_RATE) -> Mapping[str, Any]:
    """The object of a feature extractor, in a preprocessor_config.json or a processor_config.json. ModelError for
    another rate than the `usual` one.
    """
    own = settings.get("feature_extractor", settings.get("audio_processor"))
    settings = own if isinstance(own, Mapping) else settings
    rate = settings.get("sampling_rate", usual)
    if rate != usual:
        raise ModelError(
            f"the model hears {rate!r:.40} samples a second, expected {usual:,}", where=where,
            hint=f"Choose a model for {usual // 1000} kHz",
        )  # fmt: skip
    return settings


def _expect(settings: Mapping[str, Any], where: str, **usual: Any) -> None:
    """ModelError for a field that has another value than the usual one; it may be left out."""
    for name, wanted in usual.items():
        if (given := settings.get(name, wanted)) != wanted:
            raise ModelError(f"{name} is {given!r:.40}, expected {wanted!r}", where=where)


def _whole(settings: Mapping[str, Any], where: str, names: str, usual: int, most: int) -> int:
    """The whole number from 1 to `most` in the first of the fields `names`, separated by spaces, that there is; the
    usual one without them. ModelError for anything else.
    """
    name, *_ = own = names.split()
    found = next((settings[key] for key in own if key in settings), usual)
    if type(found) not in (int, float) or not 1 <= found <= most or found != int(found):
        raise ModelError(f"{name} is {found!r:.40}, expected a whole number up to {most:,}", where=where)
    return int(found)


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object of a part in a config.json; empty where there is none."""
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def _same(made: int, read: Any, where: str, what: str = "bins") -> None:
    """ModelError where the model `where` reads another number of bins than a processor makes."""
    if read != made:
        raise _unfit(f"it makes {made} {what}, the model reads {read!r:.20}", where)


def _checked(recordings: Sequence[Any]) -> list[NDArray[np.float32]]:
    """Recordings as arrays. ArgumentError where one has no samples, or channels."""
    arrays = [np.asarray(recording, np.float32) for recording in recordings]
    if not arrays or any(array.ndim != 1 or not len(array) for array in arrays):
        raise ArgumentError(f"recordings are samples (N,), not {[array.shape for array in arrays]}")
    return arrays


def _mask_of(counts: Sequence[int]) -> Tensor | None:
    """(B, F) int32, 0 after each of the counts; None where all are equal."""
    if len({*counts}) == 1:
        return None
    mask = np.arange(max(counts))[None, :] < np.array(counts)[:, None]
    return from_numpy(mask.astype(np.int32))


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


def _unfit(what: str, where: str) -> ModelError:
    """The error for a processor that makes other input than the model `where` reads."""
    return ModelError(
        what, where=f"{where}: preprocessor_config.json", hint="Give the file that belongs to the weights"
    )


def _audio_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The audio_config of a config.json, which may be in that of a thinker; empty where there is none."""
    return _part(_part(config, "thinker_config") if "thinker_config" in config else config, "audio_config")


@dataclass(frozen=True)
class SampleProcessor:
    """What prepares samples: `normalize` gives each recording the mean 0 and the variance 1; `masks`: the model was
    trained with masks of what is padding; without, padding is silence.
    """

    normalize: bool = True
    masks: bool = False

    epsilon = EPSILON

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json") -> SampleProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for another rate."""
        settings = _feature_settings(settings, where)
        return cls(settings.get("do_normalize") is not False, settings.get("return_attention_mask") is True)

    def prepared(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Samples (N,) at 16 kHz as the model hears them: float32 (N,)."""
        if not self.normalize:
            return np.asarray(samples, np.float32)
        centred = samples - samples.mean()
        found: NDArray[np.float32] = (centred / np.sqrt(samples.var() + self.epsilon)).astype(np.float32)
        return found

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, N) float32, and its mask (B, N) int32, if the model has
        one. There are zeros after the shorter ones; without a mask they are normalised with the recording, as
        transformers does it.
        """
        arrays = _checked(recordings)
        longest = max(map(len, arrays))
        values, mask = np.zeros((len(arrays), longest), np.float32), np.zeros((len(arrays), longest), np.int32)
        for row, array in enumerate(arrays):
            values[row, : len(array)], mask[row, : len(array)] = array, 1
            own = values[row, : len(array) if self.masks else longest]
            own[:] = self.prepared(own)
        return from_numpy(values), from_numpy(mask) if self.masks else None


@dataclass(frozen=True)
class StandardizedProcessor:
    """What makes NeMo's log-mel spectrograms, of which each of `bins` bins has the mean 0 and the variance 1: samples
    less 0.97 times the one before, frames of 25 ms each 10 ms in zeros, the power of an FFT of 512, triangles of equal
    area on Slaney's scale, natural logarithms.
    """

    bins: int = 80

    hop = HOP
    points = POINTS // 2 + 1
    emphasis, guard, epsilon = 0.97, 2.0**-24, 1e-5  # the guard is added to powers, epsilon to deviations

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> StandardizedProcessor:
        """From the object of a preprocessor_config.json or processor_config.json of Parakeet. ModelError for another
        rate, and for other spectrograms.
        """
        settings = _feature_settings(settings, where)
        _expect(settings, where, n_fft=POINTS, hop_length=HOP, win_length=FFT_SIZE, preemphasis=cls.emphasis)
        return cls(_whole(settings, where, "feature_size", cls.bins, cls.points))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        encoder = _part(config, "encoder_config") or {"num_mel_bins": self.bins}
        _same(self.bins, encoder.get("num_mel_bins", StandardizedProcessor.bins), where)

    @staticmethod
    def frames_of(samples: int) -> int:
        """The number of frames that `samples` samples have."""
        return samples // HOP

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, F, bins) float32, zeros after the shorter ones, and
        the mask (B, F) int32 of what is not padding; None where nothing is. ArgumentError for less than two frames.
        """
        arrays = _checked(recordings)
        counts = [self.frames_of(len(array)) for array in arrays]
        if min(counts) < 2:
            raise ArgumentError(f"recordings have {counts} frames of 10 ms, expected two or more")
        found = np.zeros((len(arrays), max(counts), self.bins), np.float32)
        for row, (array, count) in enumerate(zip(arrays, counts, strict=True)):
            found[row, :count] = self._bank(array, count)
        return from_numpy(found), _mask_of(counts)

    def _bank(self, samples: NDArray[np.float32], frames: int) -> NDArray[np.float64]:
        """(frames, bins)."""
        sound = samples.astype(np.float64)
        sound[1:] -= self.emphasis * samples[:-1]
        filters = triangles(self.bins, self.points, SAMPLE_RATE, 0.0, SAMPLE_RATE / 2)
        logs = np.log(_bank_power(np.pad(sound, POINTS // 2), window_of("hann"), frames, filters) + self.guard)
        found: NDArray[np.float64] = (logs - logs.mean(0)) / (logs.std(0, ddof=1) + self.epsilon)
        return found


@dataclass(frozen=True)
class SlopedSpectrogramProcessor:
    """What makes LASR's log-mel spectrograms: frames of 25 ms each 10 ms, the power of an FFT of 512, triangles whose
    sides are straight on HTK's scale, from 125 to 7,500 Hz, and natural logarithms of at least 1e-5.
    """

    bins: int = 128

    hop = HOP
    lowest, highest, least = 125.0, 7500.0, 1e-5

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> SlopedSpectrogramProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for another rate, and for
        other spectrograms.
        """
        settings = _feature_settings(settings, where)
        _expect(settings, where, n_fft=POINTS, hop_length=HOP, win_length=FFT_SIZE)
        return cls(_whole(settings, where, "feature_size", cls.bins, POINTS // 4))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        _same(self.bins, _part(config, "encoder_config").get("num_mel_bins", 128), where)

    frames_of = staticmethod(frames_of)

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, F, bins) float32, silence after the shorter ones, and
        the mask (B, F) int32 of what is not padding; None where nothing is. ArgumentError for less than a frame.
        """
        arrays = _checked(recordings)
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
        return from_numpy(found), _mask_of(counts)


@dataclass(frozen=True)
class PairedBankProcessor:
    """What makes the input of wav2vec 2.0 BERT: log-mel filter banks (pyapp.audio.filter_banks) with `bins` bins, of
    which each has the mean 0 and the variance 1, two frames of 10 ms side by side; a last frame alone is left out.
    """

    bins: int = 80

    samples = 2 * HOP  # of a pair

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json") -> PairedBankProcessor:
        """From the object of a preprocessor_config.json of SeamlessM4T's feature extractor. ModelError for another
        rate, and for other frames.
        """
        settings = _feature_settings(settings, where)
        _expect(settings, where, stride=2)
        return cls(_whole(settings, where, "num_mel_bins feature_size", cls.bins, POINTS // 4))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other vectors."""
        _same(2 * self.bins, config.get("feature_projection_input_dim", 160), where, "numbers a moment")

    @staticmethod
    def frames_of(samples: int) -> int:
        """The number of pairs of frames that `samples` samples have."""
        return frames_of(samples) // 2

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, F, 2 bins) float32, zeros after the shorter ones, and
        the mask (B, F) int32 of what is not padding; None where nothing is. ArgumentError for less than a pair.
        """
        arrays = _checked(recordings)
        counts = [self.frames_of(len(array)) for array in arrays]
        if not min(counts):
            raise ArgumentError(f"recordings have {counts} times two frames of 10 ms, expected one or more")
        found = np.zeros((len(arrays), max(counts), 2 * self.bins), np.float32)
        for row, (array, count) in enumerate(zip(arrays, counts, strict=True)):
            bank = filter_bank(array * np.float32(1 << 15), self.bins).astype(np.float64)
            bank = (bank - bank.mean(0)) / np.sqrt(bank.var(0, ddof=1) + EPSILON)
            found[row, :count] = bank[: 2 * count].reshape(count, -1)
        return from_numpy(found), _mask_of(counts)


@dataclass(frozen=True)
class CentredBankProcessor:
    """What makes the input of Speech2Text: log-mel filter banks (pyapp.audio.filter_banks) with `bins` bins, of which
    each has the mean 0 (`centred`) and the variance 1 (`scaled`).
    """

    bins: int = 80
    centred: bool = True
    scaled: bool = True

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> CentredBankProcessor:
        """From the object of a preprocessor_config.json. ModelError for another rate, and for other frames."""
        settings = _feature_settings(settings, where)
        bins = _whole(settings, where, "num_mel_bins feature_size", cls.bins, POINTS // 4)
        both = settings.get("do_ceptral_normalize") is not False  # as transformers spells it
        parts = (both and settings.get(f"normalize_{part}") is not False for part in ("means", "vars"))
        return cls(bins, *parts)

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other vectors."""
        _same(self.bins, config.get("input_feat_per_channel", 80), where)

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, Tensor | None]:
        """Recordings, each float (N,) at 16 kHz, as a batch (B, F, bins) float32, zeros after the shorter ones, and
        the mask (B, F) int32 of what is not padding; None where nothing is. ArgumentError for less than a frame.
        """
        arrays = _checked(recordings)
        counts = [frames_of(len(array)) for array in arrays]
        if not min(counts):
            raise ArgumentError(f"recordings have {counts} frames of 25 ms, expected one or more")
        found = np.zeros((len(arrays), max(counts), self.bins), np.float32)
        for row, (array, count) in enumerate(zip(arrays, counts, strict=True)):
            bank = filter_bank(array * np.float32(1 << 15), self.bins).astype(np.float64)
            deviation = bank.std(0) if self.scaled else np.ones(self.bins)
            bank = bank - bank.mean(0) if self.centred else bank
            found[row, :count] = bank / np.where(deviation > 0, deviation, 1)  # a bin of silence has none
        return from_numpy(found), _mask_of(counts)


@dataclass(frozen=True)
class FilterBankProcessor:
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
    def from_settings(cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json") -> FilterBankProcessor:
        """From the object of a preprocessor_config.json of the Audio Spectrogram Transformer."""
        settings = _feature_settings(settings, where)
        frames = _whole(settings, where, "max_length", cls.frames, MOST_FRAMES)
        bins = _whole(settings, where, "num_mel_bins", cls.bins, POINTS // 4)
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
        arrays = _checked(recordings)
        found = np.zeros((len(arrays), self.frames, self.bins), np.float32)
        for row, array in enumerate(arrays):
            longest = (self.frames + 3) * SAMPLE_RATE // 100  # what the frames hear
            bank = filter_bank(array[:longest], self.bins, "hann")[: self.frames]
            found[row, : len(bank)] = bank
        found -= np.float32(self.mean)
        found /= np.float32(2 * self.deviation)
        return from_numpy(found), None


@dataclass(frozen=True)
class SpectrogramProcessor:
    """What makes Whisper's log-mel spectrograms (pyapp.audio.mel) with `bins` bins of stretches of `frames` frames of
    10 ms; the last stretch of a recording is filled with silence.
    """

    bins: int = 128
    frames: int = 3000

    @property
    def stretch(self) -> int:
        """The samples of a stretch."""
        return self.frames * HOP

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> SpectrogramProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for another rate, and for
        other spectrograms.
        """
        settings = _feature_settings(settings, where)
        bins = _whole(settings, where, "feature_size", cls.bins, FFT_BINS)
        seconds = _whole(settings, where, "chunk_length", 30, MOST_FRAMES // 100)
        _expect(settings, where, n_fft=FFT_SIZE, hop_length=HOP)
        return cls(bins, seconds * SAMPLE_RATE // HOP)

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        own = _part(config, "audio_config")
        read = (own.get("num_mel_bins", self.bins), own.get("max_source_positions", self.frames // 2))
        if read != (self.bins, self.frames // 2):
            raise _unfit(
                f"it makes {self.frames} frames of {self.bins} bins, the model reads {read[1]!r:.20} times two of "
                f"{read[0]!r:.20}",
                where,
            )

    def stretches(self, samples: int) -> int:
        """How many stretches a recording of `samples` samples has: at least one."""
        return max(1, -(-samples // self.stretch))

    def size(self, samples: int) -> tuple[int, int]:
        """(bins, frames) of a recording of `samples` samples, without the silence that fills its last stretch."""
        return self.bins, -(-samples // HOP)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (stretches, bins, frames)."""
        [array] = _checked([samples])
        count = self.stretches(len(array))
        logs = log_mel_spectrogram(array, self.bins, count * self.stretch - len(array))  # (bins, count * frames)
        found = logs.reshape(self.bins, count, self.frames).transpose(1, 0, 2)
        return from_numpy(np.ascontiguousarray(found))


@dataclass(frozen=True)
class WholeSpectrogramProcessor:
    """What makes Whisper's log-mel spectrograms of whole recordings for Qwen3-ASR, filled with 0 to a multiple of
    `multiple` frames of 10 ms; behind a recording of less than `least` samples stands silence.
    """

    bins: int = 128
    multiple: int = 100
    least: int = 8000

    stretch = 30 * SAMPLE_RATE  # samples of what is heard at once

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> WholeSpectrogramProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for another rate, and for
        other spectrograms.
        """
        settings = _feature_settings(settings, where)
        found = SpectrogramProcessor.from_settings(settings, where)
        window = _whole(settings, where, "n_window", cls.multiple // 2, MOST_FRAMES)
        return cls(found.bins, 2 * window, _whole(settings, where, "min_length", cls.least, cls.stretch))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        own = _audio_config(config)
        for name, made, usual in (("num_mel_bins", self.bins, 128), ("n_window", self.multiple // 2, 50)):
            if own.get(name, usual) != made:
                raise _unfit(f"it has {made} for {name}, the model {own.get(name, usual)!r:.20}", where)

    def size(self, samples: int) -> tuple[int, int]:
        """(bins, frames) of a recording of `samples` samples, with the silence of a short one."""
        return self.bins, max(samples, self.least) // HOP

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, bins, frames)."""
        [array] = _checked([samples])
        logs = log_mel_spectrogram(array, self.bins, max(0, self.least - len(array)))
        filled = np.pad(logs, ((0, 0), (0, -logs.shape[1] % self.multiple)))
        return from_numpy(np.ascontiguousarray(filled[None]))


@dataclass(frozen=True)
class LongSpectrogramProcessor:
    """What makes Whisper's log-mel spectrograms of whole recordings, each with silence behind it, for Qwen's models of
    all senses: a last part of a frame of 10 ms counts.
    """

    bins: int = 128

    stretch = 30 * SAMPLE_RATE  # samples of what is heard at once

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> LongSpectrogramProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for another rate, and for
        other spectrograms.
        """
        return cls(SpectrogramProcessor.from_settings(settings, where).bins)

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        _same(self.bins, _audio_config(config).get("num_mel_bins", 128), where)

    def size(self, samples: int) -> tuple[int, int]:
        """(bins, frames) of a recording of `samples` samples."""
        return self.bins, -(-samples // HOP)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, bins, frames)."""
        [array] = _checked([samples])
        bins, frames = self.size(len(array))
        logs = log_mel_spectrogram(array, bins, frames * HOP - len(array) + FFT_SIZE)
        return from_numpy(np.ascontiguousarray(logs[None, :, :frames]))


@dataclass(frozen=True)
class SteadySpectrogramProcessor:
    """What makes Whisper's log-mel spectrograms on a scale that does not depend on the recording, for Voxtral Realtime:
    values are clamped to 8 decades below `loudest`.
    """

    bins: int = 128
    loudest: float = 1.5

    hop = HOP

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> SteadySpectrogramProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for another rate, and for
        other spectrograms.
        """
        settings = _feature_settings(settings, where)
        found = SpectrogramProcessor.from_settings(settings, where)
        _expect(settings, where, win_length=FFT_SIZE)
        loudest = settings.get("global_log_mel_max", cls.loudest)
        if type(loudest) not in (int, float) or not abs(loudest) <= 100:
            raise ModelError(f"global_log_mel_max is {loudest!r:.40}, expected a number", where=where)
        return cls(found.bins, loudest)

    check = LongSpectrogramProcessor.check

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, bins, N // 160)."""
        [array] = _checked([samples])
        logs = mel_logs(reflect(array), len(array) // HOP, self.bins)
        return from_numpy((np.maximum(logs, np.float32(self.loudest - DECADES)) / 4 + 1)[None])


@dataclass(frozen=True)
class DelayedSampleProcessor:
    """What prepares samples for Kyutai's speech to text: at `rate`, with `before` seconds of silence before them, and a
    second more than the `delay` behind them.
    """

    rate: int = 24000
    before: float = 0.0
    delay: float = 0.0

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> DelayedSampleProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for values that cannot
        be.
        """
        own = settings.get("feature_extractor")
        settings = own if isinstance(own, Mapping) else settings
        rate = settings.get("sampling_rate", cls.rate)
        if type(rate) is not int or not 1000 <= rate <= 192_000:
            raise ModelError(f"sampling_rate is {rate!r:.40}", where=where)
        times = [settings.get(name, 0.0) for name in ("audio_silence_prefix_seconds", "audio_delay_seconds")]
        if any(type(seconds) not in (int, float) or not 0 <= seconds <= 60 for seconds in times):
            raise ModelError(f"the silence has {times!r:.60} seconds, expected 0 to 60", where=where)
        return cls(rate, *times)

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose codec has another rate."""
        codec = _part(config, "codec_config") or {"sampling_rate": self.rate}
        wanted = codec.get("sampling_rate", 24000)
        if wanted != self.rate:
            raise _unfit(f"it makes {self.rate:,} samples a second, the codec has {wanted!r:.20}", where)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, 1, N')."""
        [array] = _checked([samples])
        array = array if self.rate == SAMPLE_RATE else resample(array, SAMPLE_RATE, self.rate)
        silence = int(self.before * self.rate), int((self.delay + 1.0) * self.rate)
        return from_numpy(np.pad(array, silence)[None, None])

    def settled(self, count: int) -> int:
        """The samples that it makes of `count` ones, and that more do not change."""
        reach = ceil(ZERO_CROSSINGS * max(1.0, SAMPLE_RATE / self.rate)) + 1 if self.rate != SAMPLE_RATE else 0
        return int(self.before * self.rate) + max(0, count - reach) * self.rate // SAMPLE_RATE

    @property
    def behind(self) -> int:
        """The samples of silence at 16 kHz behind the given ones, and a moment more."""
        return ceil((self.delay + 1.1) * SAMPLE_RATE)


@dataclass(frozen=True)
class LevelledSampleProcessor:
    """What prepares samples for VibeVoice: at `rate`, as loud as `level` says (decibels below full scale; None: as they
    are), and with silence up to whole moments of `step` samples.
    """

    rate: int = 24000
    level: float | None = -25.0
    step: int = 3200
    least: float = 1e-6  # what is added to loudness, so that silence has some

    stretch = 60 * SAMPLE_RATE  # samples of what is heard at once

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> LevelledSampleProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for values that cannot
        be.
        """
        own = settings.get("feature_extractor")
        settings = own if isinstance(own, Mapping) else settings
        rate = _whole(settings, where, "sampling_rate", cls.rate, 192_000)
        step = _whole(settings, where, "pad_to_multiple_of", cls.step, 1 << 22)
        level, least = settings.get("target_dB_FS", cls.level), settings.get("eps", cls.least)
        for name, number, most in (("target_dB_FS", level, 200), ("eps", least, 1)):
            if type(number) not in (int, float) or not abs(number) <= most:
                raise ModelError(f"{name} is {number!r:.40}, expected a number", where=where)
        if least <= 0:  # silence has no loudness to divide by
            raise ModelError(f"eps is {least!r:.40}, expected a number above 0", where=where)
        if rate < 1000:
            raise ModelError(f"sampling_rate is {rate}, expected 1,000 to 192,000", where=where)
        return cls(rate, float(level) if settings.get("normalize_audio", True) else None, step, float(least))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder has other moments."""
        ratios = _part(config, "acoustic_tokenizer_encoder_config").get("downsampling_ratios")
        wanted = prod(ratios) if isinstance(ratios, list) and all(type(one) is int for one in ratios) else self.step
        if self.step != wanted:
            raise _unfit(f"pad_to_multiple_of is {self.step}, the model's moments have {wanted!r:.20} samples", where)

    def size(self, samples: int) -> tuple[int, int]:
        """(1, samples at the rate) of a recording of `samples` samples."""
        return 1, -(-samples * self.rate // SAMPLE_RATE)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, 1, N')."""
        [array] = _checked([samples])
        return self.levelled(array if self.rate == SAMPLE_RATE else resample(array, SAMPLE_RATE, self.rate))

    def levelled(self, array: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at the rate → float32 (1, 1, N')."""
        if self.level is not None and len(array):
            loudness = np.sqrt(np.mean(np.square(array), dtype=np.float64)) + self.least
            array = array * np.float32(10 ** (self.level / 20) / loudness)
            highest = np.abs(array).max()
            array = array / np.float32(highest + self.least) if highest > 1 else array
        return from_numpy(np.pad(array, (0, -len(array) % self.step))[None, None])


@dataclass(frozen=True)
class PairedSpectrogramProcessor:
    """What makes the input of Granite Speech: the power of FFTs of 512 samples each 10 ms, the ends reflected, in
    `bins` triangles of height 1 on HTK's scale, and logarithms as Whisper's; two frames side by side, a last one alone
    is left out. `window`, `rate`: how many moments the model hears together, and how many of them become a vector, as
    the file says it; None: it does not.
    """

    bins: int = 80
    window: int | None = None
    rate: int | None = None

    stretch = 30 * SAMPLE_RATE  # samples of what is heard at once, as in training

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json"
    ) -> PairedSpectrogramProcessor:
        """From the object of a preprocessor_config.json or processor_config.json. ModelError for another rate, and for
        other spectrograms.
        """
        settings = _feature_settings(settings, where)
        settings = {**settings, **_part(settings, "melspec_kwargs")}
        _expect(settings, where, n_fft=POINTS, hop_length=HOP, win_length=FFT_SIZE, sample_rate=SAMPLE_RATE)
        bins = _whole(settings, where, "n_mels feature_size", cls.bins, POINTS // 4)
        return cls(bins, *(settings.get(f"projector_{name}") for name in ("window_size", "downsample_rate")))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        read = _part(config, "encoder_config").get("input_dim", 160)
        told = ((2 * self.bins, read, "numbers a moment"),
                (self.window, config.get("window_size", 15), "moments that are heard together"),
                (self.rate, config.get("downsample_rate", 5), "moments for a vector"))  # fmt: skip
        for made, wanted, what in told:
            if made not in (None, wanted):
                raise _unfit(f"it has {made!r:.20} {what}, the model {wanted!r:.20}", where)

    def size(self, samples: int) -> tuple[int, int]:
        """(numbers, moments) of a recording of `samples` samples; one that is shorter than two frames has silence."""
        return 2 * self.bins, max(1, (samples // HOP + 1) // 2)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, moments, 2 * bins)."""
        [array] = _checked([samples])
        sound = np.pad(array.astype(np.float64), (0, max(0, HOP - len(array))))
        numbers, moments = self.size(len(array))
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT_SIZE) / FFT_SIZE)
        filters = triangles(self.bins, POINTS // 2 + 1, SAMPLE_RATE, 0.0, SAMPLE_RATE / 2, of_htk=True)
        power = _bank_power(np.pad(sound, POINTS // 2, mode="reflect"), hann, len(sound) // HOP + 1, filters)
        logs = np.log10(np.maximum(power, SMALLEST_POWER))
        logs = np.maximum(logs, logs.max() - DECADES)[: 2 * moments] / 4 + 1
        return from_numpy(logs.astype(np.float32).reshape(1, moments, numbers))


@dataclass(frozen=True)
class DecibelProcessor:
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

    rate = 48000  # samples a second
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
    def from_settings(
        cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json", fused: bool = False
    ) -> DecibelProcessor:
        """From the object of a preprocessor_config.json of CLAP. `fused`: as the model's configuration says. ModelError
        for what is not known.
        """
        settings = _feature_settings(settings, where, cls.rate)
        _expect(settings, where, fft_window_size=cls.window, hop_length=cls.hop, padding="repeatpad")
        bins = _whole(settings, where, "feature_size", cls.bins, cls.window // 2)
        length = _whole(settings, where, "max_length_s", cls.length, 60)
        lowest, highest = settings.get("frequency_min", cls.lowest), settings.get("frequency_max", cls.highest)
        if any(type(hertz) not in (int, float) for hertz in (lowest, highest)) or not 0 <= lowest < highest <= 24000:
            raise ModelError(f"it hears from {lowest!r:.40} to {highest!r:.40} Hz", where=where)
        return cls(bins, length, float(lowest), float(highest), fused)

    def __call__(self, recordings: Sequence[Any]) -> tuple[Tensor, None]:
        """Recordings, each float (N,) at 48 kHz, as a batch (B, frames, bins) float32, or (B, 4, frames, bins) if
        fused; there is no mask.
        """
        arrays = _checked(recordings)
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

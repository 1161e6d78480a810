"""What makes Whisper's spectrograms of long recordings for language models that hear, as transformers does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import ModelError

from ..constants import SAMPLE_RATE
from ..filter_banks import POINTS
from ..mel import BINS as FFT_BINS
from ..mel import DECADES, FFT_SIZE, HOP, SMALLEST_POWER, log_mel_spectrogram, mel_logs, reflect, triangles
from .banks import _bank_power
from .recordings import MOST_FRAMES, checked_recordings
from .settings import RecordingProcessor, audio_config, check_same, expect, part_of, unfit, whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SpectrogramProcessor(RecordingProcessor):
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
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        bins = whole_number(settings, where, "feature_size", cls.bins, FFT_BINS)
        seconds = whole_number(settings, where, "chunk_length", 30, MOST_FRAMES // 100)
        expect(settings, where, n_fft=FFT_SIZE, hop_length=HOP)
        return cls(bins, seconds * SAMPLE_RATE // HOP)

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        own = part_of(config, "audio_config")
        read = (own.get("num_mel_bins", self.bins), own.get("max_source_positions", self.frames // 2))
        if read != (self.bins, self.frames // 2):
            raise unfit(
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
        [array] = checked_recordings([samples])
        count = self.stretches(len(array))
        logs = log_mel_spectrogram(array, self.bins, count * self.stretch - len(array))  # (bins, count * frames)
        found = logs.reshape(self.bins, count, self.frames).transpose(1, 0, 2)
        return from_numpy(np.ascontiguousarray(found))


@dataclass(frozen=True)
class WholeSpectrogramProcessor(RecordingProcessor):
    """What makes Whisper's log-mel spectrograms of whole recordings for Qwen3-ASR, filled with 0 to a multiple of
    `multiple` frames of 10 ms; behind a recording of less than `least` samples stands silence.
    """

    bins: int = 128
    multiple: int = 100
    least: int = 8000

    stretch = 30 * SAMPLE_RATE  # samples of what is heard at once

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        found = SpectrogramProcessor.from_fields(settings, where)
        window = whole_number(settings, where, "n_window", cls.multiple // 2, MOST_FRAMES)
        return cls(found.bins, 2 * window, whole_number(settings, where, "min_length", cls.least, cls.stretch))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        own = audio_config(config)
        for name, made, usual in (("num_mel_bins", self.bins, 128), ("n_window", self.multiple // 2, 50)):
            if own.get(name, usual) != made:
                raise unfit(f"it has {made} for {name}, the model {own.get(name, usual)!r:.20}", where)

    def size(self, samples: int) -> tuple[int, int]:
        """(bins, frames) of a recording of `samples` samples, with the silence of a short one."""
        return self.bins, max(samples, self.least) // HOP

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, bins, frames)."""
        [array] = checked_recordings([samples])
        logs = log_mel_spectrogram(array, self.bins, max(0, self.least - len(array)))
        filled = np.pad(logs, ((0, 0), (0, -logs.shape[1] % self.multiple)))
        return from_numpy(np.ascontiguousarray(filled[None]))


@dataclass(frozen=True)
class LongSpectrogramProcessor(RecordingProcessor):
    """What makes Whisper's log-mel spectrograms of whole recordings, each with silence behind it, for Qwen's models of
    all senses: a last part of a frame of 10 ms counts.
    """

    bins: int = 128

    stretch = 30 * SAMPLE_RATE  # samples of what is heard at once

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        return cls(SpectrogramProcessor.from_fields(settings, where).bins)

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        check_same(self.bins, audio_config(config).get("num_mel_bins", 128), where)

    def size(self, samples: int) -> tuple[int, int]:
        """(bins, frames) of a recording of `samples` samples."""
        return self.bins, -(-samples // HOP)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, bins, frames)."""
        [array] = checked_recordings([samples])
        bins, frames = self.size(len(array))
        logs = log_mel_spectrogram(array, bins, frames * HOP - len(array) + FFT_SIZE)
        return from_numpy(np.ascontiguousarray(logs[None, :, :frames]))


@dataclass(frozen=True)
class SteadySpectrogramProcessor(RecordingProcessor):
    """What makes Whisper's log-mel spectrograms on a scale that does not depend on the recording, for Voxtral Realtime:
    values are clamped to 8 decades below `loudest`.
    """

    bins: int = 128
    loudest: float = 1.5

    hop = HOP

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        found = SpectrogramProcessor.from_fields(settings, where)
        expect(settings, where, win_length=FFT_SIZE)
        loudest = settings.get("global_log_mel_max", cls.loudest)
        if type(loudest) not in (int, float) or not abs(loudest) <= 100:
            raise ModelError(f"global_log_mel_max is {loudest!r:.40}, expected a number", where=where)
        return cls(found.bins, loudest)

    check = LongSpectrogramProcessor.check

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, bins, N // 160)."""
        [array] = checked_recordings([samples])
        logs = mel_logs(reflect(array), len(array) // HOP, self.bins)
        return from_numpy((np.maximum(logs, np.float32(self.loudest - DECADES)) / 4 + 1)[None])


@dataclass(frozen=True)
class PairedSpectrogramProcessor(RecordingProcessor):
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
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        settings = {**settings, **part_of(settings, "melspec_kwargs")}
        expect(settings, where, n_fft=POINTS, hop_length=HOP, win_length=FFT_SIZE, sample_rate=SAMPLE_RATE)
        bins = whole_number(settings, where, "n_mels feature_size", cls.bins, POINTS // 4)
        return cls(bins, *(settings.get(f"projector_{name}") for name in ("window_size", "downsample_rate")))

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose encoder reads other spectrograms."""
        read = part_of(config, "encoder_config").get("input_dim", 160)
        told = ((2 * self.bins, read, "numbers a moment"),
                (self.window, config.get("window_size", 15), "moments that are heard together"),
                (self.rate, config.get("downsample_rate", 5), "moments for a vector"))  # fmt: skip
        for made, wanted, what in told:
            if made not in (None, wanted):
                raise unfit(f"it has {made!r:.20} {what}, the model {wanted!r:.20}", where)

    def size(self, samples: int) -> tuple[int, int]:
        """(numbers, moments) of a recording of `samples` samples; one that is shorter than two frames has silence."""
        return 2 * self.bins, max(1, (samples // HOP + 1) // 2)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, moments, 2 * bins)."""
        [array] = checked_recordings([samples])
        sound = np.pad(array.astype(np.float64), (0, max(0, HOP - len(array))))
        numbers, moments = self.size(len(array))
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT_SIZE) / FFT_SIZE)
        filters = triangles(self.bins, POINTS // 2 + 1, SAMPLE_RATE, 0.0, SAMPLE_RATE / 2, of_htk=True)
        power = _bank_power(np.pad(sound, POINTS // 2, mode="reflect"), hann, len(sound) // HOP + 1, filters)
        logs = np.log10(np.maximum(power, SMALLEST_POWER))
        logs = np.maximum(logs, logs.max() - DECADES)[: 2 * moments] / 4 + 1
        return from_numpy(logs.astype(np.float32).reshape(1, moments, numbers))

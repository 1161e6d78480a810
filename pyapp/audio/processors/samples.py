"""What prepares samples for models that hear these themselves, as transformers does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, Any, Self

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import ModelError

from ..constants import SAMPLE_RATE
from ..resampling import ZERO_CROSSINGS, resample
from .recordings import EPSILON, checked_recordings
from .settings import RecordingProcessor, part_of, unfit, whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SampleProcessor(RecordingProcessor):
    """What prepares samples: `normalize` gives each recording the mean 0 and the variance 1; `masks`: the model was
    trained with masks of what is padding; without, padding is silence.
    """

    normalize: bool = True
    masks: bool = False

    epsilon = EPSILON

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
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
        arrays = checked_recordings(recordings)
        longest = max(map(len, arrays))
        values, mask = np.zeros((len(arrays), longest), np.float32), np.zeros((len(arrays), longest), np.int32)
        for row, array in enumerate(arrays):
            values[row, : len(array)], mask[row, : len(array)] = array, 1
            own = values[row, : len(array) if self.masks else longest]
            own[:] = self.prepared(own)
        return from_numpy(values), from_numpy(mask) if self.masks else None


@dataclass(frozen=True)
class DelayedSampleProcessor(RecordingProcessor):
    """What prepares samples for Kyutai's speech to text: at `rate`, with `before` seconds of silence before them, and a
    second more than the `delay` behind them.
    """

    rate: int = 24000
    before: float = 0.0
    delay: float = 0.0

    heard = None

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        rate = settings.get("sampling_rate", cls.rate)
        if type(rate) is not int or not 1000 <= rate <= 192_000:
            raise ModelError(f"sampling_rate is {rate!r:.40}", where=where)
        times = [settings.get(name, 0.0) for name in ("audio_silence_prefix_seconds", "audio_delay_seconds")]
        if any(type(seconds) not in (int, float) or not 0 <= seconds <= 60 for seconds in times):
            raise ModelError(f"the silence has {times!r:.60} seconds, expected 0 to 60", where=where)
        return cls(rate, *times)

    def check(self, config: Mapping[str, Any], where: str) -> None:
        """ModelError for the object of a config.json whose codec has another rate."""
        codec = part_of(config, "codec_config") or {"sampling_rate": self.rate}
        wanted = codec.get("sampling_rate", 24000)
        if wanted != self.rate:
            raise unfit(f"it makes {self.rate:,} samples a second, the codec has {wanted!r:.20}", where)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, 1, N')."""
        [array] = checked_recordings([samples])
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
class LevelledSampleProcessor(RecordingProcessor):
    """What prepares samples for VibeVoice: at `rate`, as loud as `level` says (decibels below full scale; None: as they
    are), and with silence up to whole moments of `step` samples.
    """

    rate: int = 24000
    level: float | None = -25.0
    step: int = 3200
    least: float = 1e-6  # what is added to loudness, so that silence has some

    heard = None
    stretch = 60 * SAMPLE_RATE  # samples of what is heard at once

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        rate = whole_number(settings, where, "sampling_rate", cls.rate, 192_000)
        step = whole_number(settings, where, "pad_to_multiple_of", cls.step, 1 << 22)
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
        ratios = part_of(config, "acoustic_tokenizer_encoder_config").get("downsampling_ratios")
        wanted = prod(ratios) if isinstance(ratios, list) and all(type(one) is int for one in ratios) else self.step
        if self.step != wanted:
            raise unfit(f"pad_to_multiple_of is {self.step}, the model's moments have {wanted!r:.20} samples", where)

    def size(self, samples: int) -> tuple[int, int]:
        """(1, samples at the rate) of a recording of `samples` samples."""
        return 1, -(-samples * self.rate // SAMPLE_RATE)

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at 16 kHz → float32 (1, 1, N')."""
        [array] = checked_recordings([samples])
        return self.levelled(array if self.rate == SAMPLE_RATE else resample(array, SAMPLE_RATE, self.rate))

    def levelled(self, array: NDArray[np.float32]) -> Tensor:
        """Samples (N,) at the rate → float32 (1, 1, N')."""
        if self.level is not None and len(array):
            loudness = np.sqrt(np.mean(np.square(array), dtype=np.float64)) + self.least
            array = array * np.float32(10 ** (self.level / 20) / loudness)
            highest = np.abs(array).max()
            array = array / np.float32(highest + self.least) if highest > 1 else array
        return from_numpy(np.pad(array, (0, -len(array) % self.step))[None, None])

"""A recording as log-mel windows, a block at a time, in bounded memory.

openai-whisper computes the spectrogram of the whole file at once and clamps it to 8 decades below its loudest bin. Here
arrays of up to half an hour are first searched for that bin, which gives the same numbers; for longer ones and for
streams the loudest bin so far is used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyapp.audio.constants import LARGEST_SAMPLE, SAMPLE_RATE
from pyapp.audio.mel import DECADES, FFT_SIZE, HOP, SMALLEST_POWER, mel_filters, mel_logs
from pyapp.engine.lazy import np
from pyapp.errors import OptionError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

FRAMES_PER_SECOND = SAMPLE_RATE // HOP
EXACT_FRAMES = 30 * 60 * FRAMES_PER_SECOND
BLOCK = 500  # frames computed at a time
BLOCKS_KEPT = 14  # two windows
HALF = FFT_SIZE // 2


class Samples:
    """Mono float32 samples that are read front to back: an array, or blocks that arrive one after another.

    `total` is their number, None until a stream has ended. `forget` drops samples.
    """

    def __init__(self, audio: Any) -> None:
        self.total: int | None = None
        self.whole: NDArray[np.float32] | None = None
        self._blocks: Iterator[Any] = iter(())
        self._parts: list[NDArray[np.float32]] = []
        self._start = self._end = 0  # of the kept samples
        if isinstance(audio, Iterable) and not hasattr(audio, "__array__") and not isinstance(audio, (list, tuple)):
            self._blocks = iter(audio)
        else:
            self.whole = checked(audio)
            self._parts, self._end = [self.whole], len(self.whole)
            self.total = self._end

    def reach(self, end: int) -> bool:
        """Reads until sample `end`; False if the recording ends before."""
        while self._end < end and self.total is None:
            block = next(self._blocks, None)
            if block is None:
                self.total = self._end
            elif len(found := checked(block)):
                self._parts.append(found)
                self._end += len(found)
        return self._end >= end

    def read(self, start: int, end: int) -> NDArray[np.float32]:
        """Samples (end - start,), zeros after the end. OptionError for samples that were dropped."""
        if start < self._start:
            raise OptionError(
                "a stream cannot be read backwards", where="clip_timestamps", hint="Give the clips in order"
            )
        self.reach(end)
        result = np.zeros(end - start, np.float32)
        offset = self._start
        for part in self._parts:
            low, high = max(start, offset), min(end, offset + len(part))
            if low < high:
                result[low - start : high - start] = part[low - offset : high - offset]
            offset += len(part)
        return result

    def forget(self, before: int) -> None:
        """Drops whole blocks of a stream before sample `before`."""
        while self.whole is None and self._parts and self._start + len(self._parts[0]) <= before:
            self._start += len(self._parts.pop(0))


def checked(samples: Any) -> NDArray[np.float32]:
    """Mono float32 (samples,); OptionError for other shapes, for NaN and infinity, and for what are no numbers."""
    try:
        found = np.ascontiguousarray(samples, np.float32)
    except (TypeError, ValueError):
        raise OptionError(f"must be mono samples (samples,), not {shown(samples)}", where="audio") from None
    if found.ndim != 1:
        raise OptionError(f"must be mono samples (samples,), not {found.shape}", where="audio")
    if found.size and not -LARGEST_SAMPLE < found.min() <= found.max() < LARGEST_SAMPLE:
        beyond = "are not finite" if not np.isfinite(found).all() else f"are above {LARGEST_SAMPLE:g}"
        raise OptionError(f"holds samples that {beyond}", where="audio")
    return found


class MelWindows:
    """Log-mel windows of `audio`: float32 (samples,) at 16 kHz, or an iterable of such blocks."""

    def __init__(self, audio: Any, n_mels: int) -> None:
        self.samples = Samples(audio)
        self._n_mels = mel_filters(n_mels).shape[0]
        self._kept: OrderedDict[int, NDArray[np.float32]] = OrderedDict()
        self._loudest = np.float32(-np.inf)
        frames = self.frames
        if frames is not None and frames <= EXACT_FRAMES:
            for block in range((frames + 1) // BLOCK + 1):  # frame `frames` + 1 still overlaps the last samples
                self._logs(block)

    @property
    def frames(self) -> int | None:
        """Frames of 10 ms in the recording, None while its end is unknown."""
        return None if self.samples.total is None else self.samples.total // HOP

    def holds(self, end: int) -> int:
        """`end`, or the number of frames in the recording if it is shorter."""
        self.samples.reach(end * HOP + HALF)
        return end if self.frames is None else min(end, self.frames)

    def read(self, start: int, end: int) -> NDArray[np.float32]:
        """Log-mel float32 (n_mels, end - start) of frames from `start`; silence after the end of the recording."""
        parts = [self._logs(block) for block in range(start // BLOCK, (end - 1) // BLOCK + 1)]
        offset = start // BLOCK * BLOCK
        logs = np.concatenate(parts, axis=1)[:, start - offset : end - offset]
        return (np.maximum(logs, self._loudest - np.float32(DECADES)) + np.float32(4)) / np.float32(4)

    def sound(self, start: int, end: int) -> NDArray[np.float32]:
        """The samples of frames `start` to `end`."""
        return self.samples.read(start * HOP, end * HOP)

    def forget(self, before: int) -> None:
        """Drops frames before `before` of a stream, which must not be read again."""
        self.samples.forget(before // BLOCK * BLOCK * HOP - HALF)

    def _logs(self, block: int) -> NDArray[np.float32]:
        """log10 of the mel power (n_mels, BLOCK); updates the loudest bin."""
        if block in self._kept:
            self._kept.move_to_end(block)
            return self._kept[block]
        start = block * BLOCK * HOP - HALF
        end = start + (BLOCK - 1) * HOP + FFT_SIZE
        samples = self.samples.read(max(start, 0), end)
        total = self.samples.total
        if total is not None and start >= total:  # silence after the end
            return np.full((self._n_mels, BLOCK), np.log10(SMALLEST_POWER), np.float32)
        if start < 0:  # mirrored at the first sample
            samples = np.concatenate([samples[HALF:0:-1], samples])
        logs = mel_logs(samples, BLOCK, self._n_mels)
        self._loudest = max(self._loudest, logs.max())
        self._kept[block] = logs
        if len(self._kept) > BLOCKS_KEPT:
            self._kept.popitem(last=False)
        return logs

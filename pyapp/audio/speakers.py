"""Who speaks when: vectors of short windows of speech by a network for speakers, clustered.

Windows of 1.5 s each 0.75 s, as in the recipes of WeSpeaker and 3D-Speaker; average linkage of cosine distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import no_grad
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.events import Cancel, Progress

from .activity import Span
from .clustering import cluster
from .constants import SAMPLE_RATE
from .filter_banks import filter_bank
from .mel import FFT_SIZE as FRAME
from .mel import HOP
from .turns import Turn, Turns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .activity import SpeechDetector
    from .windows import Samples

WINDOW = 1.5  # seconds
SHORTEST = 0.4  # seconds of speech of which a vector says something
PIECE = 60 * SAMPLE_RATE  # samples that are searched for speech at once
LONGEST = 12.0  # seconds of speech between two reports of progress
BATCH = 8  # windows that a network reads at once
THRESHOLD = 0.6  # cosine distance of two speakers: 1 - 0.4, which 3D-Speaker's clustering has
HINT = "Networks for speakers take filter banks (batch, frames, 80) or samples (batch, samples)"


class SpeakerNetwork:
    """An ONNX module that makes one vector of a voice: WeSpeaker's, 3D-Speaker's and ones like them, which read filter
    banks (batch, frames, bins), or ones that read samples (batch, samples) or (batch, 1, samples).

    The metadata that sherpa-onnx writes say how the sound is prepared: `sample_rate`, `normalize_samples` (0: the scale
    of 16-bit integers), `feature_normalize_type` (global-mean: the mean of each bin is removed), `framework`. Without
    them it is as for WeSpeaker, or for 3D-Speaker if the input is called feature. ModelError for other modules.
    """

    def __init__(self, module: Any, name: str = "model") -> None:
        self.name, self._module = name, module
        if len(module.inputs) != 1:
            takes = ", ".join(info.name for info in module.inputs) or "nothing"
            raise ModelError(
                f"this is not a network for speakers: it takes {takes}, expected one input", where=name, hint=HINT
            )
        (info,) = module.inputs
        metadata: dict[str, str] = module.metadata
        rate = metadata.get("sample_rate", str(SAMPLE_RATE))
        if rate != str(SAMPLE_RATE):
            raise ModelError(f"this network is for sound of {rate:.20} Hz", where=name, hint="Take one for 16000 Hz")
        shape = info.type.shape
        sizes = tuple(size if isinstance(size, int) and size > 0 else None for size in shape or ())
        self._input, self._size, self._bins, self._channel = info.name, WINDOW, 0, False
        length = None  # of an input that has only one
        if info.type.element != "float32" or len(sizes) not in (2, 3):
            raise self._other(info.type.element, shape)
        if len(sizes) == 2:
            length = sizes[1]
        elif sizes[1] == 1 and sizes[2] is None or (sizes[2] or 0) >= SAMPLE_RATE // 2:
            length, self._channel = sizes[2], True
        else:
            self._bins = 80 if sizes[2] is None else sizes[2]
            length = None if sizes[1] is None else FRAME + HOP * (sizes[1] - 1)
            if not 20 <= self._bins <= 128 or (sizes[1] is not None and sizes[1] < 2):
                raise self._other(info.type.element, shape)
        self.samples = length or round(WINDOW * SAMPLE_RATE)  # of a window
        if not SAMPLE_RATE // 4 <= self.samples <= 30 * SAMPLE_RATE:
            raise self._other(info.type.element, shape)
        self._batch = 1 if sizes[0] == 1 else BATCH
        three_d = metadata.get("framework", "").lower() == "3d-speaker" or (not metadata and info.name == "feature")
        self._window = "povey" if three_d else "hamming"
        self._scale = (
            1.0 if metadata.get("normalize_samples", "1" if three_d or not self._bins else "0") == "1" else 32768.0
        )
        self._centred = metadata.get("feature_normalize_type", "global-mean") == "global-mean"

    def _other(self, element: str, shape: Any) -> ModelError:
        return ModelError(f"this is not a network for speakers: it reads {element} {shape}", where=self.name, hint=HINT)

    def vectors(self, windows: NDArray[np.float32], cancel: Cancel | None = None) -> NDArray[np.float32]:
        """float32 (n, dim) of the windows (n, samples). Cancelled."""
        parts = []
        for at in range(0, len(windows), self._batch):
            (cancel or Cancel()).check()
            parts.append(self._run(windows[at : at + self._batch]))
        if len({part.shape[1] for part in parts}) > 1:
            raise ModelError("the network gives vectors of different lengths", where=self.name, hint=HINT)
        return np.concatenate(parts)

    def _run(self, windows: NDArray[np.float32]) -> NDArray[np.float32]:
        scaled = windows * np.float32(self._scale)
        if self._bins:
            read = np.stack([filter_bank(window, self._bins, self._window) for window in scaled])  # (n, frames, bins)
            if self._centred:
                read -= read.mean(axis=1, keepdims=True)
        else:
            read = scaled[:, None] if self._channel else scaled
        with no_grad():
            made = self._module(**{self._input: read})
        found = (made[-1] if isinstance(made, tuple) else made).numpy()  # ECAPA's logits come before its embedding
        if (
            found.size == 0
            or found.ndim < 2
            or len(found) != len(windows)
            or found.size != found.shape[0] * max(found.shape[1:])
        ):
            raise ModelError(
                f"the network gives {found.shape} for {len(windows)} windows, expected ({len(windows)}, size)",
                where=self.name, hint=HINT,
            )  # fmt: skip
        flat: NDArray[np.float32] = found.reshape(len(windows), -1).astype(np.float32)
        return flat


@dataclass(frozen=True, slots=True)
class _Window:
    span: int  # the number of the stretch of speech it is in
    start: float
    end: float


class SpeakerFinder:
    """Finds the turns of a recording in bounded memory: vectors of windows are kept, samples are not."""

    def __init__(self, network: SpeakerNetwork, wanted: int | None = None, threshold: float = THRESHOLD) -> None:
        self.wanted = wanted
        self._network, self._threshold = network, threshold
        self._windows: list[_Window] = []
        self._vectors: list[NDArray[np.float32]] = []
        self._spans = 0

    def listen(
        self, sound: Samples, detector: SpeechDetector, cancel: Cancel, total: float | None = None
    ) -> Iterator[Progress]:
        """Reads the recording from its beginning to its end. Progress in seconds of `total`."""
        start = 0
        while True:
            sound.reach(start + PIECE)
            end = start + PIECE if sound.total is None else min(start + PIECE, sound.total)
            if end <= start:
                return
            cancel.check()
            for span in (part for whole in detector.spans(sound, start, end) for part in parts_of(whole)):
                self._add(sound, start, span, cancel)
                yield Progress("telling the speakers apart", start / SAMPLE_RATE + span.end, total, "seconds")
            start = end
            sound.forget(start)

    def _add(self, sound: Samples, offset: int, span: Span, cancel: Cancel) -> None:
        """Makes the vectors of the windows in a stretch of speech."""
        if span.duration < SHORTEST:
            return
        size = self._network.samples
        first, last = offset + round(span.start * SAMPLE_RATE), offset + round(span.end * SAMPLE_RATE)
        samples = sound.read(first, last)
        if len(samples) <= size:  # repeated until they fill a window
            places, windows = [0], np.tile(samples, -(-size // len(samples)))[None, :size]
        else:
            places = list(range(0, len(samples) - size + 1, size // 2))
            if places[-1] + size < len(samples):
                places.append(len(samples) - size)
            windows = np.stack([samples[place : place + size] for place in places])
        vectors = self._network.vectors(windows, cancel)  # (windows, dim)
        for place, vector in zip(places, vectors, strict=True):
            begin, end = (first + place) / SAMPLE_RATE, (first + min(place + size, len(samples))) / SAMPLE_RATE
            if not np.isfinite(vector).all() or not vector.any():
                wrong = "zeros" if np.isfinite(vector).all() else "numbers that are not finite"
                raise ModelError(
                    f"the network for speakers gives {wrong} for the sound from {begin:.2f} to {end:.2f} s",
                    where=self._network.name, hint="Download it again, or take another one",
                )  # fmt: skip
            self._windows.append(_Window(self._spans, begin, end))
        self._vectors.append(vectors)
        self._spans += 1

    def turns(self) -> Turns:
        """The turns of what was heard."""
        if not self._vectors:
            return Turns([])
        labels = cluster(np.concatenate(self._vectors), self._threshold, self.wanted).tolist()
        return Turns(turns_of(self._windows, labels))


def parts_of(span: Span) -> list[Span]:
    """A stretch of speech in parts of about equal length, so that its progress is seen."""
    count = max(1, round(span.duration / LONGEST))
    edges = [span.start + span.duration * at / count for at in range(count + 1)]
    return [Span(start, end) for start, end in pairwise(edges)]


def turns_of(windows: Sequence[_Window], labels: Sequence[int]) -> list[Turn]:
    """The turns that the windows and their speakers make. One window between two of another speaker, in the same
    stretch of speech, is theirs. Where windows of two speakers overlap, the turn changes in the middle.
    """
    smooth = list(labels)
    for at in range(1, len(windows) - 1):
        around = labels[at - 1], labels[at + 1]
        if windows[at - 1].span == windows[at + 1].span and around[0] == around[1]:
            smooth[at] = around[0]
    found = [Turn(windows[0].start, windows[0].end, smooth[0])]
    for (before, one), (window, other) in pairwise(zip(windows, smooth, strict=True)):
        if one == other and before.span == window.span:
            found[-1] = replace(found[-1], end=window.end)
        else:
            change = (window.start + before.end) / 2 if before.span == window.span else None
            if change is not None:
                found[-1] = replace(found[-1], end=change)
            found.append(Turn(window.start if change is None else change, window.end, other))
    numbers: dict[int, int] = {}
    return [replace(turn, speaker=numbers.setdefault(turn.speaker, len(numbers))) for turn in found]

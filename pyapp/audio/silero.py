"""Where somebody speaks, by a network: it gives the probability of speech in each 32 ms, and Silero's rule makes spans
of them. Source: the published parameters and behaviour of https://github.com/snakers4/silero-vad (MIT).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import no_grad
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel

from .activity import Span
from .constants import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .windows import Samples

CHUNK = 512  # samples of which a network gives one probability: 32 ms
AT_ONCE = 64  # chunks between two looks at Cancel
CONTEXT = 64  # samples before them that version 5 reads too
LONGEST_GAP = 98  # ms: a pause of more is a place to cut speech that is too long
HINT = "Silero's networks take input and state, or input, h and c"


@dataclass(frozen=True, slots=True)
class SpeechOptions:
    """Silero's settings, times in seconds: speech begins at the probability `threshold` and ends below `neg_threshold`
    (None: 0.15 less, at least 0.01) that lasts `min_silence`; shorter speech than `min_speech` is dropped, longer than
    `max_speech` is cut at its longest pause; `speech_pad` is added on both sides. OptionError for other values.
    """

    threshold: float = 0.5
    neg_threshold: float | None = None
    min_speech: float = 0.25
    max_speech: float = inf
    min_silence: float = 0.1
    speech_pad: float = 0.03

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise OptionError(f"must lie between 0 and 1, not {self.threshold!r:.40}", where="threshold")
        if self.neg_threshold is not None and not 0 < self.neg_threshold <= self.threshold:
            raise OptionError(
                f"must lie between 0 and threshold, not {self.neg_threshold!r:.40}", where="neg_threshold"
            )
        for name in ("min_speech", "min_silence", "speech_pad"):
            if not (isfinite(value := getattr(self, name)) and value >= 0):
                raise OptionError(f"must be 0 or more seconds, not {value!r:.40}", where=name)
        if not self.max_speech >= 1:
            raise OptionError(f"must be 1 s or more, not {self.max_speech!r:.40}", where="max_speech")

    @property
    def release(self) -> float:
        return max(self.threshold - 0.15, 0.01) if self.neg_threshold is None else self.neg_threshold


def speech_spans(
    probabilities: Sequence[float] | NDArray[np.float32], samples: int, options: SpeechOptions | None = None
) -> list[tuple[int, int]]:
    """(first sample, one past the last) of the speech in a recording of `samples` at 16 kHz, of which each 512 have a
    probability. In order, disjoint.
    """
    options = options or SpeechOptions()
    pad = SAMPLE_RATE * options.speech_pad
    found = [
        span
        for span in _heard(probabilities, samples, options)
        if span.cut or span.length > SAMPLE_RATE * options.min_speech
    ]
    edges = [[span.start, span.end] for span in found]
    if edges:
        edges[0][0] = int(max(0, edges[0][0] - pad))
        edges[-1][1] = int(min(samples, edges[-1][1] + pad))
    for before, after in zip(edges, edges[1:], strict=False):
        pause = after[0] - before[1]
        if pause < 2 * pad:  # both get half of it
            before[1], after[0] = before[1] + pause // 2, after[0] - pause // 2
        else:
            before[1], after[0] = int(before[1] + pad), int(after[0] - pad)
    return [(start, end) for start, end in edges]


@dataclass(slots=True)
class _Speech:
    """Speech from `start`; `end` in samples. `cut`: it was longer than allowed."""

    start: int
    end: int = 0
    cut: bool = False

    @property
    def length(self) -> int:
        return self.end - self.start


def _heard(probabilities: Any, samples: int, options: SpeechOptions) -> list[_Speech]:
    """The speech before its ends are padded."""
    longest = SAMPLE_RATE * options.max_speech - CHUNK - 2 * SAMPLE_RATE * options.speech_pad
    shortest_pause = SAMPLE_RATE * options.min_silence
    found: list[_Speech] = []
    current: _Speech | None = None
    quiet_from: int | None = None  # where the pause began in which we are
    pauses: list[tuple[int, int]] = []  # (start, length) of those inside the current speech
    for index, probability in enumerate(probabilities):
        here = index * CHUNK
        speaks = probability >= options.threshold
        if speaks and quiet_from is not None:
            if here - quiet_from > SAMPLE_RATE * LONGEST_GAP / 1000:
                pauses.append((quiet_from, here - quiet_from))
            quiet_from = None
        if current is None:
            if speaks:
                current = _Speech(here)
            continue
        if here - current.start > longest:
            current.cut = True
            found.append(current)
            if not pauses:
                current.end, current, quiet_from = here, None, None
                continue
            start, length = max(pauses, key=lambda pause: pause[1])
            current.end, current = start, _Speech(start + length)
            quiet_from, pauses = None, []
        if probability >= options.release:
            continue
        if quiet_from is None:
            quiet_from = here
        if here - quiet_from >= shortest_pause:
            current.end = quiet_from
            found.append(current)
            current, quiet_from, pauses = None, None, []
    if current is not None:
        current.end = samples
        found.append(current)
    return found


class SileroDetector:
    """A SpeechDetector: speech as a network hears it. The network goes on from chunk to chunk, so the probabilities of
    a recording do not depend on the pieces that are asked for; one detector is for one recording.
    """

    def __init__(
        self, network: SileroNetwork, options: SpeechOptions | None = None, cancel: Cancel | None = None
    ) -> None:
        self._network, self._options, self._cancel = network, options or SpeechOptions(), cancel or Cancel()
        self._state = network.begin()
        self._known: NDArray[np.float32] = np.empty(0, np.float32)  # NaN for chunks that were passed over
        self._before = np.zeros(CONTEXT, np.float32)

    def spans(self, sound: Samples, start: int, end: int) -> list[Span]:
        sound.reach(end)
        end = end if sound.total is None else min(end, sound.total)
        first, last = start // CHUNK, -(-end // CHUNK)
        offset = first * CHUNK
        self._hear(sound, first, last)
        found = speech_spans(self._known[first:last], end - offset, self._options)
        ends = ((max(0, a + offset - start), b + offset - start) for a, b in found)
        return [Span(a / SAMPLE_RATE, b / SAMPLE_RATE) for a, b in ends if b > a]

    def _hear(self, sound: Samples, first: int, last: int) -> None:
        """Makes the probabilities of chunks `first` to `last` known. Cancelled."""
        count = len(self._known)
        if first > count:  # passed over: nothing of it is remembered
            self._known = np.concatenate([self._known, np.full(first - count, np.nan, np.float32)])
            self._state, self._before = self._network.begin(), np.zeros(CONTEXT, np.float32)
            count = first
        elif np.isnan(self._known[first:last]).any():  # a clip before the place that was begun at
            self._known, count = self._known[:first], first
            self._state, self._before = self._network.begin(), np.zeros(CONTEXT, np.float32)
        for begin in range(count, last, AT_ONCE):
            self._cancel.check()
            self._go_on(sound, min(begin + AT_ONCE, last))

    def _go_on(self, sound: Samples, last: int) -> None:
        """Makes the probabilities of the chunks from the last known one to `last` known."""
        count = len(self._known)
        samples = sound.read(count * CHUNK, last * CHUNK)
        fresh, self._state = self._network.probabilities(np.concatenate([self._before, samples]), self._state)
        self._before = samples[-CONTEXT:]
        if not np.isfinite(fresh).all():
            place = (count + int(np.flatnonzero(~np.isfinite(fresh))[0])) * CHUNK / SAMPLE_RATE
            raise ModelError(
                f"the network gives a probability that is not a number at {place:.2f} s", where=self._network.name,
                hint="Download it again, or take another file",
            )  # fmt: skip
        self._known = np.concatenate([self._known, fresh])


class SileroNetwork:
    """A network of Silero's VAD: an ONNX module, by the names of its inputs.

    - input (batch, 576), state (2, batch, 128) and mostly sr: version 5, 64 samples of context before each 512
    - input (batch, 512), h and c (2, batch, 64), sr: versions 3 and 4
    - input (chunks, 576), h and c (1, 1, 128): version 6 for many chunks at once

    ModelError for other modules.
    """

    def __init__(self, module: Any, name: str = "model") -> None:
        self.name, self._module = name, module
        inputs = {info.name: info.type for info in module.inputs}
        states = [name for name in inputs if name not in ("input", "sr")]
        known = states == ["state"] or sorted(states) == ["c", "h"]
        if "input" not in inputs or not known or len(module.outputs) != 1 + len(states):
            takes = ", ".join(inputs) or "nothing"
            raise ModelError(f"this is not a network that detects speech: it takes {takes}", where=name, hint=HINT)
        self._rate = {"sr": np.array(SAMPLE_RATE, np.int64)} if "sr" in inputs else {}
        self._states = {state: self._shape(state, inputs[state].shape) for state in states}
        shape: tuple[Any, ...] = tuple(inputs["input"].shape or ())
        self._many = states != ["state"] and len(shape) == 2 and shape[1] == CHUNK + CONTEXT
        self._context = CONTEXT if self._many or states == ["state"] else 0
        width = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else CHUNK + self._context
        if len(shape) not in (0, 2) or width != CHUNK + self._context or inputs["input"].element != "float32":
            raise ModelError(
                f"this network reads {inputs['input'].element} {shape}, expected float32 "
                f"(batch, {CHUNK + self._context}) at {SAMPLE_RATE} Hz", where=name, hint=HINT,
            )  # fmt: skip

    def _shape(self, state: str, shape: Any) -> tuple[int, ...]:
        """The shape of a state; the batch is one."""
        if shape is None or len(shape) != 3 or not isinstance(shape[2], int) or not 0 < shape[2] <= 1 << 12:
            raise ModelError(
                f"its state {state!r} has the shape {shape}, expected (2, 1, 128)", where=self.name, hint=HINT
            )
        layers = shape[0] if isinstance(shape[0], int) else 2
        if not 0 < layers <= 1 << 6:
            raise ModelError(f"its state {state!r} has {layers} layers, expected 1 or 2", where=self.name, hint=HINT)
        return layers, 1, shape[2]

    def begin(self) -> dict[str, Any]:
        """The states before the first chunk."""
        return {name: np.zeros(shape, np.float32) for name, shape in self._states.items()}

    def probabilities(
        self, samples: NDArray[np.float32], state: dict[str, Any]
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The probability float32 (chunks,) of each 512 of samples (64 + 512 · chunks,), and the states after them."""
        count = (len(samples) - CONTEXT) // CHUNK
        starts = np.arange(count)[:, None] * CHUNK + (CONTEXT - self._context)
        chunks = samples[starts + np.arange(self._context + CHUNK)]  # (chunks, 576 or 512)
        if self._many:
            return self._run(chunks, state, count)
        found = np.empty(count, np.float32)
        for index in range(count):
            one, state = self._run(chunks[index : index + 1], state, 1)
            found[index] = one[0]
        return found, state

    def _run(self, chunks: NDArray[np.float32], state: dict[str, Any], count: int) -> tuple[Any, dict[str, Any]]:
        with no_grad():
            found, *after = self._module(input=chunks, **state, **self._rate)
        values = found.numpy().reshape(-1)
        shapes = [tuple(value.shape) for value in after]
        if len(values) != count or shapes != list(self._states.values()):
            raise ModelError(
                f"the network gives {len(values)} probabilities and states of the shapes {shapes} for {count} chunks, "
                f"expected {count} and {list(self._states.values())}", where=self.name, hint=HINT,
            )  # fmt: skip
        return values, dict(zip(self._ordered(), after, strict=True))

    def _ordered(self) -> list[str]:
        """The states in the order of the outputs: h before c."""
        return sorted(self._states, reverse=True)

"""Detect speech, and cut recordings into windows for the model between words.

Every 10 ms the power between 200 and 4000 Hz, the main band of speech, is compared with the noise floor: a low
percentile of the half minute around it. Louder frames are speech; where the level is constant (somebody speaks without
a pause), clearly tonal frames are speech. Sounds shorter than a syllable (a click) are dropped, gaps shorter than a
pause are bridged, and a margin keeps soft consonants at the ends. In doubt sound is kept, because skipped speech is
lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from typing import TYPE_CHECKING, Protocol

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import OptionError

from .constants import SAMPLE_RATE
from .mel import BINS, FFT_SIZE, FRAMES_AT_ONCE, HOP, reflect, spectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .windows import Samples

FRAME = HOP / SAMPLE_RATE  # seconds
LOWEST, HIGHEST = 200, 4000  # Hz
FLOOR_PERCENTILE, LOUD_PERCENTILE = 10, 90
FLOOR_BLOCK = 300  # frames that share one noise floor
FLOOR_REACH = 1500  # frames on each side of them that it is computed from
TONAL = 0.05  # spectral flatness: white noise has 0.56, hiss in a room 0.1, a vowel less than 0.03


@dataclass(frozen=True, slots=True)
class ActivityOptions:
    """Levels in decibels, times in seconds. Speech begins at `threshold` above the noise floor and ends at `release`
    above it; below `silence` (relative to full scale) there is never speech.
    """

    threshold: float = 9.0
    release: float = 5.0
    silence: float = -65.0
    shortest_speech: float = 0.08
    shortest_pause: float = 0.3
    margin: float = 0.15

    def __post_init__(self) -> None:
        times = (self.shortest_speech, self.shortest_pause, self.margin)
        if not all(map(isfinite, (self.threshold, self.release, self.silence, *times))) or min(times) < 0:
            raise OptionError("times must be 0 or more, and all settings finite numbers", where="ActivityOptions")
        if self.release > self.threshold:
            raise OptionError("release must not be above threshold", where="ActivityOptions")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a recording, in seconds."""

    start: float
    end: float

    @property
    def duration(self) -> float:
        return self.end - self.start


class SpeechDetector(Protocol):
    """Finds speech in a recording that is read front to back: EnergyDetector, and SileroDetector of `silero`."""

    def spans(self, sound: Samples, start: int, end: int) -> list[Span]:
        """The speech between two samples, in seconds after `start`: in order, disjoint."""
        ...


class EnergyDetector:
    """Speech is louder than the noise around it (find_speech)."""

    def spans(self, sound: Samples, start: int, end: int) -> list[Span]:
        return find_speech(sound.read(start, end))


def find_speech(samples: NDArray[np.float32], options: ActivityOptions | None = None) -> list[Span]:
    """The spans of speech in mono float32 (samples,) at 16 kHz: in order, disjoint, inside the recording."""
    options = options or ActivityOptions()
    level, flatness = frame_features(samples)
    active = speech_frames(level, flatness, options)
    runs = [run for run in true_runs(active) if (run[1] - run[0]) * FRAME >= options.shortest_speech - 1e-9]
    end = len(samples) / SAMPLE_RATE
    spans: list[Span] = []
    for first, last in runs:
        start, stop = max(0.0, first * FRAME - options.margin), min(end, last * FRAME + options.margin)
        if spans and first * FRAME - (spans[-1].end - options.margin) < options.shortest_pause:
            spans[-1] = Span(spans[-1].start, stop)
        elif spans:
            spans.append(Span(max(start, spans[-1].end), stop))
        else:
            spans.append(Span(start, stop))
    return [span for span in spans if span.duration > 0]


def frame_features(samples: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(level in dB of full scale, spectral flatness 0 .. 1) of each 10 ms, in the band of speech; float32 (frames,)."""
    frames = -(-len(samples) // HOP)
    low, high = (round(hertz * FFT_SIZE / SAMPLE_RATE) for hertz in (LOWEST, HIGHEST))
    assert high < BINS
    level, flatness = np.empty(frames, np.float32), np.empty(frames, np.float32)
    reflected = np.concatenate([reflect(samples), np.zeros(HOP, np.float32)])
    for start in range(0, frames, FRAMES_AT_ONCE):
        count = min(FRAMES_AT_ONCE, frames - start)
        band = spectrum(reflected[start * HOP :], count)[low : high + 1] + np.float32(1e-12)
        mean = band.mean(axis=0)
        # a sine of full scale has the power (400 / 4)^2 in its bin, spread over about 1.5 bins
        level[start : start + count] = 10 * np.log10(mean * np.float32((high - low + 1) / 1.5e4))
        flatness[start : start + count] = np.exp(np.log(band).mean(axis=0)) / mean
    return level, flatness


def speech_frames(
    level: NDArray[np.float32], flatness: NDArray[np.float32], options: ActivityOptions
) -> NDArray[np.bool_]:
    """The frames that are speech, before short spans are dropped and gaps are bridged."""
    active = np.zeros(len(level), bool)
    floor, spread = noise_floor(level, options.silence)
    # Without a pause nearby the noise floor is the level of speech: then tonality decides.
    even = spread < options.threshold
    tonal = even & (smooth(flatness) < TONAL) & (level > options.silence + 15)
    loud = level > np.maximum(floor + options.threshold, options.silence)
    soft = level > np.maximum(floor + options.release, options.silence)
    starts = loud | tonal
    keeps = soft | starts
    for first, last in true_runs(keeps):
        if starts[first:last].any():
            active[first:last] = True
    return active


def noise_floor(level: NDArray[np.float32], silence: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """For each frame, over the half minute around it: the level in dB that is almost always reached, at least `silence`
    - 15 dB; and the distance of the loud frames from it.
    """
    floor, spread = np.empty(len(level), np.float32), np.empty(len(level), np.float32)
    for start in range(0, len(level), FLOOR_BLOCK):
        around = level[max(0, start - FLOOR_REACH) : start + FLOOR_BLOCK + FLOOR_REACH]
        low, high = (max(found, silence - 15) for found in percentiles(around, (FLOOR_PERCENTILE, LOUD_PERCENTILE)))
        floor[start : start + FLOOR_BLOCK], spread[start : start + FLOOR_BLOCK] = low, high - low
    return floor, spread


def percentiles(values: NDArray[np.float32], shares: Sequence[float]) -> list[float]:
    """Percentiles, interpolated linearly. np.percentile and np.median import much that nothing else needs, which delays
    the first text in a browser.
    """
    ordered = np.sort(values)
    found = []
    for place in ((len(values) - 1) * share / 100 for share in shares):
        low, high = ordered[int(place)], ordered[ceil(place)]
        found.append(float(low + (high - low) * (place - int(place))))
    return found


def smooth(values: NDArray[np.float32], width: int = 9) -> NDArray[np.float32]:
    """The median of the `width` frames around each frame, so that a single outlier has no effect."""
    if not len(values):
        return values
    half = width // 2
    padded = np.concatenate([values[:1].repeat(half), values, values[-1:].repeat(half)])
    shifted = np.stack([padded[start : start + len(values)] for start in range(width)])  # (width, frames)
    shifted.sort(axis=0)
    return shifted[half]


def true_runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(first, one past the last) of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def cut_windows(
    samples: NDArray[np.float32], longest: float = 30.0, options: ActivityOptions | None = None
) -> list[Span]:
    """Windows of at most `longest` seconds that contain all speech of the recording and skip its silences.

    Neighbouring spans share a window if they fit. A span longer than a window is cut at the quietest place in the last
    third of the window, usually between words. OptionError unless `longest` is 1 s or more.
    """
    if not longest >= 1 or not isfinite(longest):
        raise OptionError(f"a window of {longest} s is too short: give 1 s or more", where="longest")
    level, _ = frame_features(samples)
    pieces = [piece for span in find_speech(samples, options) for piece in split_span(span, level, longest)]
    return join_spans(pieces, longest)


def split_span(span: Span, level: NDArray[np.float32], longest: float) -> list[Span]:
    """The span in parts of at most `longest` seconds, cut at the quietest 50 ms."""
    parts = []
    start = span.start
    while span.end - start > longest:
        first, last = round((start + longest * 2 / 3) / FRAME), int((start + longest) / FRAME)
        quiet = np.convolve(10 ** (level[first:last] / 10), np.ones(5), mode="same")
        cut = (first + int(quiet.argmin())) * FRAME
        parts.append(Span(start, cut))
        start = cut
    return [*parts, Span(start, span.end)]


def join_spans(spans: Sequence[Span], longest: float) -> list[Span]:
    """Joins neighbouring spans while the result is at most `longest` seconds."""
    joined: list[Span] = []
    for span in spans:
        if joined and span.end - joined[-1].start <= longest:
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined

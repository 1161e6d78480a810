"""What lies between a mouth and a model: gain, the echo of a room, a narrow microphone, noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyapp.audio import SAMPLE_RATE
from pyapp.engine.lazy import np
from pyapp.train.speech_grammar import Chooser

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOUDEST = 0.98


@dataclass(frozen=True, slots=True)
class Scene:
    """The acoustics of a recording. None leaves a part out.

    `gain` in dB of the whole; `echo` the seconds in which a room's echo falls by 60 dB, `distance` its part of the
    energy; `band` the highest frequency of the microphone in Hz; `noise` its level below speech in dB, `slope` the
    exponent with which its power falls over the frequency (0 white, 1 pink, 2 brown).
    """

    gain: float = 0.0
    echo: float | None = None
    distance: float = 0.3
    band: float | None = None
    noise: float | None = None
    slope: float = 1.0


CLEAN = Scene()


def choose_scene(chooser: Chooser) -> Scene:
    """A third of all scenes have no noise, half have no echo."""
    return Scene(
        gain=chooser.between(-24, 6),
        echo=chooser.between(0.08, 0.6) if chooser.chance(0.5) else None,
        distance=chooser.between(0.05, 0.5),
        band=chooser.between(3000, 7500) if chooser.chance(0.25) else None,
        noise=chooser.between(5, 40) if chooser.chance(0.67) else None,
        slope=chooser.between(0, 2),
    )


def noisy_scene(chooser: Chooser) -> Scene:
    """For tests: a room with an echo, and noise 10 to 20 dB below speech."""
    return Scene(
        gain=chooser.between(-12, 0),
        echo=chooser.between(0.15, 0.5),
        noise=chooser.between(10, 20),
        slope=chooser.between(0, 2),
    )


def record(samples: NDArray[np.float32], scene: Scene, random: np.random.Generator) -> NDArray[np.float32]:
    """Speech (samples,) of about 0.1 root mean square, float32 at 16 kHz, as `scene` would have it recorded; never
    beyond full scale.
    """
    if scene.echo is not None:
        samples = with_echo(samples, scene.echo, scene.distance, random)
    if scene.band is not None:
        samples = low_pass(samples, scene.band)
    if scene.noise is not None:
        samples = samples + noise(len(samples), scene.slope, random) * np.float32(0.1 * 10 ** (-scene.noise / 20))
    gain = 10 ** (scene.gain / 20)
    peak = float(np.abs(samples).max(initial=0.0)) * gain
    return (samples * np.float32(gain * min(1.0, LOUDEST / max(peak, LOUDEST)))).astype(np.float32)


def with_echo(
    samples: NDArray[np.float32], seconds: float, distance: float, random: np.random.Generator
) -> NDArray[np.float32]:
    """Sound and its echo: noise that falls by 60 dB in `seconds` (Polack's model of a room's late reverberation)."""
    count = max(2, int(seconds * SAMPLE_RATE))
    falling = np.exp(-6.9 * np.arange(count) / count)
    response = random.standard_normal(count) * falling
    response[: SAMPLE_RATE // 500] = 0  # the walls are not at the microphone
    response *= np.sqrt(distance / max(1e-9, float(np.sum(response**2))))
    response[0] = np.sqrt(1 - distance)
    size = smooth_size(len(samples) + count)
    spectrum = np.fft.rfft(samples, size) * np.fft.rfft(response.astype(np.float32), size)
    return np.fft.irfft(spectrum, size)[: len(samples)].astype(np.float32)


def low_pass(samples: NDArray[np.float32], hertz: float) -> NDArray[np.float32]:
    """Less of what lies above `hertz`: 24 dB for each octave."""
    size = smooth_size(len(samples))
    frequencies = np.arange(size // 2 + 1) * (SAMPLE_RATE / size)
    response = (1 / np.sqrt(1 + (frequencies / hertz) ** 8)).astype(np.float32)
    return np.fft.irfft(np.fft.rfft(samples, size) * response, size)[: len(samples)].astype(np.float32)


def noise(count: int, slope: float, random: np.random.Generator) -> NDArray[np.float32]:
    """float32 (count,) with a root mean square of 1 and a power that falls with the frequency to the `slope`."""
    size = smooth_size(max(count, 2))
    white = np.fft.rfft(random.standard_normal(size, np.float32))
    hertz = np.maximum(np.arange(size // 2 + 1) * (SAMPLE_RATE / size), 40.0)  # flat below
    weights = np.exp(np.log(hertz, dtype=np.float32) * np.float32(-slope / 2))
    shaped = np.fft.irfft(white * weights, size)[:count]
    return (shaped / np.sqrt(np.mean(shaped**2))).astype(np.float32)


def smooth_size(count: int) -> int:
    """A length of at least `count` for which the Fourier transform is quick: 1, 3 or 5 times a power of two."""
    powers = (factor << max(0, (count - 1) // factor).bit_length() for factor in (1, 3, 5))
    return min(max(2, size) for size in powers)

"""The acoustics of a recording: gain, the echo of a room, a microphone that cuts high frequencies, noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.audio import SAMPLE_RATE
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.recipes.chooser import Chooser

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOUDEST = 0.98


@dataclass(frozen=True, slots=True)
class Scene:
    """The acoustics of a recording. None leaves a part out.

    `gain`: of the whole, in dB. `echo`: seconds in which the room's echo falls by 60 dB; `distance`: its share of the
    energy. `band`: the microphone's highest frequency in Hz. `noise`: its level in dB below speech; `slope`: its power
    falls with the frequency to this power (0 white, 1 pink, 2 brown).
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
    """A scene for tests: a room with an echo, and noise 10 to 20 dB below speech."""
    return Scene(
        gain=chooser.between(-12, 0),
        echo=chooser.between(0.15, 0.5),
        noise=chooser.between(10, 20),
        slope=chooser.between(0, 2),
    )


def record(samples: NDArray[np.float32], scene: Scene, random: np.random.Generator) -> NDArray[np.float32]:
    """Speech as recorded in `scene`, never beyond full scale: float32 (samples,) at 16 kHz.

    `samples` are float32 (samples,) at 16 kHz with a root mean square of about 0.1.
    """
    if any(part is not None for part in (scene.echo, scene.band, scene.noise)):
        samples = filtered(samples, scene, random)
    gain = 10 ** (scene.gain / 20)
    peak = float(np.abs(samples).max(initial=0.0)) * gain
    return (samples * np.float32(gain * min(1.0, LOUDEST / max(peak, LOUDEST)))).astype(np.float32)


def filtered(samples: NDArray[np.float32], scene: Scene, random: np.random.Generator) -> NDArray[np.float32]:
    """Adds the scene's echo, microphone and noise in one spectrum: the Fourier transforms take most of the time."""
    size = smooth_size(len(samples) + int((scene.echo or 0) * SAMPLE_RATE))
    spectrum = np.fft.rfft(samples, size)  # (size / 2 + 1,) complex64
    if scene.echo is not None:
        spectrum *= np.fft.rfft(room(scene.echo, scene.distance, random), size)
    if scene.band is not None:
        spectrum *= microphone(size, scene.band)
    if scene.noise is not None:
        spectrum += noise(size, scene.slope, random) * np.float32(0.1 * 10 ** (-scene.noise / 20))
    return np.fft.irfft(spectrum, size)[: len(samples)].astype(np.float32, copy=False)


def room(seconds: float, distance: float, random: np.random.Generator) -> NDArray[np.float32]:
    """The impulse response of a room, float32 (samples,): a click, then noise that falls by 60 dB in `seconds` and has
    the share `distance` of the energy (Polack's model of late reverberation).
    """
    count = max(2, int(seconds * SAMPLE_RATE))
    response = random.standard_normal(count, np.float32) * np.exp(np.linspace(0, -6.9, count, dtype=np.float32))
    response[: SAMPLE_RATE // 500] = 0  # no wall is within 2 ms of the microphone
    response *= np.sqrt(np.float32(distance) / max(np.float32(1e-9), np.vdot(response, response)))
    response[0] = np.sqrt(1 - distance)
    return response


def microphone(size: int, hertz: float) -> NDArray[np.float32]:
    """The microphone's gain at each frequency, (size / 2 + 1,): 24 dB less for each octave above `hertz`."""
    return 1 / np.sqrt(1 + (frequencies(size) / np.float32(hertz)) ** 8)


def noise(size: int, slope: float, random: np.random.Generator) -> NDArray[np.complex64]:
    """The spectrum (size / 2 + 1,) of `size` samples of noise with a root mean square of 1 and a power that falls with
    the frequency to the `slope`.
    """
    weights = np.maximum(frequencies(size), np.float32(40.0)) ** np.float32(-slope / 2)  # flat below 40 Hz
    spectrum = random.standard_normal(2 * len(weights), np.float32).view(np.complex64) * weights
    spectrum[0] = 0  # no constant pressure
    return spectrum * np.float32(size / np.sqrt(2 * np.vdot(spectrum, spectrum).real))


def frequencies(size: int) -> NDArray[np.float32]:
    """The frequencies of a spectrum of `size` samples, in Hz: float32 (size / 2 + 1,)."""
    return np.arange(size // 2 + 1, dtype=np.float32) * np.float32(SAMPLE_RATE / size)


def smooth_size(count: int) -> int:
    """A length of at least `count` for which the Fourier transform is quick: 1, 3 or 5 times a power of two."""
    powers = (factor << max(0, (count - 1) // factor).bit_length() for factor in (1, 3, 5))
    return min(max(2, size) for size in powers)

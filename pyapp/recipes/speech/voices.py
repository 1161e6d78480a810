"""Voices of the espeak-ng program (https://github.com/espeak-ng/espeak-ng, GPL-3.0), and speech made with them.

pyapp runs the program and does not link it. Debian and other distributions have a package of that name. The speech that
it makes belongs to its user.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from pyapp.audio import SAMPLE_RATE, read_wav, resample
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import PyappError
from pyapp.recipes.chooser import Chooser

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROGRAM = "espeak-ng"
TIME_LIMIT = 30  # seconds for one sentence, which takes hundredths
ATTEMPTS = 3
EDGE = 0.01  # fraction of the loudest sample at which speech begins and ends

ACCENTS = ("en-gb", "en-us", "en-gb-scotland", "en-gb-x-rp", "en-029")
# Timbres: variants of the formant synthesiser, without robots, whispers and those that change the language.
SEEN = (
    "", "m1", "m2", "m3", "m4", "m7", "m8", "f1", "f2", "f3", "f4", "Andy", "Annie", "Lee", "max", "rob", "adam",
    "david",
)  # fmt: skip
UNSEEN = ("m5", "m6", "f5", "robert", "benjamin", "boris", "aunty", "grandpa")
"""Variants that the model never hears in training."""

CLEAR_ACCENTS, CLEAR = ("en-gb", "en-us"), ("", "m1", "m3", "f2", "f4", "Andy")


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice: `speed` in words per minute, `pitch` 0 to 99 (50 is the voice's default)."""

    accent: str
    variant: str
    speed: int
    pitch: int

    @property
    def name(self) -> str:
        return f"{self.accent}+{self.variant}" if self.variant else self.accent


def choose_clear_voice(chooser: Chooser) -> Voice:
    """One of a few similar voices, for the start of training."""
    speed, pitch = int(chooser.between(130, 180)), int(chooser.between(35, 65))
    return Voice(chooser.choose(CLEAR_ACCENTS), chooser.choose(CLEAR), speed, pitch)


def choose_voice(chooser: Chooser, variants: tuple[str, ...] = SEEN) -> Voice:
    """One of ACCENTS x `variants`, at 110 to 210 words a minute."""
    speed = int(chooser.between(110, 210))
    return Voice(chooser.choose(ACCENTS), chooser.choose(variants), speed, int(chooser.between(20, 80)))


def run(command: list[str], text: str) -> subprocess.CompletedProcess[bytes]:
    """Runs the synthesiser, and again when it does not answer: the machine may have slept meanwhile."""
    for _ in range(ATTEMPTS):
        try:
            return subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIME_LIMIT, check=False
            )
        except FileNotFoundError:
            raise missing_program() from None
        except subprocess.TimeoutExpired:
            continue
    raise PyappError(f"the program {PROGRAM} did not answer within {TIME_LIMIT} s, {ATTEMPTS} times", where=text)


def speak(text: str, voice: Voice) -> NDArray[np.float32]:
    """Speech as mono float32 (samples,) at 16 kHz with a root mean square of 0.1, without silence at its ends.

    Raises PyappError if espeak-ng is missing, fails, or produces no sound.
    """
    command = [PROGRAM, "-v", voice.name, "-s", str(voice.speed), "-p", str(voice.pitch), "--stdout", text]
    done = run(command, text)
    if done.returncode or not done.stdout:
        message = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise PyappError(
            f"{PROGRAM} cannot speak with the voice {voice.name}: {message}", hint="Take espeak-ng 1.51 or newer"
        )
    samples, rate = read_wav(done.stdout)
    found = trim(resample(samples[:, 0], rate, SAMPLE_RATE))
    if not len(found):
        raise PyappError(f"{PROGRAM} said nothing with the voice {voice.name}", where=text)
    return found * np.float32(0.1 / np.sqrt(np.mean(found.astype(np.float64) ** 2)))


def trim(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Removes near silence at both ends."""
    loud = np.flatnonzero(np.abs(samples) > EDGE * np.abs(samples).max(initial=0.0))
    return samples[loud[0] : loud[-1] + 1] if len(loud) else samples[:0]


def check_program() -> None:
    """Raises PyappError when espeak-ng is not installed: before the work rather than during it."""
    if shutil.which(PROGRAM) is None:
        raise missing_program()


def missing_program() -> PyappError:
    return PyappError(
        f"the program {PROGRAM} is missing: it speaks the sentences to train on",
        hint=f"Install it, for instance with `apt install {PROGRAM}`",
    )

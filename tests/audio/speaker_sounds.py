"""What the tests of speech detection and of speakers, and their golden file, share; made the same way everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.audio.sounds import noise, place, sweep, syllable

# The settings of Silero's rule, in seconds, by case.
CASES: list[dict[str, Any]] = [
    {}, {}, {"threshold": 0.3}, {"threshold": 0.1}, {"neg_threshold": 0.45}, {"min_speech": 0.0}, {"min_speech": 1.0},
    {"min_silence": 0.5}, {"min_silence": 0.0}, {"speech_pad": 0.0}, {"speech_pad": 0.2}, {"max_speech": 2.0},
    {"max_speech": 5.0, "min_silence": 0.4}, {"max_speech": 3.0, "min_silence": 2.0}, {"max_speech": 1.0}, {},
]  # fmt: skip

SOUNDS = {
    "syllables": lambda: place(0.6, (0.0, syllable(0.3)), (0.3, syllable(0.3, 210.0))) + noise(0.6, 1e-4),
    "loud": lambda: sweep(0.5) * np.float32(32768),
    "silence": lambda: np.zeros(2000, np.float32),
    "one frame": lambda: noise(0.025),
}


def case_of(seed: int) -> tuple[np.ndarray, int]:
    """(probabilities float32 (chunks,), samples): a walk that stays high and low for a while."""
    generator = np.random.default_rng(seed)
    chunks = 600 if seed < len(CASES) - 1 else 3
    steps = generator.standard_normal(chunks) * 0.9
    walk = np.zeros(chunks)
    for at in range(1, chunks):
        walk[at] = 0.93 * walk[at - 1] + steps[at]
    return (1 / (1 + np.exp(-1.5 * walk))).astype(np.float32), chunks * 512 - int(generator.integers(0, 512))


def vectors_of(seed: int) -> np.ndarray:
    """float32 (n, 16): vectors around a few directions."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((3 + seed, 16))
    chosen = generator.integers(0, len(centres), 40 + 10 * seed)
    return (centres[chosen] + 0.4 * generator.standard_normal((len(chosen), 16))).astype(np.float32)

"""Sounds that tests and golden files share, made the same way everywhere: float32 at 16 kHz."""

from __future__ import annotations

import numpy as np

RATE = 16_000


def noise(seconds: float, level: float = 0.1, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(round(seconds * RATE)) * level).astype(np.float32)


def silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * RATE), np.float32)


def clicks(seconds: float = 2.0) -> np.ndarray:
    sound = silence(seconds)
    sound[0], sound[1601::5003], sound[-1] = 0.5, -0.9, 1.0
    return sound


def sweep(seconds: float = 2.0) -> np.ndarray:
    """A tone from 50 Hz to 7.9 kHz that grows louder."""
    time = np.arange(round(seconds * RATE), dtype=np.float64) / RATE
    phase = 2 * np.pi * (50 * time + (7900 - 50) / (2 * seconds) * time**2)
    return (0.8 * np.sin(phase) * time / seconds).astype(np.float32)


def syllable(seconds: float, pitch: float = 120.0, level: float = 0.2) -> np.ndarray:
    """Something like a vowel: harmonics of a pitch under three formants, rising and falling softly."""
    time = np.arange(round(seconds * RATE), dtype=np.float64) / RATE
    sound = np.zeros_like(time)
    for harmonic in range(1, round(4000 / pitch)):
        hertz = harmonic * pitch
        gain = sum(np.exp(-(((hertz - centre) / 200) ** 2)) for centre in (600, 1200, 2500)) + 0.01
        sound += gain * np.sin(2 * np.pi * hertz * time + harmonic)
    sound *= np.sin(np.pi * np.arange(len(time)) / len(time)) ** 0.5
    return (sound / np.abs(sound).max() * level).astype(np.float32)


def place(length: float, *parts: tuple[float, np.ndarray]) -> np.ndarray:
    """Silence of `length` seconds with sounds put at their times."""
    sound = silence(length)
    for start, part in parts:
        first = round(start * RATE)
        sound[first : first + len(part)] += part
    return sound


MEL_SOUNDS = {
    "noise": lambda: noise(2.0),
    "silence": lambda: silence(1.0),
    "clicks": clicks,
    "sweep": sweep,
    "syllables": lambda: place(2.0, (0.2, syllable(0.4)), (1.0, syllable(0.6, 210.0))) + noise(2.0, 1e-4),
    "odd_length": lambda: noise(1.03127),
}


def babble() -> np.ndarray:
    """Sound with the rhythm of speech, and no words: (samples,)."""
    draw = np.random.default_rng(5)
    parts = [(0.3 + 0.32 * number, syllable(0.3, draw.uniform(90, 240))) for number in range(12)]
    return place(4.5, *parts) + noise(4.5, 0.004)

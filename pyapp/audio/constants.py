"""Constants of the package."""

from __future__ import annotations

SAMPLE_RATE = 16_000  # Hz: the sample rate of Whisper
SAMPLES_AT_ONCE = 1 << 18  # of all channels, while a file is read

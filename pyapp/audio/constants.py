"""Constants of the package."""

from __future__ import annotations

SAMPLE_RATE = 16_000  # Hz: the sample rate of Whisper
LARGEST_SAMPLE = 1e12  # full scale is 1, or 2^31 where a file has whole numbers as floats; the power of more overflows
SAMPLES_AT_ONCE = 1 << 18  # of all channels, while a file is read

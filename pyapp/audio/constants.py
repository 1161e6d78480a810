"""Numbers that the whole package shares."""

from __future__ import annotations

SAMPLE_RATE = 16_000  # Hz: what Whisper hears
SAMPLES_AT_ONCE = 1 << 18  # of all channels, while a file is read

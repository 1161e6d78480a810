"""What the configurations of codecs of sound have in common."""

from __future__ import annotations

from typing import Any

from .config import require

LARGEST, MOST_NUMBERS = 1 << 13, 16  # channels, taps and steps of a convolution; ratios of a codec
MOST_CODEBOOKS, MOST_ENTRIES = 256, 1 << 20
RATES = (100, 1_536_000)  # Hz


def check_numbers(config: Any, *names: str) -> None:
    """ModelError for fields that are not a few whole numbers from 1 to LARGEST."""
    for name in names:
        values = getattr(config, name)
        require(0 < len(values) <= MOST_NUMBERS, f"{name} has {len(values)} entries")
        fits = all(type(value) is int and 0 < value <= LARGEST for value in values)
        require(fits, f"{name} is {values!r:.60}, expected whole numbers up to {LARGEST}")


def check_sizes(config: Any, *names: str) -> None:
    """ModelError for fields above LARGEST."""
    for name in names:
        require(getattr(config, name) <= LARGEST, f"{name} is {getattr(config, name)}, expected at most {LARGEST}")


def check_codec(config: Any) -> None:
    """ModelError for the rate of a codec and the entries of its codebooks."""
    size, (slowest, fastest) = config.codebook_size, RATES
    require(1 < size <= MOST_ENTRIES and size & (size - 1) == 0, f"codebook_size is {size}, expected a power of 2")
    require(slowest <= config.sampling_rate <= fastest, f"sampling_rate is {config.sampling_rate} Hz")

"""The fields of HiFi-GAN (pyapp.nn.audio.hifi_gan) in configurations."""

from __future__ import annotations

from typing import Any

from .config import require

LARGEST = 1 << 13  # channels, taps and steps of a convolution
MOST_LAYERS = 64
# Lists of equal lengths.
PAIRS = (("upsample_rates", "upsample_kernel_sizes"), ("resblock_kernel_sizes", "resblock_dilation_sizes"))


def check_hifi_gan(config: Any) -> None:
    """ModelError for values that cannot be."""
    lists = {name: getattr(config, name) for pair in PAIRS for name in pair if name != "resblock_dilation_sizes"}
    dilations = config.resblock_dilation_sizes
    require(len(dilations) <= MOST_LAYERS, f"resblock_dilation_sizes has {len(dilations)} entries")
    lists |= {f"resblock_dilation_sizes[{i}]": entry for i, entry in enumerate(dilations)}
    for name, values in lists.items():
        require(_whole(values), f"{name} is {values!r:.60}, expected whole numbers up to {LARGEST}")
    for one, other in PAIRS:
        counts = len(getattr(config, one)), len(getattr(config, other))
        require(counts[0] == counts[1], f"{one} has {counts[0]} entries, {other} {counts[1]}")
    for rate, taps in zip(config.upsample_rates, config.upsample_kernel_sizes, strict=True):
        fits = taps >= rate and (taps - rate) % 2 == 0
        require(fits, f"an upsampling by {rate} has {taps} taps, expected as many and an even number more")
    sizes = config.resblock_kernel_sizes
    require(all(taps % 2 for taps in sizes), f"resblock_kernel_sizes is {sizes!r:.60}, expected odd numbers of taps")
    width, halves = config.upsample_initial_channel, 1 << len(config.upsample_rates)
    require(width <= LARGEST, f"upsample_initial_channel is {width}, expected at most {LARGEST}")
    require(width % halves == 0, f"upsample_initial_channel is {width}, expected a multiple of {halves}")


def _whole(values: Any) -> bool:
    """Whether these are a few whole numbers of a plausible size."""
    return (
        isinstance(values, list | tuple)
        and 0 < len(values) <= MOST_LAYERS
        and all(type(value) is int and 0 < value <= LARGEST for value in values)
    )

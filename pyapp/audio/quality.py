"""Detect problems of a recording while it is read: silence, clipping, a DC offset, channels that cancel out; and the
filter that removes the offset.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

from pyapp.engine.lazy import np
from pyapp.events import Notice

if TYPE_CHECKING:
    from numpy.typing import NDArray

SILENT = 10 ** (-65 / 20)  # largest deviation from the middle; activity.py never treats less as speech
FULL_SCALE = 0.99
CLIPPED_SHARE = 0.001  # fraction of samples at full scale: unclipped speech has far fewer
OFFSET = 0.01  # of full scale
CANCELLED = 0.04  # of the power of channels: the mean of channels that have nothing in common has 1 / channels of it
ADAPT_SECONDS = 10.0  # the offset of a sound card drifts slower


class Quality:
    """Collects statistics of the samples as they arrive, before they are changed."""

    def __init__(self) -> None:
        self._count = self._loud = 0
        self._sum = 0.0
        self._low, self._high = float("inf"), float("-inf")
        self._power = self._left = 0.0  # of the channels, and of what is left of it in their mean

    def add(self, block: NDArray[np.float32]) -> None:
        """float32 of any shape."""
        if not block.size:
            return
        low, high = float(block.min()), float(block.max())
        self._low, self._high = min(self._low, low), max(self._high, high)
        self._count += block.size
        self._sum += float(block.sum(dtype=np.float64))
        if max(-low, high) >= FULL_SCALE:
            self._loud += int(np.count_nonzero(np.abs(block) >= FULL_SCALE))

    def add_mixed(self, block: NDArray[np.float32], mixed: NDArray[np.float32]) -> None:
        """A block (frames, channels) of several channels, and their mean (frames,)."""
        channels = block.shape[1]
        self._power += float(np.vdot(block, block)) / channels
        self._left += float(np.vdot(mixed, mixed)) * channels

    def notices(self, name: str) -> list[Notice]:
        """The warnings about the recording called `name`."""
        if not self._count:
            return []
        if (self._high - self._low) / 2 < SILENT:
            hint = "Check the microphone, its volume, and that this is the right file"
            return [Notice("the recording is silent", name, hint)]
        found = []
        if self._loud / self._count > CLIPPED_SHARE:
            share = 100 * self._loud / self._count
            hint = "Words may be wrong where it distorts: record at a lower level"
            found.append(Notice(f"the recording is clipped: {share:.1f} % of it is at full scale", name, hint))
        if self._left < CANCELLED * self._power:
            hint = "One of them is inverted: give a single channel, or invert it again"
            found.append(Notice("the channels of the recording cancel one another out", name, hint))
        mean = self._sum / self._count
        if abs(mean) > OFFSET:
            hint = "It was removed; another cable or sound card may avoid it"
            found.append(Notice(f"the recording has a DC offset of {100 * mean:.0f} % of full scale", name, hint))
        return found


class OffsetFilter:
    """Removes the DC offset of a recording that arrives in blocks: the mean of the first block, then a slow average of
    the blocks' means. From a recording of one block exactly the mean is removed.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._offset: float | None = None

    def process(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 (samples,) to float32 (samples,)."""
        if not len(block):
            return block
        mean = float(block.mean(dtype=np.float64))
        before = mean if self._offset is None else self._offset
        self._offset = before + (mean - before) * (1 - exp(-len(block) / (ADAPT_SECONDS * self._rate)))
        # no step between blocks
        return block - np.linspace(before, self._offset, len(block), dtype=np.float32)

"""What is wrong with the sound of a recording, told while it is read: silence, clipping, a DC offset (and the filter
that takes it away)."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

from pyapp.engine.lazy import np
from pyapp.events import Notice

if TYPE_CHECKING:
    from numpy.typing import NDArray

SILENT = 10 ** (-65 / 20)  # largest deviation from the middle; what activity.py never takes for speech
FULL_SCALE = 0.99
CLIPPED_SHARE = 0.001  # of all samples at full scale: peaks of speech that was never clipped are far rarer
OFFSET = 0.01  # of full scale
ADAPT_SECONDS = 10.0  # the offset of a sound card drifts slower


class Quality:
    """Watches the samples as they come, before they are changed."""

    def __init__(self) -> None:
        self._count = self._loud = 0
        self._sum = 0.0
        self._low, self._high = float("inf"), float("-inf")

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

    def notices(self, name: str) -> list[Notice]:
        """What a person should know of the recording called `name`."""
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
        mean = self._sum / self._count
        if abs(mean) > OFFSET:
            hint = "It was taken away; another cable or sound card would not have it"
            found.append(Notice(f"the recording has a DC offset of {100 * mean:.0f} % of full scale", name, hint))
        return found


class OffsetFilter:
    """Takes the DC offset away from a recording that comes in blocks: the mean of the first one, then what follows the
    blocks' means slowly. A recording of one block loses exactly its mean."""

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
        # no step where one block follows the other
        return block - np.linspace(before, self._offset, len(block), dtype=np.float32)

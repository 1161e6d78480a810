"""What language models make of videos: vectors of each few frames, with the positions of their times (Wang et al. 2024,
arXiv 2409.12191; Xu et al. 2025, arXiv 2503.20215), or after texts that tell them (Bai et al. 2025, arXiv 2511.21631).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyapp.dataclass import dataclass

from ...engine.lazy import np


@dataclass(frozen=True)
class Watching:
    """What of a model sees videos. placeholder: the token that stands for one in a chat template; part: the one of each
    of its vectors; around: the tokens before and after what is seen at once. frames: of a vector's patch. rate: the
    rotary positions of a second; None: the vectors of each few frames have one more. told: their times stand in the
    text, where they are pictures by themselves. processor: makes what prepares frames of what prepares pictures, for
    files that do not say it.
    """

    placeholder: str
    part: str
    around: tuple[str, str]
    frames: int
    rate: float | None = None
    told: bool = False
    processor: Callable[[Any], Any] = lambda found: found

    sees = "video"

    def times(self, count: int, fps: float) -> list[int]:
        """The positions in time of `count` times so many frames, of `fps` frames a second."""
        if self.told:
            return [0]
        if self.rate is None:
            return list(range(count))
        seconds = np.arange(count).astype("float32") * np.float32(self.frames / fps)
        found: list[int] = (seconds * np.float32(self.rate)).astype("int64").tolist()
        return found

    def text(self, count: int, vectors: int, frames: int, fps: float) -> str:
        """What stands in a text for `count` times so many frames of `vectors` vectors each, of a video of `frames`."""
        if not self.told:
            return self.part * (count * vectors)
        parts = []
        for first in range(0, frames, self.frames):
            last = min(first + self.frames, frames) - 1
            parts.append(f"<{(first / fps + last / fps) / 2:.1f} seconds>" + (self.part * vectors).join(self.around))
        return "".join(parts)

"""The fields of config.json that models of videos share."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass

from .config import require
from .pictures_config import PatchConfig

MOST_FRAMES = 1 << 10
MOST_TUBES = 1 << 17
LARGEST_TABLE = 1 << 28  # numbers of the positions of all tubes


@dataclass(frozen=True, kw_only=True)
class VideoConfig(PatchConfig):
    """The fields of a Vision Transformer over boxes of pixels of `tubelet` frames."""

    num_frames: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_frames <= MOST_FRAMES, f"num_frames is {self.num_frames:,}, expected at most {MOST_FRAMES:,}")
        depth: Any = self.tubelet
        plausible = type(depth) is int and 1 <= depth <= self.num_frames
        require(plausible, f"tubelet_size is {depth!r:.60}, of {self.num_frames} frames")
        require(self.tubes <= MOST_TUBES, f"{self.tubes:,} parts of a video are too many")
        require(self.tubes * self.hidden_size <= LARGEST_TABLE, f"positions of {self.tubes:,} parts are too large")

    @property
    def tubelet(self) -> int:
        """The frames of a box."""
        return 1

    @property
    def tubes(self) -> int:
        """The boxes of a video."""
        return self.num_frames // self.tubelet * self.patches

"""SigLIP's Vision Transformer for pictures of any size (Laurençon et al. 2024, arXiv 2405.02246)."""

from __future__ import annotations

from math import ceil
from typing import Any

from ...engine import Tensor, ops
from ...engine.lazy import np
from .towers import PositionedPatches, VisionTower
from .vision import as_sequence, check_pictures


class AnyPatches(PositionedPatches):
    """The patches of a picture of any size, each with the position of a square's patch at the same part of it."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, class_token=False)
        self.side = config.grid[0]

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, T, D)."""
        x = self.patch_embedding(pixel_values)  # (B, D, rows, columns)
        down, across = (self._places(int(count)) for count in x.shape[2:])
        places = (down[:, None] * self.side + across[None, :]).reshape(-1).astype("int32")
        return as_sequence(x) + self.position_embedding(ops.tensor(places.tolist(), dtype="int32", device=x.device))

    def _places(self, count: int) -> Any:
        """Which of the square's rows, or columns, each of `count` is, with transformers' rounding."""
        step, single = 1 / self.side, np.float32
        ends = np.asarray([step + i * step for i in range(ceil((1 - step) / step))], single)
        at = np.minimum(np.arange(count, dtype=single) * (single(1) / single(count)), single(1 - 1e-6))
        return np.minimum(np.searchsorted(ends, at, side="right"), self.side - 1)


class AnySizeTower(VisionTower):
    """The Vision Transformer for pictures of any size; what is left of the last patches is not seen. name: what errors
    call it.
    """

    def __init__(self, config: Any, name: str) -> None:
        super().__init__(config, class_token=False)
        self.embeddings, self.name = AnyPatches(config), name

    def states(self, pixel_values: Tensor, count: int | None = None) -> Tensor:
        check_pictures(self.name, pixel_values, self.config.num_channels, least=max(self.config.patch_size))
        found: Tensor = self.encoder(self.embeddings(pixel_values), count)
        return found

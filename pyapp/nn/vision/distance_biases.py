"""Biases of attention by the distances of places in a map, whatever the direction (Graham et al. 2021, arXiv
2104.01136): those of LeViT, and of the networks that took them over.
"""

from __future__ import annotations

from ...engine import Tensor, ops
from ...engine.lazy import np
from ..module import Module
from ..parameter import new_parameter


class DistanceBiases(Module):
    """A bias for each distance, in rows and columns, of a query from a key. `side`: rows of the keys' map; `stride`:
    of the queries' places in it.
    """

    def __init__(self, heads: int, side: int, stride: int = 1) -> None:
        super().__init__()
        self.side, self.stride = side, stride
        self.attention_biases = new_parameter(ops.zeros, heads, side * side)
        self._index: Tensor | None = None  # made at the first use

    def biases(self) -> Tensor:
        """(1, H, T, S)."""
        table, rows = self.attention_biases, np.arange(0, self.side, self.stride)
        if self._index is None or self._index.device is not table.device:
            apart = np.abs(rows[:, None] - np.arange(self.side))  # (rows, side)
            index = apart[:, None, :, None] * self.side + apart[None, :, None, :]  # (rows, rows, side, side)
            self._index = ops.tensor(index.reshape(-1).astype("int64")).to(table.device)
        return table.index_select(1, self._index).reshape(1, -1, len(rows) ** 2, self.side**2)

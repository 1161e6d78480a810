"""The common parts of models that find objects in pictures: heads, and objects of their outputs."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, ops
from .layers.containers import ModuleList
from .layers.linear import Linear
from .module import Module
from .vision import ImageModel


class PredictionHead(Module):
    """Three linear layers with ReLUs between them (DETR, Carion et al. 2020, arXiv 2005.12872)."""

    def __init__(self, width: int, inner: int, outputs: int, count: int = 3) -> None:
        super().__init__()
        sizes = [width, *[inner] * (count - 1), outputs]
        self.layers = ModuleList(Linear(before, after) for before, after in zip(sizes, sizes[1:], strict=False))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., outputs)."""
        for i, layer in enumerate(self.layers):
            x = layer(ops.relu(x) if i else x)
        return x


class Detector(ImageModel):
    """A model whose queries each say the logits of labels and a box. `background`: the last label is that of no object,
    and the probabilities of all add up to 1; else each label has a probability of its own.
    """

    background = True

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        """pixel_values (B, C, H, W) → logits (B, Q, labels) and boxes (B, Q, 4): centre x and y, width and height, as
        parts of the picture's sides.
        """
        raise NotImplementedError

    def objects(self, logits: Tensor, boxes: Tensor, threshold: float) -> list[list[dict[str, Any]]]:
        """The objects of each picture whose probability is above the threshold, the most probable first: `label`,
        `score`, and `box`, [left, top, right, bottom] as parts of the picture's sides.
        """
        names = self.config.labels
        chances = logits.to("float32")
        chances = ops.softmax(chances, 2) if self.background else ops.sigmoid(chances)  # (B, Q, labels)
        found = []
        for rows, places in zip(chances.tolist(), boxes.to("float32").tolist(), strict=True):
            own = []
            for row, (x, y, width, height) in zip(rows, places, strict=True):
                row = row[: len(names)]
                best = max(range(len(row)), key=row.__getitem__)
                corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
                if row[best] > threshold:
                    own.append({"label": names[best], "score": row[best], "box": corners})
            found.append(sorted(own, key=lambda item: -item["score"]))
        return found

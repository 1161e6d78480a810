"""The common parts of models whose queries each have a label and a mask (Cheng et al. 2021, arXiv 2107.06278).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from ...engine import Tensor, ops
from ..layers.containers import ModuleList
from ..layers.linear import Linear

STRIDES = [4, 8, 16, 32]  # of the backbone's maps


class MaskEmbedder(ModuleList):
    """Three linear layers with ReLUs between them, which make a query the vector of its mask."""

    def __init__(self, width: int, features: int) -> None:
        super().__init__(ModuleList([Linear(width, features if last else width)]) for last in (False, False, True))

    def masks(self, x: Tensor, features: Tensor) -> Tensor:
        """x (B, Q, D), features (B, M, H, W) → the logits of masks (B, Q, H, W)."""
        parts = [part for layers in self for part in layers.children()]
        first, second, last = parts
        y = last(ops.relu(second(ops.relu(first(x)))))  # (B, Q, M)
        return (y @ features.flatten(2)).reshape(*y.shape[:2], *features.shape[2:])


def labels_of_places(logits: Tensor, masks: Tensor) -> Tensor:
    """The logits of labels (B, Q, labels + 1), of which the last is that of none, and of masks (B, Q, H, W) → scores
    (B, labels, H, W) of places, from 0: of all queries, how surely they have a label and hold a place.
    """
    labels = ops.softmax(logits, 2)[:, :, :-1]  # (B, Q, labels)
    found = labels.transpose(1, 2) @ ops.sigmoid(masks).flatten(2)
    return found.reshape(*found.shape[:2], *masks.shape[2:])

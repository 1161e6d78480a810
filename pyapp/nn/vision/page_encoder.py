"""What encoders of pages share: they read where each word stands, and some the picture of the page, beside the words.

Boxes (B, T, 4) integers are (left, top, right, bottom) of each token's word, in thousandths of the page's width and
height (Xu et al. 2019, arXiv 1912.13318). Special tokens and padding have boxes of zeros, and so has a text without a
page.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..encoders.encoders import Encoder
from ..layers.embedding import Embedding
from ..module import Module

PAGE = 1000  # the largest number of a box


def add_tables(module: Module, positions: int, place: int, size: int) -> None:
    """Gives a module the tables of places and sizes, under the names that files have. place and size: the features of
    each.
    """
    module.positions = positions
    module.x_position_embeddings = Embedding(positions, place)
    module.y_position_embeddings = Embedding(positions, place)
    module.h_position_embeddings = Embedding(positions, size)
    module.w_position_embeddings = Embedding(positions, size)


def placed(module: Any, boxes: Tensor) -> list[Tensor]:
    """The rows of the tables of `module` for boxes (B, T, 4): left, top, right, bottom, height and width, each (B, T,
    features). Sizes beyond the tables are those at their ends.
    """
    left, top, right, bottom = (boxes.narrow(2, i, 1).squeeze(2) for i in range(4))  # (B, T)
    height, width = ((high - low).clamp(0, module.positions - 1) for low, high in ((top, bottom), (left, right)))
    x, y = module.x_position_embeddings, module.y_position_embeddings
    return [
        x(left), y(top), x(right), y(bottom), module.h_position_embeddings(height), module.w_position_embeddings(width)
    ]  # fmt: skip


class PageEncoder(Encoder):
    """An encoder of the words of a page. `pixels`: (height, width) of the pictures that it reads; None: it reads none.
    `end_box`: the box of the token that ends a text, where the tokenizer's settings do not say it.
    """

    reads_boxes = True
    end_box = (0, 0, 0, 0)
    pixels: tuple[int, int] | None = None

    def boxes_of(self, ids: Tensor, boxes: Tensor | None) -> Tensor:
        """The boxes (B, T, 4), zeros where none are given. ArgumentError for those of another shape."""
        if boxes is None:
            return ops.zeros(*ids.shape, 4, dtype="int32", device=ids.device)
        if boxes.shape != (*ids.shape, 4):
            raise ArgumentError(f"{type(self).__name__}: boxes are {describe(boxes)}, the ids {describe(ids)}")
        return boxes

"""The layers of LayoutLMv2 and LayoutLMv3, whose scores of attention have biases by the distances of words and of parts
of the picture in the text and on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor, no_grad, ops, quant
from ...engine.lazy import np
from ..encoders.encoders import BertLayers, as_bias
from ..layers.linear import Linear
from ..module import Module
from ..positions.relative_positions import distance_buckets
from .page_encoder import PAGE


class PageLayers(BertLayers):
    """The layers, and the biases of distances that all of them add to their scores, times `scale`. `config` has BERT's
    fields and those of the biases.
    """

    def __init__(self, config: Any, scale: float = 1.0, own: Callable[[Any], Module] | None = None) -> None:
        heads = config.num_attention_heads
        super().__init__(config, own)
        self.config, self.scale = config, scale
        relative, spatial = config.has_relative_attention_bias, config.has_spatial_attention_bias
        self.rel_pos_bias = Linear(config.rel_pos_bins, heads, bias=False) if relative else None
        self.rel_pos_x_bias = Linear(config.rel_2d_pos_bins, heads, bias=False) if spatial else None
        self.rel_pos_y_bias = Linear(config.rel_2d_pos_bins, heads, bias=False) if spatial else None

    def on_page(self, x: Tensor, mask: Tensor | None, positions: Tensor, boxes: Tensor) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T), positions (B, T), boxes (B, T, 4) → (B, T, D)."""
        bias = self._bias(positions, boxes)
        return self(x, mask if bias is None else as_bias(mask, bias))

    def _bias(self, positions: Tensor, boxes: Tensor) -> Tensor | None:
        """The biases (B, H, T, T) of the distances of positions and of the words' left and lower edges; None where the
        model has none. As in the authors' program, they are not trained further.
        """
        config, found = self.config, None
        with no_grad():
            if self.rel_pos_bias is not None:
                found = _looked_up(self.rel_pos_bias, positions, config.rel_pos_bins, config.max_rel_pos)
            for layer, edge in ((self.rel_pos_x_bias, 0), (self.rel_pos_y_bias, 3)):
                if layer is not None:
                    edges = boxes.narrow(2, edge, 1).squeeze(2)  # (B, T)
                    more = _looked_up(layer, edges, config.rel_2d_pos_bins, config.max_rel_2d_pos)
                    found = more if found is None else found + more
            return found if found is None or self.scale == 1 else found * self.scale


def _looked_up(layer: Any, places: Tensor, buckets: int, most: int) -> Tensor:
    """The biases (B, H, T, T) of the distances of places (B, T), from the query to the key."""
    # The buckets of all distances from -most to most, from the row of a query at `most` among 2 most + 1 keys.
    known = distance_buckets(1, 2 * most + 1, buckets, most, first=most).reshape(-1)  # (2 most + 1,)
    apart = (places.unsqueeze(1) - places.unsqueeze(2)).clamp(-most, most) + most  # (B, T, T): key - query
    rows = quant.dequantize(layer.weight.detach()).transpose(0, 1).contiguous()  # (buckets, H)
    table = ops.embedding(rows, known.to(places.device))  # (2 most + 1, H)
    return ops.embedding(table, apart).permute(0, 3, 1, 2)


def part_boxes(rows: int, columns: int) -> Any:
    """The boxes (rows columns, 4) int32 of the parts of a picture, one row after the other."""
    down, across = (np.arange(count + 1) * PAGE // count for count in (rows, columns))
    y, x = (index.reshape(-1) for index in np.indices((rows, columns)))
    return np.stack([across[x], down[y], across[x + 1], down[y + 1]], -1).astype(np.int32)

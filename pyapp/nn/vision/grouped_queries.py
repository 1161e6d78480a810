"""Detectors whose queries begin at the most promising places of maps: LW-DETR (Chen et al. 2024, arXiv 2406.03459) and
those like it, which learn with several groups of queries, and find with the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor, ops
from ..layers.containers import ModuleList
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from .detection import PointAttention, PositionedAttention, PredictionHead, sines_of_numbers
from .masks import MaskedAttention

SIDE, EDGE = 0.05, 0.01  # of the box of a place of the first map; places nearer to the border have none


class Joined(Module):
    """Maps brought into one, through blocks of which the outputs of all are kept (C2f of YOLOv8). `filters` makes a
    filter with a norm and an activation, from the channels before and after it and the side of its kernel.
    """

    def __init__(self, config: Any, before: int, filters: Callable[[int, int, int], Module]) -> None:
        super().__init__()
        inner, self.inner = config.inner, config.inner
        self.cv1 = filters(before, 2 * inner, 1)
        self.cv2 = filters((2 + config.c2f_num_blocks) * inner, config.d_model, 1)
        self.m = ModuleList(Module() for _ in range(config.c2f_num_blocks))
        for block in self.m:
            block.cv1, block.cv2 = (filters(inner, inner, 3) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, D, H, W)."""
        x = self.cv1(x)
        found = [x.narrow(1, 0, self.inner), x.narrow(1, self.inner, self.inner)]
        for block in self.m:
            found.append(block.cv2(block.cv1(found[-1])))
        return self.cv2(ops.cat(found, 1))


class DecoderLayer(Module):
    """Queries attend to each other, then to points of the map; a feed-forward part. A norm follows each residual."""

    attention: Callable[[int, int], Module] = MaskedAttention  # of queries to each other

    def __init__(self, config: Any, levels: int) -> None:
        super().__init__()
        width, inner, heads = config.d_model, config.decoder_ffn_dim, config.decoder_cross_attention_heads
        self.self_attn = type(self).attention(width, config.decoder_self_attention_heads)
        self.cross_attn = PointAttention(width, heads, levels, config.decoder_n_points)
        self.linear1, self.linear2 = Linear(width, inner), Linear(inner, width)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(width) for _ in range(3))
        self.activation = activation_named(config.decoder_activation_function)

    def mixed(self, x: Tensor, places: Tensor) -> Tensor:
        """x (B, Q, D) at places (B, Q, D) → x and what queries find in each other (B, Q, D)."""
        found: Tensor = self.self_attn(x + places, x + places, x)
        return x + found

    def forward(self, x: Tensor, places: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """x (B, Q, D) at places (B, Q, D) with boxes (B, Q, 4), source (B, S, D) of maps of `sizes` → (B, Q, D)."""
        x = self.norm1(self.mixed(x, places))
        x = self.norm2(x + self.cross_attn.in_boxes(x + places, boxes, source, sizes))
        return self.norm3(x + self.linear2(self.activation(self.linear1(x))))


class ProjectedDecoderLayer(DecoderLayer):
    """The same with a projection for each of queries, keys and values."""

    attention = PositionedAttention

    def mixed(self, x: Tensor, places: Tensor) -> Tensor:
        found: Tensor = self.self_attn(x, places, x)
        return found


def refined(boxes: Tensor, steps: Tensor) -> Tensor:
    """Boxes (B or 1, Q, 4), centre, width and height, moved by steps (B or 1, Q, 4) in widths and heights, and made so
    many times larger as the exponentials of steps → (B, Q, 4).
    """
    sides = boxes[..., 2:]
    return ops.cat([steps[..., :2] * sides + boxes[..., :2], steps[..., 2:].exp() * sides], -1)


class Transformer(Module):
    """The heads that find promising places, and the decoder. Of the groups of queries only the first is kept."""

    def __init__(self, config: Any, levels: int = 1, layer: type[DecoderLayer] = DecoderLayer) -> None:
        super().__init__()
        width, labels = config.d_model, len(config.labels)
        self.count = config.num_queries
        self.decoder = Module()
        self.decoder.layers = ModuleList(layer(config, levels) for _ in range(config.decoder_layers))
        self.decoder.norm = LayerNorm(width)
        self.decoder.ref_point_head = PredictionHead(2 * width, width, width, 2)
        self.enc_output = ModuleList([Linear(width, width)])
        self.enc_output_norm = ModuleList([LayerNorm(width)])
        self.enc_out_bbox_embed = ModuleList([PredictionHead(width, width, 4)])
        self.enc_out_class_embed = ModuleList([Linear(width, labels)])

    def promising(self, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """The boxes (B, Q, 4) of the most promising places of source (B, S, D), maps of `sizes`."""
        boxes, inside = _boxes_of_places(sizes, source)
        x = self.enc_output_norm[0](self.enc_output[0](source * inside.to(source.dtype)))
        scores = self.enc_out_class_embed[0](x).amax(2)  # (B, S)
        scores = ops.where(inside.squeeze(2), scores, float("-inf"))
        best = ops.topk(scores, self.count, 1)[1].unsqueeze(2)  # (B, Q, 1)
        found = refined(boxes, self.enc_out_bbox_embed[0](x))
        return ops.gather(found, 1, best.expand(*best.shape[:2], 4)).detach()

    def forward(
        self, source: Tensor, sizes: list[tuple[int, int]], queries: Tensor, steps: Tensor
    ) -> tuple[Tensor, Tensor]:
        """source (B, S, D) of maps of `sizes`, queries (1, Q, D) with steps (1, Q, 4) from the promising boxes → what
        they have found (B, Q, D), and their boxes (B, Q, 4).
        """
        boxes = refined(self.promising(source, sizes), steps.expand(source.shape[0], *steps.shape[1:]))
        waves = sines_of_numbers(boxes[..., [1, 0, 2, 3]], source.shape[2] // 2).flatten(2)  # (B, Q, 2 * D)
        places = self.decoder.ref_point_head(waves)
        x = queries.expand(source.shape[0], *queries.shape[1:])
        for layer in self.decoder.layers:
            x = layer(x, places, boxes, source, sizes)
        return self.decoder.norm(x), boxes


def _boxes_of_places(sizes: list[tuple[int, int]], like: Tensor) -> tuple[Tensor, Tensor]:
    """The boxes (1, S, 4) of the places of maps of `sizes`, zeros for those at a border, and which are not there,
    bool (1, S, 1).
    """
    found, known = [], []
    for level, (rows, columns) in enumerate(sizes):
        side = SIDE * 2.0**level
        for row in range(rows):
            for column in range(columns):
                x, y = (column + 0.5) / columns, (row + 0.5) / rows
                inside = EDGE < min(x, y, side) and max(x, y, side) < 1 - EDGE
                found.append([x, y, side, side] if inside else [0.0] * 4)
                known.append([inside])
    return ops.tensor([found], device=like.device), ops.tensor([known], device=like.device)

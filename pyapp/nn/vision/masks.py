"""The common parts of models whose queries each have a label and a mask (Cheng et al. 2021, arXiv 2107.06278).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, no_grad, ops
from ..encoders.encoders import attend
from ..layers.channel_normalization import GroupNorm
from ..layers.containers import ModuleList, Sequential
from ..layers.convolution import Conv2d
from ..layers.linear import Linear
from ..module import Module
from ..parameter import new_parameter
from .detection import PointsLayer, centres_of_places, sines_of_places
from .vision import as_map, as_sequence
from .windows import WindowMaps

STRIDES = [4, 8, 16, 32]  # of the backbone's maps
LEVELS, POINTS = 3, 4  # maps that the queries read, and points of each map that a place reads
GROUPS = 32  # of norms


class MaskEmbedder(ModuleList):
    """Three linear layers with ReLUs between them, which make a query the vector of its mask."""

    def __init__(self, width: int, features: int) -> None:
        super().__init__(ModuleList([Linear(width, features if last else width)]) for last in (False, False, True))

    def masks(self, x: Tensor, features: Tensor) -> Tensor:
        """x (B, Q, D), features (B, M, H, W) → the logits of masks (B, Q, H, W)."""
        parts = [part for layers in self for part in layers.children()]
        first, second, last = parts
        y = last(ops.relu(second(ops.relu(first(x)))))  # (B, Q, M)
        return (y @ features.to(y.dtype).flatten(2)).reshape(*y.shape[:2], *features.shape[2:])


def labels_of_places(logits: Tensor, masks: Tensor) -> Tensor:
    """The logits of labels (B, Q, labels + 1), of which the last is that of none, and of masks (B, Q, H, W) → scores
    (B, labels, H, W) of places, from 0: of all queries, how surely they have a label and hold a place.
    """
    labels = ops.softmax(logits, 2)[:, :, :-1]  # (B, Q, labels)
    found = labels.transpose(1, 2) @ ops.sigmoid(masks).flatten(2)
    return found.reshape(*found.shape[:2], *masks.shape[2:])


class PixelDecoder(Module):
    """The maps of a backbone, of `widths`, in one width, whose places attend to one another, and the features of a
    finer map.
    """

    def __init__(
        self, widths: list[int], width: int, features: int, layers: int, heads: int, inner: int, epsilon: float = 1e-5
    ) -> None:
        super().__init__()
        self.level_embed = new_parameter(ops.zeros, LEVELS, width)
        self.input_projections = ModuleList(
            Sequential(Conv2d(before, width, 1), GroupNorm(GROUPS, width)) for before in widths[: -LEVELS - 1 : -1]
        )
        self.encoder = Module()
        self.encoder.layers = ModuleList(
            PointsLayer(width, heads, LEVELS, POINTS, inner, "relu", epsilon) for _ in range(layers)
        )
        self.mask_projection = Conv2d(width, features, 1)
        self.adapter_1 = Sequential(Conv2d(widths[0], width, 1, bias=False), GroupNorm(GROUPS, width))
        self.layer_1 = Sequential(Conv2d(width, width, 3, padding=1, bias=False), GroupNorm(GROUPS, width))

    def forward(self, maps: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """maps (B, D, H, W) of the stages → the last three (B, C, H, W), the coarsest first, and the features (B, M,
        H', W') of the finest.
        """
        own = [layer(x) for layer, x in zip(self.input_projections, maps[::-1], strict=False)]
        sizes = [(int(x.shape[2]), int(x.shape[3])) for x in own]
        waves = [
            sines_of_places(*size, int(own[0].shape[1]), own[0].device) + self.level_embed[i]
            for i, size in enumerate(sizes)
        ]
        x, places = ops.cat([as_sequence(x) for x in own], 1), ops.cat(waves, 1)
        centres = centres_of_places(sizes, x.device)
        for layer in self.encoder.layers:
            x = layer(x, places, centres, sizes)
        found, first = [], 0
        for rows, columns in sizes:
            found.append(as_map(x.narrow(1, first, rows * columns).to(own[0].dtype), rows, columns))
            first += rows * columns
        fine = self.adapter_1(maps[0])
        fine = fine + ops.interpolate(found[-1], size=tuple(fine.shape[2:]), mode="bilinear", align_corners=False)
        return found, self.mask_projection(ops.relu(self.layer_1(fine)))


class PixelLevel(Module):
    """A Swin, and what makes maps of one width of its own. The arguments after the Swin's configuration are
    PixelDecoder's.
    """

    def __init__(self, config: Any, *sizes: Any) -> None:
        super().__init__()
        widths = [config.embed_dim << i for i in range(len(config.depths))]
        self.least = config.patch_size[0] << (len(widths) - 1)  # pixels of the smallest side of a picture
        self.encoder = WindowMaps(config)
        self.decoder = PixelDecoder(widths, *sizes)

    def forward(self, pixel_values: Tensor) -> tuple[list[Tensor], Tensor]:
        """pixel_values (B, 3, H, W) → as PixelDecoder's."""
        found: tuple[list[Tensor], Tensor] = self.decoder(self.encoder(pixel_values))
        return found


def as_sources(maps: list[Tensor], levels: Tensor) -> list[tuple[Tensor, Tensor, tuple[int, int]]]:
    """maps (B, D, H, W) and a vector of each one (L, D) → what queries read of each: its places (B, S, D), the waves
    (1, S, D) that say where they are, and its size (H, W).
    """
    found = []
    for i, x in enumerate(maps):
        size = int(x.shape[2]), int(x.shape[3])
        found.append((as_sequence(x) + levels[i], sines_of_places(*size, int(levels.shape[1]), x.device), size))
    return found


class MaskedAttention(Module):
    """Attention of queries to the places that a mask shows; the three projections are one matrix."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = new_parameter(ops.zeros, 3 * width, width)
        self.in_proj_bias = new_parameter(ops.zeros, 3 * width)
        self.out_proj = Linear(width, width)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """q (B, Q, D), k and v (B, S, D), mask (B, 1, Q, S) bool, None: all are shown → (B, Q, D)."""
        weights, biases = ops.chunk(self.in_proj_weight, 3), ops.chunk(self.in_proj_bias, 3)
        parts = [
            ops.linear(x, weight, bias).to(q.dtype).reshape(*x.shape[:2], self.heads, -1)
            for x, weight, bias in zip((q, k, v), weights, biases, strict=True)
        ]
        return self.out_proj(attend(parts[0], parts[1], parts[2], mask))


def shown_places(masks: Tensor, size: tuple[int, int]) -> Tensor:
    """The logits of masks (B, Q, H, W) → what each query sees of a map's places (B, 1, Q, S) bool: all, if its mask has
    none.
    """
    with no_grad():
        small = ops.interpolate(masks.detach(), size=size, mode="bilinear", align_corners=False)
        inside = (small >= 0).flatten(2)  # (B, Q, S)
        none = inside.to("int32").sum(2, keepdim=True) == 0
        return (inside | none).unsqueeze(1)

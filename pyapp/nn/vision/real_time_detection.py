"""The common parts of RT-DETR (Zhao et al. 2023, arXiv 2304.08069) and its kin: an encoder that joins maps of several
sizes, and the choice of the most promising places as queries.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ...engine import Device, Tensor, ops
from ...engine.lazy import np
from ...engine.user_errors import describe
from ...errors import InputError
from ..layers.channel_normalization import BatchNorm2d
from ..layers.containers import ModuleList, Sequential
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from .detection import PlacesLayer, PositionedAttention, PredictionHead, boxes_of_places
from .vision import as_map, as_sequence, freeze_norms


class Filter(Module):
    """A filter, the norm of batches, an activation (None: none)."""

    def __init__(
        self, config: Any, before: int, width: int, kernel: int, stride: int, activation: str | None, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = Conv2d(before, width, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
        self.norm = BatchNorm2d(width, config.batch_norm_eps)
        self.activation = None if activation is None else activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        x = self.norm(self.conv(x))
        return x if self.activation is None else self.activation(x)


class Pair(Module):
    """The activation of the sum of a filter of 3 x 3 and one of 1 x 1 (RepVGG, Ding et al. 2021, arXiv 2101.03697)."""

    def __init__(self, config: Any, width: int) -> None:
        super().__init__()
        self.conv1 = Filter(config, width, width, 3, 1, None)
        self.conv2 = Filter(config, width, width, 1, 1, None)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.activation(self.conv1(x) + self.conv2(x))


class PartialPairs(Module):
    """Pairs of filters, and a path around them (CSPNet, Wang et al. 2019, arXiv 1911.11929)."""

    def __init__(self, config: Any, before: int, inner: int, width: int, pairs: int) -> None:
        super().__init__()
        kind = config.activation_function
        self.conv1 = Filter(config, before, inner, 1, 1, kind)
        self.conv2 = Filter(config, before, inner, 1, 1, kind)
        self.bottlenecks = Sequential(*(Pair(config, inner) for _ in range(pairs)))
        self.conv3 = Filter(config, inner, width, 1, 1, kind) if inner != width else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, before, H, W) → (B, width, H, W)."""
        x = self.bottlenecks(self.conv1(x)) + self.conv2(x)
        return x if self.conv3 is None else self.conv3(x)


def waves_of_places(rows: int, columns: int, width: int, slowest: float, device: Device) -> Tensor:
    """The positions of the places of a map (1, rows * columns, width): sines and cosines of the row, then those of the
    column.
    """
    speeds = slowest ** -(np.arange(width // 4) / (width // 4))
    row, column = np.divmod(np.arange(rows * columns), columns)
    down, along = row[:, None] * speeds, column[:, None] * speeds
    waves = np.concatenate([np.sin(down), np.cos(down), np.sin(along), np.cos(along)], 1)
    return ops.tensor(waves.astype("float32"), device=device).unsqueeze(0)


class PlacesOfMap(Module):
    """Layers in which the places of one map attend to each other."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.slowest = config.positional_encoding_temperature
        self.layers = ModuleList(
            PlacesLayer(
                config.encoder_hidden_dim, config.encoder_attention_heads, config.encoder_ffn_dim,
                config.encoder_activation_function, epsilon=config.layer_norm_eps,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        rows, columns = int(x.shape[2]), int(x.shape[3])
        places = waves_of_places(rows, columns, int(x.shape[1]), self.slowest, x.device)
        x = as_sequence(x)
        for layer in self.layers:
            x = layer(x, places)
        return as_map(x, rows, columns)


class HybridEncoder(Module):
    """Attention within the coarsest map; then the maps are joined from coarse to fine, and from fine to coarse.

    Each of these makes a part: `joint` the one that makes one map (B, C, H, W) of two (B, 2 * C, H, W), `halving` the
    one that halves a map's sides. lateral: the activation of the filters before a map is enlarged.
    """

    def __init__(
        self, config: Any, joint: Callable[[], Module], halving: Callable[[], Module], lateral: str | None
    ) -> None:
        super().__init__()
        width, joints = config.encoder_hidden_dim, len(config.stages) - 1
        self.numbers = config.encode_proj_layers if config.encoder_layers else ()
        self.encoder = ModuleList(PlacesOfMap(config) for _ in config.encode_proj_layers)
        self.lateral_convs = ModuleList(Filter(config, width, width, 1, 1, lateral) for _ in range(joints))
        self.fpn_blocks = ModuleList(joint() for _ in range(joints))
        self.downsample_convs = ModuleList(halving() for _ in range(joints))
        self.pan_blocks = ModuleList(joint() for _ in range(joints))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """maps (B, C, H, W) each, the finest first → the same shapes. InputError unless each has half the sides of the
        one before it.
        """
        maps = list(maps)
        sides = [tuple(x.shape[2:]) for x in maps]
        if any(finer != (2 * coarser[0], 2 * coarser[1]) for finer, coarser in pairwise(sides)):
            shown = ", ".join(f"{height} x {width}" for height, width in sides)
            raise InputError(
                f"the maps of the pictures are {shown}, and each must have half the sides of the one before: "
                "use the image processor of the model"
            )
        for number, layers in zip(self.numbers, self.encoder, strict=False):
            maps[number] = layers(maps[number])
        found = [maps[-1]]
        for i, (lateral, joint) in enumerate(zip(self.lateral_convs, self.fpn_blocks, strict=True)):
            found[0] = lateral(found[0])
            finer = ops.interpolate(found[0], scale_factor=2.0, mode="nearest")
            found.insert(0, joint(ops.cat([finer, maps[-2 - i]], 1)))
        joined = found[:1]
        for i, (halve, joint) in enumerate(zip(self.downsample_convs, self.pan_blocks, strict=True)):
            joined.append(joint(ops.cat([halve(joined[-1]), found[i + 1]], 1)))
        return joined


class LookingLayer(Module):
    """A layer of the decoder: queries attend to each other, then `look` at points of the maps, and a feed-forward part.
    A norm follows each residual. limit: the largest number before the last norm, None: any.
    """

    limit: float | None = None

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.d_model
        self.self_attn = PositionedAttention(width, config.decoder_attention_heads)
        self.self_attn_layer_norm = LayerNorm(width, config.layer_norm_eps)
        self.fc1 = Linear(width, config.decoder_ffn_dim)
        self.fc2 = Linear(config.decoder_ffn_dim, width)
        self.final_layer_norm = LayerNorm(width, config.layer_norm_eps)
        self.activation = activation_named(config.decoder_activation_function)

    def look(self, x: Tensor, places: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """As forward, between attention and the feed-forward part → (B, Q, D)."""
        raise NotImplementedError

    def forward(self, x: Tensor, places: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """x (B, Q, D) at places (B, Q, D) with boxes (B, Q, 4), source (B, S, D) of maps of `sizes` → (B, Q, D)."""
        x = self.self_attn_layer_norm(self.self_attn(x, places, x))
        x = self.look(x, places, boxes, source, sizes)
        x = x + self.fc2(self.activation(self.fc1(x)))
        return self.final_layer_norm(x if self.limit is None else x.clamp(-self.limit, self.limit))


class Promising(Module):
    """All but the output: a backbone (its parts `embedder` and `stages`, whose maps have `widths`), an encoder of its
    maps, the choice of the most promising places, and a decoder that reads the maps from there. projected: whether the
    decoder's maps are those of the encoder in another width, even if that is the same.
    """

    def __init__(
        self, config: Any, embedder: Module, stages: Module, widths: Sequence[int], encoder: Module, decoder: Module,
        projected: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.config = config
        width, inner = config.d_model, config.encoder_hidden_dim
        self.backbone = Module()
        self.backbone.model = Module()
        self.backbone.model.embedder = embedder
        self.backbone.model.encoder = stages
        freeze_norms(self.backbone)
        self.encoder_input_proj = ModuleList(
            Sequential(Conv2d(widths[stage], inner, 1, bias=False), BatchNorm2d(inner)) for stage in config.stages
        )
        self.encoder = encoder
        self.enc_output = Sequential(Linear(width, width), LayerNorm(width, config.layer_norm_eps))
        self.enc_score_head = Linear(width, len(config.labels))
        self.enc_bbox_head = PredictionHead(width, width, 4)
        self.decoder_input_proj = ModuleList(
            Sequential(Conv2d(inner, width, 1, bias=False), BatchNorm2d(width, config.batch_norm_eps))
            for _ in (config.stages if projected else ())
        )
        self.decoder = decoder

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        """pixel_values (B, 3, H, W) → logits (B, Q, labels) and boxes (B, Q, 4). InputError for other sizes."""
        network = self.backbone.model
        maps = network.encoder.maps(network.embedder(pixel_values))
        maps = [layer(maps[stage]) for stage, layer in zip(self.config.stages, self.encoder_input_proj, strict=True)]
        maps = self.encoder(maps)
        if len(self.decoder_input_proj):
            maps = [layer(x) for layer, x in zip(self.decoder_input_proj, maps, strict=True)]
        sizes = [(int(x.shape[2]), int(x.shape[3])) for x in maps]
        source = ops.cat([as_sequence(x) for x in maps], 1)  # (B, S, D)
        if source.shape[1] < self.config.num_queries:
            needed = f"{source.shape[1]:,} places, {self.config.num_queries:,} are needed"
            raise InputError(f"a picture of {describe(pixel_values)} has {needed}: make it larger")
        boxes, inside = boxes_of_places(sizes, source.device)
        promising = self.enc_output(source * inside.to(source.dtype))
        scores = self.enc_score_head(promising).amax(2)  # (B, S)
        best = ops.topk(scores, self.config.num_queries, 1)[1].unsqueeze(2)  # (B, Q, 1)
        boxes = self.enc_bbox_head(promising) + boxes
        boxes = ops.gather(boxes, 1, best.expand(*best.shape[:2], 4))
        queries = ops.gather(promising, 1, best.expand(*best.shape[:2], promising.shape[2]))
        return self.decoder(queries.detach(), ops.sigmoid(boxes), source, sizes)

"""The common parts of models that find objects in pictures: what they see by, attention between places and queries
(and to points of maps), heads, and the objects of their outputs.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import pi
from typing import Any

from ...engine import Device, Tensor, ops
from ...engine.lazy import np
from ..encoders.encoders import attend
from ..layers.channel_normalization import GroupNorm
from ..layers.containers import ModuleList, Sequential
from ..layers.convolution import Conv2d
from ..layers.embedding import Embedding
from ..layers.gated import activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from .residual import ResidualEmbeddings, ResidualStages
from .vision import ImageModel, as_sequence, check_pictures, freeze_norms

SIDE = 0.05  # of a place's box in the finest map
EDGE = 1e-2  # places nearer to the border have no box
# Names of timm's ResNets, by which older files call these.
TIMM = re.compile(
    r"(?P<before>.*conv_encoder\.model\.)(?:layer(?P<stage>\d+)\.(?P<layer>\d+)\.)?(?P<part>"
    r"conv(?P<conv>\d)|bn(?P<norm>\d)|downsample\.(?P<down>[01]))\.(?P<rest>\w+)"
)


def from_timm(name: str) -> str:
    """The name of a tensor of a ResNet that timm's library made; other names as they are."""
    found = TIMM.fullmatch(name)
    if found is None:
        return name
    kind = "convolution" if found["conv"] or found["down"] == "0" else "normalization"
    if found["stage"] is None:
        return f"{found['before']}embedder.embedder.{kind}.{found['rest']}"
    layer = f"{found['before']}encoder.stages.{int(found['stage']) - 1}.layers.{found['layer']}"
    part = "shortcut" if found["down"] else f"layer.{int(found['conv'] or found['norm']) - 1}"
    return f"{layer}.{part}.{kind}.{found['rest']}"


class Backbone(Module):
    """A ResNet with frozen norms, below the names `conv_encoder.model`."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.conv_encoder = Module()
        self.conv_encoder.model = Module()
        self.conv_encoder.model.embedder = ResidualEmbeddings(config)
        self.conv_encoder.model.encoder = ResidualStages(config)
        freeze_norms(self)

    def maps(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, 3, H, W) → the map (B, C, H', W') of each stage."""
        network = self.conv_encoder.model
        found: list[Tensor] = network.encoder.maps(network.embedder(pixel_values))
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → the last map (B, C, H', W')."""
        return self.maps(pixel_values)[-1]


def sines_of_places(
    rows: int, columns: int, width: int, device: Device | str | None = None, slowest: float = 10000.0,
    first: float = 1.0,
) -> Tensor:  # fmt: skip
    """The positions of the places of a map, (1, rows * columns, width): sines and cosines of the row, then those of the
    column, each as a part of a turn, up to `slowest` times slower (Carion et al. 2020, arXiv 2005.12872). first: the
    number of the first row and column.
    """
    speeds = slowest ** (2 * (np.arange(width // 2) // 2) / (width // 2))

    def waves(count: int) -> Any:
        angles = ((np.arange(count) + first) / (count + 1e-6) * 2 * pi)[:, None] / speeds  # (count, width / 2)
        return np.where(np.arange(width // 2) % 2, np.cos(angles), np.sin(angles))

    shape = (rows, columns, width // 2)
    down, along = np.broadcast_to(waves(rows)[:, None], shape), np.broadcast_to(waves(columns)[None], shape)
    return ops.tensor(np.concatenate([down, along], 2).reshape(1, -1, width).astype("float32"), device=device)


def sines_of_numbers(x: Tensor, width: int) -> Tensor:
    """x (...), each number as a part of a turn → width / 2 pairs of a sine and a cosine (..., width), of ever slower
    turns.
    """
    speeds = 2 * pi / 10000.0 ** (2 * np.arange(width // 2) / width)
    angles = x.unsqueeze(-1) * ops.tensor(speeds.astype("float32"), device=x.device)  # (..., width / 2)
    return ops.stack([angles.sin(), angles.cos()], -1).reshape(*x.shape, width)


def attend_in_heads(heads: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of q (B, Q, D) to k and v (B, S, D), by so many heads → (B, Q, D)."""
    parts = [x.reshape(*x.shape[:2], heads, -1) for x in (q, k, v)]
    return attend(parts[0], parts[1], parts[2], None)


def attend_beside(heads: int, q: Tensor, near: Tensor, k: Tensor, at: Tensor, v: Tensor) -> Tensor:
    """As attend_in_heads, where the positions near (B or 1, Q, D) and at (B or 1, S, D) stand beside the contents q and
    k of each head (Meng et al. 2021, arXiv 2108.06152).
    """

    def both(x: Tensor, places: Tensor) -> Tensor:
        parts = [y.reshape(*x.shape[:2], heads, -1) for y in (x, places.expand(*x.shape))]
        return ops.cat(parts, 3)  # (B, T, H, 2 * D / H)

    return attend(both(q, near), both(k, at), v.reshape(*v.shape[:2], heads, -1), None)


class PositionedAttention(Module):
    """Attention whose queries and keys have positions, and whose values have none."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = Linear(width, width)
        self.k_proj = Linear(width, width)
        self.v_proj = Linear(width, width)
        self.out_proj = ResidualLinear(width, width)

    def forward(
        self, x: Tensor, places: Tensor, residual: Tensor, source: Tensor | None = None, sources: Tensor | None = None
    ) -> Tensor:
        """x (B, T, D) at places (1 or B, T, D), attending to source (B, S, D) at sources (1 or B, S, D), None: to x →
        residual + attention (B, T, D).
        """
        q = x + places
        k, v = (q, x) if source is None or sources is None else (source + sources, source)
        parts = [
            layer(y).reshape(*y.shape[:2], self.heads, -1)
            for layer, y in ((self.q_proj, q), (self.k_proj, k), (self.v_proj, v))
        ]
        return self.out_proj(attend(parts[0], parts[1], parts[2], None), residual)


def attend_to_points(
    weights: Tensor, places: Tensor, values: Tensor, sizes: list[tuple[int, int]], counts: Sequence[int], nearest: bool
) -> Tensor:
    """The sums of what values (B, S, D) of maps of `sizes` have at points, as many of each map as counts says (N of all
    maps), by the softmax of weights (B, Q, H * N): places (B, Q, H, N, 2) as parts of the maps' sides → (B, Q, D).
    nearest: as PointAttention.
    """
    batch, queries, heads, points, _ = places.shape
    width = values.shape[2]
    weights = ops.softmax(weights.reshape(batch, queries, heads, points), 3)
    weights = weights.permute(0, 2, 1, 3).reshape(batch * heads, 1, queries, points)
    grid = places.permute(0, 2, 1, 3, 4).reshape(batch * heads, queries, points, 2)
    values = values.transpose(1, 2)  # (B, D, S)
    found, first, point = [], 0, 0
    for (rows, columns), count in zip(sizes, counts, strict=True):
        part = values.narrow(2, first, rows * columns).reshape(batch * heads, width // heads, rows, columns)
        read = _at_nearest if nearest else _at_points
        found.append(read(part, grid.narrow(2, point, count)))  # (B * H, d, Q, count)
        first, point = first + rows * columns, point + count
    y = (ops.cat(found, 3) * weights).sum(3)  # (B * H, d, Q)
    return y.reshape(batch, width, queries).transpose(1, 2)


class PointAttention(Module):
    """Attention of queries to a few points of each map (Zhu et al. 2020, arXiv 2010.04159). `nearest`: points read the
    nearest place, not those around them (Lv et al. 2024, arXiv 2407.17140).
    """

    def __init__(self, width: int, heads: int, levels: int, points: int, nearest: bool = False) -> None:
        super().__init__()
        self.heads, self.levels, self.points, self.nearest = heads, levels, points, nearest
        count = heads * levels * points
        self.sampling_offsets = Linear(width, 2 * count)
        self.attention_weights = Linear(width, count)
        self.value_proj = Linear(width, width)
        self.output_proj = Linear(width, width)

    def steps(self, x: Tensor) -> Tensor:
        """x (B, Q, D) → how far the points are from where a query is (B, Q, H, L, P, 2), in units of the model."""
        return self.sampling_offsets(x).reshape(*x.shape[:2], self.heads, self.levels, self.points, 2)

    def forward(self, x: Tensor, places: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """x (B, Q, D), places (B, Q, H, L, P, 2) of points as parts of the maps' sides, source (B, S, D) of maps of
        `sizes` → (B, Q, D).
        """
        counts = [self.points] * self.levels
        y = attend_to_points(
            self.attention_weights(x), places.flatten(3, 4), self.value_proj(source), sizes, counts, self.nearest
        )
        return self.output_proj(y)

    def in_boxes(
        self, x: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]], scale: float = 0.5
    ) -> Tensor:
        """As forward, at points in and around boxes (B, Q, 4): centre, width and height as parts of the maps' sides.
        scale: of the steps from the centre, in widths and heights for all points together.
        """
        box = boxes.reshape(*boxes.shape[:2], 1, 1, 1, 4)
        return self(x, box[..., :2] + self.steps(x) * box[..., 2:] * (scale / self.points), source, sizes)

    def around(self, x: Tensor, centres: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """As forward, at points around centres (B, Q, 2), or (Q, 2), as parts of the maps' sides: steps are places."""
        sides = ops.tensor([[float(columns), float(rows)] for rows, columns in sizes], device=x.device)
        centres = centres.reshape(*centres.shape[:-1], 1, 1, 1, 2)
        return self(x, centres + self.steps(x) / sides.reshape(1, 1, 1, -1, 1, 2), source, sizes)


def _at_points(x: Tensor, points: Tensor) -> Tensor:
    """Maps x (N, D, H, W) at points (N, Q, P, 2), x and y as parts of their sides → (N, D, Q, P)."""
    return ops.grid_sample(x, 2 * points - 1, align_corners=False)


def _at_nearest(x: Tensor, points: Tensor) -> Tensor:
    """As _at_points, at whole places: a point's own, or the next if it is in the second half of that."""
    count, width, rows, columns = x.shape
    row = (points[..., 1] * rows + 0.5).to("int64").clamp(0, rows - 1)  # (N, Q, P)
    column = (points[..., 0] * columns + 0.5).to("int64").clamp(0, columns - 1)
    places = (row * columns + column).reshape(count, 1, -1).expand(count, width, row.shape[1] * row.shape[2])
    return ops.gather(x.reshape(count, width, rows * columns), 2, places).reshape(count, width, *row.shape[1:])


def centres_of_places(sizes: list[tuple[int, int]], device: Device) -> Tensor:
    """The centres (S, 2) of the places of maps of `sizes`, one after the other, as parts of the picture's sides: x and
    y.
    """
    found = []
    for rows, columns in sizes:
        down = (ops.arange(rows, dtype="float32", device=device) + 0.5) / rows
        along = (ops.arange(columns, dtype="float32", device=device) + 0.5) / columns
        shape = rows, columns
        parts = [along.reshape(1, -1).expand(*shape), down.reshape(-1, 1).expand(*shape)]
        found.append(ops.stack(parts, 2).reshape(-1, 2))
    return ops.cat(found)


class PointsLayer(Module):
    """Attention of places to points of all maps around them, and a feed-forward part, each with a residual and a norm
    after it.
    """

    def __init__(
        self, width: int, heads: int, levels: int, points: int, inner: int, activation: str, epsilon: float = 1e-5
    ) -> None:
        super().__init__()
        self.self_attn = PointAttention(width, heads, levels, points)
        self.self_attn_layer_norm = LayerNorm(width, epsilon)
        self.fc1 = Linear(width, inner)
        self.fc2 = Linear(inner, width)
        self.final_layer_norm = LayerNorm(width, epsilon)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor, waves: Tensor, centres: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """x (B, S, D) of maps of `sizes` with the positions waves (1, S, D), centres (S, 2) → (B, S, D)."""
        x = self.self_attn_layer_norm(x + self.self_attn.around(x + waves, centres, x, sizes))
        return self.final_layer_norm(x + self.fc2(self.activation(self.fc1(x))))


def inverse_sigmoid(x: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Numbers from 0 to 1 → what they are of before the sigmoid; each end counts as epsilon."""
    x = x.clamp(0, 1)
    return (x.clamp(min=epsilon) / (1 - x).clamp(min=epsilon)).log()


def moved(boxes: Tensor, steps: Tensor) -> Tensor:
    """Boxes (B, Q, 4), or their centres (B, Q, 2), moved by steps (B, Q, 4) in front of the sigmoid → (B, Q, 4)."""
    own = inverse_sigmoid(boxes)
    return ops.sigmoid(steps + (own if own.shape[2] == 4 else ops.pad(own, [0, 2])))


def maps_in_one_width(widths: Sequence[int], width: int, levels: int, groups: int = 32) -> ModuleList:
    """Filters and norms that bring maps of `widths` into one width, and make more of the last, each of half the size
    of the one before, until there are so many levels (`projected`).
    """
    own = [Sequential(Conv2d(before, width, 1), GroupNorm(groups, width)) for before in widths]
    more = levels - len(widths)
    halves = [
        Sequential(Conv2d(before, width, 3, 2, 1), GroupNorm(groups, width))
        for before in [widths[-1], *[width] * more][:more]
    ]
    return ModuleList([*own, *halves])


def projected(layers: ModuleList, maps: list[Tensor]) -> list[Tensor]:
    """maps (B, C, H, W) through the layers of maps_in_one_width → (B, D, H, W), the finest first."""
    found = [layer(x) for layer, x in zip(layers, maps, strict=False)]
    for i in range(len(maps), len(layers)):
        found.append(layers[i](maps[-1] if i == len(maps) else found[-1]))
    return found


def boxes_of_places(sizes: list[tuple[int, int]], device: Device) -> tuple[Tensor, Tensor]:
    """The boxes of the places of maps of `sizes`, the finest first, as logits float32 (1, S, 4), and which of them
    count, bool (1, S, 1).
    """
    found = []
    for level, (rows, columns) in enumerate(sizes):
        row, column = np.divmod(np.arange(rows * columns), columns)
        side = np.full(rows * columns, SIDE * 2.0**level)
        found.append(np.stack([(column + 0.5) / columns, (row + 0.5) / rows, side, side], 1))
    boxes = np.concatenate(found).astype("float32")[None]
    inside = ((boxes > EDGE) & (boxes < 1 - EDGE)).all(-1, keepdims=True)
    safe = np.where(inside, boxes, np.float32(0.5))
    logits = np.where(inside, np.log(safe / (1 - safe)), np.finfo("float32").max)
    return ops.tensor(logits, device=device), ops.tensor(inside, device=device)


class PlacesLayer(Module):
    """A layer of the encoder: attention of places to each other, and a feed-forward part, each with a residual and a
    norm: after them, or before each part (`first`).
    """

    def __init__(
        self, width: int, heads: int, inner: int, activation: str, first: bool = False, epsilon: float = 1e-5
    ) -> None:
        super().__init__()
        self.first = first
        self.self_attn = PositionedAttention(width, heads)
        self.self_attn_layer_norm = LayerNorm(width, epsilon)
        self.fc1 = Linear(width, inner)
        self.fc2 = ResidualLinear(inner, width)
        self.final_layer_norm = LayerNorm(width, epsilon)
        self.activation = activation_named(activation)

    def feed_forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, T, D) → residual + (B, T, D)."""
        return self.fc2(self.activation(self.fc1(x)), residual)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """x (B, S, D) at places (1, S, D) → (B, S, D)."""
        if self.first:
            x = self.self_attn(self.self_attn_layer_norm(x), places, x)
            return self.feed_forward(self.final_layer_norm(x), x)
        x = self.self_attn_layer_norm(self.self_attn(x, places, x))
        return self.final_layer_norm(self.feed_forward(x, x))


class QueriesLayer(PlacesLayer):
    """A layer of the decoder: the queries attend to each other, then to the places."""

    def __init__(self, width: int, heads: int, inner: int, activation: str, first: bool = False) -> None:
        super().__init__(width, heads, inner, activation, first)
        self.encoder_attn = PositionedAttention(width, heads)
        self.encoder_attn_layer_norm = LayerNorm(width)

    def read(self, x: Tensor, queries: Tensor, source: Tensor, places: Tensor) -> Tensor:
        """x (B, Q, D) of queries (1, Q, D), source (B, S, D) at places (1, S, D) → (B, Q, D)."""
        if self.first:
            x = self.self_attn(self.self_attn_layer_norm(x), queries, x)
            x = self.encoder_attn(self.encoder_attn_layer_norm(x), queries, x, source, places)
            return self.feed_forward(self.final_layer_norm(x), x)
        x = self.self_attn_layer_norm(self.self_attn(x, queries, x))
        x = self.encoder_attn_layer_norm(self.encoder_attn(x, queries, x, source, places))
        return self.final_layer_norm(self.feed_forward(x, x))


class PlacesEncoder(Module):
    """The encoder's layers; `first`: norms come first, and one more at the end."""

    def __init__(self, config: Any, first: bool) -> None:
        super().__init__()
        self.layers = ModuleList(
            PlacesLayer(
                config.d_model, config.encoder_attention_heads, config.encoder_ffn_dim, config.activation_function,
                first,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip
        self.layernorm = LayerNorm(config.d_model) if first else None

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """x (B, S, D) at places (1, S, D) → (B, S, D)."""
        for layer in self.layers:
            x = layer(x, places)
        return x if self.layernorm is None else self.layernorm(x)


class QueriesDecoder(Module):
    """The decoder's layers and its norm, which in models that were trained with auxiliary_loss follows each layer too,
    as transformers computes them.
    """

    def __init__(self, config: Any, first: bool) -> None:
        super().__init__()
        self.layers = ModuleList(
            QueriesLayer(
                config.d_model, config.decoder_attention_heads, config.decoder_ffn_dim, config.activation_function,
                first,
            )
            for _ in range(config.decoder_layers)
        )  # fmt: skip
        self.layernorm = LayerNorm(config.d_model)
        self.between: bool = config.auxiliary_loss

    def forward(self, queries: Tensor, source: Tensor, places: Tensor) -> Tensor:
        """queries (1, Q, D), source (B, S, D) at places (1, S, D) → (B, Q, D)."""
        x = ops.zeros(source.shape[0], queries.shape[1], queries.shape[2], device=queries.device)
        for layer in self.layers:
            x = layer.read(x, queries, source, places)
            x = self.layernorm(x) if self.between else x
        return self.layernorm(x)


class PlacesAndQueries(Module):
    """What DETR sees by, its encoder of places and its decoder of queries, or another decoder in its place."""

    def __init__(self, config: Any, first: bool, decoder: Module | None = None) -> None:
        super().__init__()
        self.backbone = Backbone(config.backbone)
        self.input_projection = Conv2d(config.backbone.hidden_sizes[-1], config.d_model, 1)
        self.query_position_embeddings = Embedding(config.num_queries, config.d_model)
        self.encoder = PlacesEncoder(config, first)
        self.decoder = QueriesDecoder(config, first) if decoder is None else decoder

    def forward(self, pixel_values: Tensor) -> Any:
        """pixel_values (B, 3, H, W) → what the queries have found (B, Q, D), as the decoder gives it."""
        x = self.input_projection(self.backbone(pixel_values))  # (B, D, rows, columns)
        places = sines_of_places(int(x.shape[2]), int(x.shape[3]), int(x.shape[1]), x.device)
        numbers = ops.arange(self.query_position_embeddings.num_embeddings, dtype="int32", device=x.device)
        queries = self.query_position_embeddings(numbers).unsqueeze(0)  # (1, Q, D)
        return self.decoder(queries, self.encoder(as_sequence(x), places), places)


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

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B, C, H, W) → logits (B, Q, labels) and boxes (B, Q, 4): centre x and y, width and height, as
        parts of the picture's sides.
        """
        raise NotImplementedError

    def objects(self, outputs: Sequence[Tensor], threshold: float) -> list[list[dict[str, Any]]]:
        """The objects of each picture whose probability is above the threshold, the most probable first, from what
        `forward` gives: `label`, `score`, and `box`, [left, top, right, bottom] as parts of the picture's sides.
        """
        logits, boxes = outputs
        chances = logits.to("float32")
        chances = ops.softmax(chances, 2) if self.background else ops.sigmoid(chances)  # (B, Q, labels)
        return named_objects(chances, boxes, self.config.labels, threshold)


def named_objects(
    chances: Tensor, boxes: Tensor, names: Sequence[str], threshold: float
) -> list[list[dict[str, Any]]]:  # fmt: skip
    """The objects of each picture, as Detector.objects, of the probabilities (B, Q, N) of N names, or more, and the
    boxes (B, Q, 4): centre, width and height as parts of the sides.
    """

    def described(picture: int, row: list[float]) -> dict[str, Any]:
        row = row[: len(names)]
        best = max(range(len(row)), key=row.__getitem__)
        return {"label": names[best], "score": row[best]}

    return placed_objects(chances, boxes, described, threshold)


def placed_objects(
    chances: Tensor, boxes: Tensor, described: Callable[[int, list[float]], dict[str, Any]], threshold: float
) -> list[list[dict[str, Any]]]:
    """As named_objects, where `described` says of a picture, by its number, and the probabilities of a query what it
    has found: an object with `label` and `score`.
    """
    found = []
    for picture, (rows, places) in enumerate(zip(chances.tolist(), boxes.to("float32").tolist(), strict=True)):
        own = []
        for row, (x, y, width, height) in zip(rows, places, strict=True):
            entry = described(picture, row)
            if entry["score"] > threshold:
                own.append(entry | {"box": [x - width / 2, y - height / 2, x + width / 2, y + height / 2]})
        found.append(sorted(own, key=lambda item: -item["score"]))
    return found


class QueryDetector(Detector):
    """DETR: labels and boxes of what its queries have found. `first`: the norms of its layers come first."""

    first = False

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.model = PlacesAndQueries(config, self.first)
        self.class_labels_classifier = Linear(config.d_model, len(config.labels) + 1)
        self.bbox_predictor = PredictionHead(config.d_model, config.d_model, 4)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        check_pictures(type(self).__name__, pixel_values, self.config.num_channels)
        x = self.model(pixel_values)
        return self.class_labels_classifier(x), ops.sigmoid(self.bbox_predictor(x))

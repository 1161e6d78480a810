"""Segment Anything 3 for pictures (Carion et al. 2025, arXiv 2511.16719): a Vision Transformer sees a picture once, and
a detector in the manner of DETR finds all that a short text names, or that is like what boxes show, each with its mask.

Parameters have the names of Hugging Face's files. The memory of videos is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.errors import ArgumentError
from pyapp.nn import Conv2d, ConvTranspose2d, Embedding, GroupNorm, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.activation import GELU
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.pooling import MaxPool2d
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.detection import inverse_sigmoid, sines_of_numbers, sines_of_places
from pyapp.nn.vision.regions import pooled
from pyapp.nn.vision.segment_anything import vectors_of
from pyapp.nn.vision.towers import PictureAndText, TextTower
from pyapp.nn.vision.vision import as_map, as_sequence, check_pictures
from pyapp.nn.vision.windows import in_windows, out_of_windows

from .loading.config import check_depth, check_fields, optional_object, read_config, require, rope_parameters
from .loading.pictures_config import WIDEST, PatchConfig, check_numbers
from .loading.towers_config import ClipTextConfig

MODEL_TYPES = ("sam3", "sam3_video")
IMAGE_PROCESSOR = "Sam3"  # of files that name none
BASE = ""
IGNORED = (
    r"(tracker_model|tracker_neck)\..*|(detector_model\.)?(mask_decoder\.semantic_projection\..*|"
    r"text_encoder\.text_projection\..*|.*\.position_ids|.*\.rope_embeddings\..*)"  # of whole maps and videos
)
EDGE = 1e-3  # places nearer to the border have no box
MOST_SCORE, MOST_PRESENCE = 12.0, 10.0  # of logits
NORM_GROUPS = 8
SCALES = (4.0, 2.0, 1.0, 0.5)
TEXTS = {  # where the file has no text_config
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
    "max_position_embeddings": 32, "hidden_act": "gelu",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(PatchConfig):
    """The fields of vision_config.backbone_config."""

    model_type = "sam3_vit_model"
    image = 1008
    patch = 14

    hidden_size: int = 1024
    intermediate_size: int = 4736
    num_hidden_layers: int = 32
    num_attention_heads: int = 16
    layer_norm_eps: float = 1e-6
    window_size: int = 24
    global_attn_indexes: tuple[int, ...] = (7, 15, 23, 31)
    pretrain_image_size: int = 336
    rope_theta: float = 10000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.hidden_size // self.num_attention_heads
        require(size % 4 == 0, f"heads of {size} columns, expected a multiple of 4")
        require(self.patch_size[0] == self.patch_size[1], f"patch_size is {self.patch_size}, expected a square")
        rows, columns = self.grid
        require(rows == columns and rows % 2 == 0, f"{rows} x {columns} patches, expected an even square")
        require(self.window_size <= 256, f"window_size is {self.window_size}, expected at most 256")
        check_numbers("global_attn_indexes", (*self.global_attn_indexes, 0), 1 << 10, least=0)
        require(self.hidden_size % 4 == 0, f"hidden_size is {self.hidden_size}, expected a multiple of 4")
        require(1 <= self.table <= 1 << 10, f"pretrain_image_size is {self.pretrain_image_size}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        rotary = rope_parameters({**values, "rope_scaling": None})
        return super().from_dict({**values, "rope_theta": rotary["rope_theta"]})

    @property
    def table(self) -> int:
        """The rows, and columns, of the table of positions, which is repeated."""
        return self.pretrain_image_size // self.patch_size[0]


@dataclass(frozen=True, kw_only=True)
class PartConfig:
    """The fields of one of the detector's parts."""

    hidden_size: int = 256
    num_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    num_queries: int = 200
    num_upsampling_stages: int = 3
    roi_size: int = 7
    hidden_act: str = "relu"

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_layers)
        width, heads = self.hidden_size, self.num_attention_heads
        require(width <= WIDEST and width % heads == 0, f"num_attention_heads {heads} do not divide {width}")
        require(width % NORM_GROUPS == 0, f"hidden_size is {width}, expected a multiple of {NORM_GROUPS}")
        require(self.num_queries <= 1 << 14, f"{self.num_queries:,} queries are too many")
        require(1 <= self.roi_size <= 64, f"roi_size is {self.roi_size}, expected 1 to 64")
        require(1 <= self.num_upsampling_stages <= 16, f"num_upsampling_stages is {self.num_upsampling_stages}")


PARTS = ("detr_encoder_config", "detr_decoder_config", "mask_decoder_config", "geometry_encoder_config")
BOX_LAYERS = 3  # where the file does not say it


@dataclass(frozen=True)
class Config:
    """The configurations of the parts, and `values`, the whole object of the config.json."""

    backbone: BackboneConfig
    text_config: ClipTextConfig
    encoder: PartConfig
    decoder: PartConfig
    masks: PartConfig
    boxes: PartConfig
    scales: tuple[float, ...]
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, in which a model of videos has the detector's under a name of its own."""
        own = optional_object(values, "detector_config") or values
        vision, text = optional_object(own, "vision_config"), optional_object(own, "text_config") or TEXTS
        encoder, decoder, masks, boxes = (
            read_config(
                PartConfig, ({"num_layers": BOX_LAYERS} if name == PARTS[3] else {}) | optional_object(own, name)
            )
            for name in PARTS
        )
        scales = vision.get("scale_factors") or SCALES
        known = isinstance(scales, list | tuple) and 2 <= len(scales) <= 8 and all(scale in SCALES for scale in scales)
        require(known, f"scale_factors is {scales!r:.60}, expected some of {', '.join(map(str, SCALES))}")
        width = vision.get("fpn_hidden_size", 256)
        same = width == encoder.hidden_size == decoder.hidden_size == masks.hidden_size == boxes.hidden_size
        require(same, f"fpn_hidden_size is {width!r:.40}, expected the hidden_size of the other parts")
        require(masks.num_upsampling_stages >= len(scales) - 2,
                f"num_upsampling_stages is {masks.num_upsampling_stages}, of {len(scales) - 1} maps")  # fmt: skip
        backbone = BackboneConfig.from_dict(optional_object(vision, "backbone_config"))
        texts = read_config(ClipTextConfig, text)
        return cls(backbone, texts, encoder, decoder, masks, boxes, tuple(scales), dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return dict(self.values)

    @property
    def vocab_size(self) -> int:
        """The tokens of texts."""
        return self.text_config.vocab_size

    @property
    def num_channels(self) -> int:
        """The channels of pictures."""
        return self.backbone.num_channels


def renamed(name: str) -> str:
    """The model's name of a file's tensor: the detector of a model of videos, and CLIP's texts in older files."""
    return re.sub(r"^text_encoder\.text_model\.", "text_encoder.", name.removeprefix("detector_model."))


class Attention(Module):
    """Attention between two sequences."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (Linear(width, width) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """query (B, T, D), key and value (B, S, D), mask as of `attend` → (B, T, D)."""
        q, k, v = (
            layer(x).to(query.dtype).reshape(*x.shape[:2], self.heads, -1)
            for layer, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        return self.o_proj(attend(q, k, v, mask))


class TurnedAttention(Attention):
    """Attention of places to each other, whose queries and keys are turned by their columns and rows."""

    def turned(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D), rotations (T, D / H / 2, 2) → (B, T, D)."""
        q, k, v = (
            layer(x).reshape(*x.shape[:2], self.heads, -1) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )  # (B, T, H, D / H) each
        q, k = (ops.rope(part, table, interleaved=True) for part in (q, k))
        return self.o_proj(attend(q, k, v, None))


class Layer(Module):
    """Attention within windows (0: of all places), and a feed-forward part, each with a norm before it."""

    def __init__(self, config: BackboneConfig, window: int) -> None:
        super().__init__()
        width, self.window = config.hidden_size, window
        self.layer_norm1, self.layer_norm2 = (LayerNorm(width, config.layer_norm_eps) for _ in range(2))
        self.attention = TurnedAttention(width, config.num_attention_heads)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, H, W, D), rotations of a window's places, or of all → (B, H, W, D)."""
        y, (batch, high, wide, width) = self.layer_norm1(x), x.shape
        if not self.window:
            y = self.attention.turned(y.reshape(batch, high * wide, width), table).reshape(x.shape)
        else:
            below, right = -high % self.window, -wide % self.window
            y = ops.pad(y, [0, 0, 0, right, 0, below]) if below or right else y
            parts = in_windows(y, self.window)  # (B, R, C, window², D)
            y = self.attention.turned(parts.reshape(-1, *parts.shape[3:]), table).reshape(parts.shape)
            y = out_of_windows(y, self.window)[:, :high, :wide]
        x = x + y
        return self.mlp(self.layer_norm2(x), x)


class Patches(Module):
    """Patches, and a table of positions that is repeated over the picture."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embeddings = Module()
        self.patch_embeddings.projection = Conv2d(
            config.num_channels, config.hidden_size, config.patch_size, config.patch_size, bias=False
        )
        self.position_embeddings = new_parameter(ops.zeros, 1, config.table**2, config.hidden_size)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, rows, columns, D)."""
        x = self.patch_embeddings.projection(pixel_values).permute(0, 2, 3, 1)  # (B, rows, columns, D)
        side, (rows, columns) = self.config.table, x.shape[1:3]
        table = self.position_embeddings.reshape(side, side, x.shape[3])
        table = ops.cat([table] * -(-rows // side), 0)[:rows]
        return x + ops.cat([table] * -(-columns // side), 1)[:, :columns]


class Backbone(Module):
    """The Vision Transformer."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Patches(config)
        self.layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.layers = ModuleList(
            Layer(config, 0 if i in config.global_attn_indexes else config.window_size)
            for i in range(config.num_hidden_layers)
        )

    def table(self, side: int) -> Tensor:
        """The rotations (side², D / H / 2, 2) of the places of a square, which stand as far apart as a window's: half
        of a head's pairs turn by the column, half by the row.
        """
        config = self.config
        half = config.hidden_size // config.num_attention_heads // 2
        speeds = config.rope_theta ** -(np.arange(0, half, 2) / half)  # (half / 2,)
        places = np.arange(side) * (config.window_size / side)
        angles = np.concatenate(
            [np.tile(places, side)[:, None] * speeds, np.repeat(places, side)[:, None] * speeds], 1
        )  # (side², half)
        return ops.from_numpy(np.stack([np.cos(angles), np.sin(angles)], 2).astype("float32"))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, rows, columns, D)."""
        check_pictures("SAM 3", pixel_values, self.config.num_channels, self.config.image_size)
        x = self.layer_norm(self.embeddings(pixel_values))
        sides = {layer.window or self.config.grid[0] for layer in self.layers}
        tables = {side: self.table(side).to(x.device) for side in sides}
        for layer in self.layers:
            x = layer(x, tables[layer.window or self.config.grid[0]])
        return x


class MapOfScale(Module):
    """The picture's map, made larger or smaller."""

    def __init__(self, before: int, width: int, scale: float) -> None:
        super().__init__()
        parts: list[Module] = []
        if scale == 4:
            parts = [ConvTranspose2d(before, before // 2, 2, stride=2), GELU()]
            parts.append(ConvTranspose2d(before // 2, before // 4, 2, stride=2))
        elif scale == 2:
            parts = [ConvTranspose2d(before, before // 2, 2, stride=2)]
        elif scale == 0.5:
            parts = [MaxPool2d(2, 2)]
        self.scale_layers = ModuleList(parts)
        self.proj1 = Conv2d(before // int(max(scale, 1)), width, 1)
        self.proj2 = Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, rows, columns) → (B, width, scale * rows, scale * columns)."""
        for layer in self.scale_layers:
            x = layer(x)
        return self.proj2(self.proj1(x))


class EncoderLayer(Module):
    """Places attend to each other, then to the text; each part has a norm before it."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        width, heads = config.hidden_size, config.num_attention_heads
        self.layer_norm1, self.layer_norm2, self.layer_norm3 = (LayerNorm(width) for _ in range(3))
        self.self_attn, self.cross_attn = Attention(width, heads), Attention(width, heads)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)

    def forward(self, x: Tensor, places: Tensor, text: Tensor, mask: Tensor) -> Tensor:
        """x (N, S, D) at places (1, S, D), text (N, T, D), mask (N, 1, 1, T) → (N, S, D)."""
        y = self.layer_norm1(x)
        x = x + self.self_attn(y + places, y + places, y)
        x = x + self.cross_attn(self.layer_norm2(x), text, text, mask)
        return self.mlp(self.layer_norm3(x), x)


class BoxLayer(Module):
    """Boxes attend to each other, then to the places; each part has a norm before it."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        width, heads = config.hidden_size, config.num_attention_heads
        self.layer_norm1, self.layer_norm2, self.layer_norm3 = (LayerNorm(width) for _ in range(3))
        self.self_attn, self.cross_attn = Attention(width, heads), Attention(width, heads)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)

    def forward(self, x: Tensor, seen: Tensor, places: Tensor) -> Tensor:
        """x (N, K, D), seen (N, S, D) at places (1, S, D) → (N, K, D)."""
        y = self.layer_norm1(x)
        x = x + self.self_attn(y, y, y)
        x = x + self.cross_attn(self.layer_norm2(x), seen + places, seen)
        return self.mlp(self.layer_norm3(x), x)


class BoxEncoder(Module):
    """What boxes show: their places, what the coarsest map has there, and whether it is wanted."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        self.config, width = config, config.hidden_size
        self.label_embed, self.cls_embed = Embedding(2, width), Embedding(1, width)
        self.boxes_direct_project = Linear(4, width)
        self.boxes_pool_project = Conv2d(width, width, config.roi_size)
        self.boxes_pos_enc_project = Linear(width + 2, width)
        self.vision_layer_norm, self.prompt_layer_norm, self.output_layer_norm = (LayerNorm(width) for _ in range(3))
        self.final_proj = Linear(width, width)
        self.layers = ModuleList(BoxLayer(config) for _ in range(config.num_layers))

    def forward(self, boxes: Tensor, kinds: Tensor, seen: Tensor, places: Tensor) -> Tensor:
        """boxes (N, K, 4) of centre, width and height, kinds (N, K) integers: 1 for what is wanted, 0 for what is not,
        the map seen (N, D, rows, columns), whose places have the positions (1, S, D) → (N, K + 1, D).
        """
        count, kept, width = boxes.shape[0], boxes.shape[1], self.config.hidden_size
        normed = self.vision_layer_norm(seen.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        high, wide = int(seen.shape[2]), int(seen.shape[3])
        sides = corners(boxes.detach()) * ops.tensor([wide, high, wide, high], dtype="float32", device=boxes.device)
        shown = self.boxes_pool_project(pooled(normed, sides.tolist(), self.config.roi_size))  # (N * K, D, 1, 1)
        waves = sines_of_numbers(boxes[..., :2], width // 2)  # (N, K, 2, D / 2)
        places_of = ops.cat([waves[:, :, 1], waves[:, :, 0], boxes[..., 3:], boxes[..., 2:3]], 2)  # (N, K, D + 2)
        x = self.boxes_direct_project(boxes) + shown.reshape(count, kept, width) + self.boxes_pos_enc_project(places_of)
        first = vectors_of(self.cls_embed).unsqueeze(0)
        x = ops.cat([x + self.label_embed(kinds), first.expand(count, *first.shape[1:])], 1)
        x = self.prompt_layer_norm(self.final_proj(x))
        for layer in self.layers:
            x = layer(x, as_sequence(seen), places)
        return self.output_layer_norm(x)


class ReluLayers(Module):
    """Linear layers with ReLU between them, called layer1, layer2 …"""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.names = [f"layer{i}" for i in range(1, len(widths))]
        for name, before, after in zip(self.names, widths, widths[1:], strict=False):
            self.add_module(name, Linear(before, after))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., first width) → (..., last width)."""
        for name in self.names:
            x = self._modules[name](x if name == self.names[0] else x.relu())
        return x


class DecoderLayer(Module):
    """Queries attend to each other, to the text and to the places; each part has a norm after it."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        width, heads = config.hidden_size, config.num_attention_heads
        for name in ("self_attn", "text_cross_attn", "vision_cross_attn"):
            self.add_module(name, Attention(width, heads))
            self.add_module(f"{name}_layer_norm", LayerNorm(width))
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)
        self.mlp_layer_norm = LayerNorm(width)

    def forward(
        self, x: Tensor, near: Tensor, text: Tensor, mask: Tensor, seen: Tensor, places: Tensor, bias: Tensor
    ) -> Tensor:
        """x (N, 1 + Q, D) with positions near, text and its mask as EncoderLayer's, seen (N, S, D) at places, bias
        (N, H, 1 + Q, S) of the scores of places → (N, 1 + Q, D).
        """
        q = x + near
        x = self.self_attn_layer_norm(x + self.self_attn(q, q, x))
        x = self.text_cross_attn_layer_norm(x + self.text_cross_attn(x + near, text, text, mask))
        x = self.vision_cross_attn_layer_norm(x + self.vision_cross_attn(x + near, seen + places, seen, bias))
        return self.mlp_layer_norm(self.mlp(x, x))


def corners(boxes: Tensor) -> Tensor:
    """Boxes (..., 4) of centre, width and height → left, top, right and bottom."""
    centre, half = boxes[..., :2], boxes[..., 2:] * 0.5
    return ops.cat([centre - half, centre + half], -1)


class Decoder(Module):
    """Queries that become objects, with boxes that each layer moves, and a token that says whether there are any."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        width, heads = config.hidden_size, config.num_attention_heads
        self.layers = ModuleList(DecoderLayer(config) for _ in range(config.num_layers))
        self.output_layer_norm = LayerNorm(width)
        self.box_head = ReluLayers(width, width, width, 4)
        self.query_embed = Embedding(config.num_queries, width)
        self.reference_points = Embedding(config.num_queries, 4)
        self.presence_token = Embedding(1, width)
        self.presence_head = ReluLayers(width, width, width, 1)
        self.presence_layer_norm = LayerNorm(width)
        self.ref_point_head = ReluLayers(2 * width, width, width)
        self.box_rpb_embed_x, self.box_rpb_embed_y = (ReluLayers(2, width, heads) for _ in range(2))
        self.width = width

    def bias(self, boxes: Tensor, rows: int, columns: int) -> Tensor:
        """What to add to the scores (N, H, 1 + Q, rows * columns) of places, by how far they are from the sides of
        boxes (N, Q, 4); nothing for the token.
        """
        sides, found = corners(boxes), []
        for count, first, layer in ((rows, 1, self.box_rpb_embed_y), (columns, 0, self.box_rpb_embed_x)):
            at = ops.arange(count, device=boxes.device).to(boxes.dtype) / count
            own = ops.stack([sides[..., first], sides[..., first + 2]], -1).unsqueeze(2)  # (N, Q, 1, 2)
            apart = (at.reshape(1, 1, count, 1) - own) * 8
            found.append(layer(apart.sign() * (apart.abs() + 1).log() / log(8)))  # (N, Q, count, H)
        down, along = found
        both = (down.unsqueeze(3) + along.unsqueeze(2)).flatten(2, 3).permute(0, 3, 1, 2)  # (N, H, Q, S)
        return ops.pad(both, [0, 0, 1, 0])

    def forward(
        self, seen: Tensor, places: Tensor, text: Tensor, mask: Tensor, grid: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """seen (N, S, D) of a grid at places (1, S, D), text (N, T, D), mask (N, 1, 1, T) → queries (N, Q, D), boxes
        (N, Q, 4) of centre, width and height, and the logit (N, 1) of whether there is any.
        """
        count = seen.shape[0]
        token, queries, points = (
            vectors_of(table).unsqueeze(0) for table in (self.presence_token, self.query_embed, self.reference_points)
        )
        x = ops.cat([token, queries], 1)
        x = x.expand(count, *x.shape[1:])
        boxes = at = points.sigmoid().expand(count, *points.shape[1:])
        for layer in self.layers:
            across, down, wide, high = (at[..., i] for i in range(4))
            waves = sines_of_numbers(ops.stack([down, across, wide, high], -1), self.width // 2)  # (N, Q, 4, D / 2)
            near = ops.pad(self.ref_point_head(waves.flatten(2)), [0, 0, 1, 0])
            x = layer(x, near, text, mask, seen, places, self.bias(at, *grid))
            hidden = self.output_layer_norm(x[:, 1:])
            moved = self.box_head(hidden)
            last, boxes = boxes, (moved + inverse_sigmoid(at, EDGE)).sigmoid()
            at = boxes.detach()
        found = (moved + inverse_sigmoid(last, EDGE)).sigmoid()
        presence = self.presence_head(self.presence_layer_norm(x[:, :1])).squeeze(-1)
        return hidden, found, presence.clamp(-MOST_PRESENCE, MOST_PRESENCE)


class Scoring(Module):
    """How well each query fits the text."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.text_mlp = ReluLayers(width, config.intermediate_size, width)
        self.text_mlp_out_norm = LayerNorm(width)
        self.text_proj, self.query_proj = Linear(width, width), Linear(width, width)

    def forward(self, queries: Tensor, text: Tensor, seen: Tensor) -> Tensor:
        """queries (N, Q, D), text (N, T, D), seen (N, T, 1) 1 where it is no padding → logits (N, Q)."""
        x = self.text_mlp_out_norm(self.text_mlp(text) + text)
        x = (x * seen).sum(1) / seen.sum(1).clamp(min=1)  # (N, D)
        scores = self.query_proj(queries) @ self.text_proj(x).unsqueeze(2)
        return (scores.squeeze(2) * queries.shape[2] ** -0.5).clamp(-MOST_SCORE, MOST_SCORE)


class PixelDecoder(Module):
    """The coarsest map, made finer with the others."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        width, count = config.hidden_size, config.num_upsampling_stages
        self.conv_layers = ModuleList(Conv2d(width, width, 3, padding=1) for _ in range(count))
        self.norms = ModuleList(GroupNorm(NORM_GROUPS, width) for _ in range(count))

    def forward(self, x: Tensor, finer: Sequence[Tensor]) -> Tensor:
        """x (N, D, rows, columns), finer maps (N or 1, D, H, W), the finest first → as the finest."""
        for layer, norm, other in zip(self.conv_layers, self.norms, finer[::-1], strict=False):
            x = (ops.interpolate(x, size=tuple(other.shape[2:]), mode="nearest") + other).to(other.dtype)
            x = norm(layer(x)).relu()
        return x


class Masks(Module):
    """The mask of each query."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.pixel_decoder = PixelDecoder(config)
        self.mask_embedder = Module()
        self.mask_embedder.layers = ModuleList(Linear(width, width) for _ in range(3))
        self.instance_projection = Conv2d(width, width, 1)
        self.prompt_cross_attn = Attention(width, config.num_attention_heads)
        self.prompt_cross_attn_norm = LayerNorm(width)

    def forward(
        self, queries: Tensor, seen: Tensor, text: Tensor, mask: Tensor, finer: Sequence[Tensor], grid: tuple[int, int]
    ) -> Tensor:
        """queries (N, Q, D), seen (N, S, D) of a grid, text and mask as EncoderLayer's, finer maps → (N, Q, H, W)."""
        seen = seen + self.prompt_cross_attn(self.prompt_cross_attn_norm(seen), text, text, mask)
        pixels = self.instance_projection(self.pixel_decoder(as_map(seen, *grid), finer))  # (N, D, H, W)
        first, second, last = self.mask_embedder.layers
        own = last(second(first(queries).relu()).relu())  # (N, Q, D)
        found = own @ pixels.to(own.dtype).flatten(2)  # (N, Q, H * W)
        return found.reshape(*queries.shape[:2], *pixels.shape[2:])


class Sam3(PictureAndText):
    """What each text names in a picture. The vectors of a text are those of its tokens, each with a last number that is
    1 where it is no padding.
    """

    template = "{}"
    usual_threshold = 0.3
    fixed_length = masks_texts = reads_boxes = True

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.encoder.hidden_size
        self.vision_encoder = Module()
        self.vision_encoder.backbone = Backbone(config.backbone)
        self.vision_encoder.neck = Module()
        self.vision_encoder.neck.fpn_layers = ModuleList(
            MapOfScale(config.backbone.hidden_size, width, scale) for scale in config.scales
        )
        self.text_encoder = TextTower(config.text_config, causal=True)
        self.text_projection = Linear(config.text_config.hidden_size, width)
        self.geometry_encoder = BoxEncoder(config.boxes)
        self.detr_encoder = Module()
        self.detr_encoder.layers = ModuleList(EncoderLayer(config.encoder) for _ in range(config.encoder.num_layers))
        self.detr_decoder = Decoder(config.decoder)
        self.mask_decoder = Masks(config.masks)
        self.dot_product_scoring = Scoring(config.decoder)

    @property
    def pixels(self) -> tuple[int, int]:
        return self.config.backbone.image_size

    @property
    def most(self) -> int:
        return self.config.text_config.max_position_embeddings

    def text_features(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """ids and attention_mask (N, T) → (N, T, D + 1)."""
        x = self.text_projection(self.text_encoder(ids))
        seen = ops.ones(*ids.shape, device=ids.device) if attention_mask is None else attention_mask.to(x.dtype)
        return ops.cat([x, seen.unsqueeze(2)], 2)

    def maps(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, C, H, W) → the maps (B, D, H', W') that are read, the finest first."""
        x = self.vision_encoder.backbone(pixel_values).permute(0, 3, 1, 2)
        return [layer(x) for layer in self.vision_encoder.neck.fpn_layers[: len(self.config.scales) - 1]]

    def found(
        self, pixel_values: Tensor, texts: Tensor, boxes: Tensor | None = None, kinds: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """pixel_values (B, C, H, W) and the vectors of texts (N, T, D + 1), where B is N or 1 → logits (N, Q) of each
        query, boxes (N, Q, 4): left, top, right and bottom as parts of the sides, the logit (N, 1) of whether there is
        any, and masks (N, Q, H', W').

        boxes (B, K, 4): centre, width and height, as parts of the sides, of what else says what to find; kinds (B, K)
        integers: 1 for what is like it, 0 for what is not; None: all are.
        """
        count, batch = texts.shape[0], pixel_values.shape[0]
        if batch not in (1, count):
            raise ArgumentError(f"{type(self).__name__}: {batch} pictures and {count} texts: give a text for each")
        width = self.config.encoder.hidden_size
        maps = self.maps(pixel_values)
        grid = int(maps[-1].shape[2]), int(maps[-1].shape[3])
        places = sines_of_places(*grid, width, device=texts.device)
        if boxes is not None:
            kinds = ops.ones(*boxes.shape[:2], dtype="int32", device=boxes.device) if kinds is None else kinds
            shown = self.geometry_encoder(boxes, kinds, maps[-1], places)  # (B, K + 1, D)
            shown = ops.pad(shown, [0, 1], value=1.0)
            texts = ops.cat([texts, shown.expand(count, *shown.shape[1:])], 1)
        text, seen = texts.narrow(2, 0, width), texts.narrow(2, width, 1)  # (N, T, D), (N, T, 1)
        mask = (seen > 0).reshape(count, 1, 1, -1)
        x = as_sequence(maps[-1])
        x = x.expand(count, *x.shape[1:])
        for layer in self.detr_encoder.layers:
            x = layer(x, places, text, mask)
        queries, boxes, presence = self.detr_decoder(x, places, text, mask, grid)
        masks = self.mask_decoder(queries, x, text, mask, maps[:-1], grid)
        return self.dot_product_scoring(queries, text, seen), corners(boxes), presence, masks

    def forward(self, pixel_values: Tensor, ids: Tensor) -> Any:
        """As `found`, for the texts ids (N, T), without padding."""
        return self.found(pixel_values, self.text_features(ids))

    def objects(self, outputs: Sequence[Tensor], threshold: float, names: Sequence[str]) -> list[list[dict[str, Any]]]:
        """The objects of one picture, of what `found` gives; the names are those of the texts. Each has `label`,
        `score`, `box`, and `mask`, an array (H', W'), above 0 where it is.
        """
        logits, boxes, presence, masks = outputs
        chances = logits.to("float32").sigmoid() * presence.to("float32").sigmoid()  # (N, Q)
        inside = masks.to("float32").sigmoid().cpu().numpy() - 0.5
        rows, places, found = chances.tolist(), boxes.to("float32").tolist(), []
        for name, scores, own, shapes in zip(names, rows, places, inside, strict=True):
            found += [
                {"label": name, "score": score, "box": box, "mask": shape, "whole": True}
                for score, box, shape in zip(scores, own, shapes, strict=True) if score > threshold
            ]  # fmt: skip
        return [sorted(found, key=lambda entry: -float(entry["score"]))]


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-object-detection": Sam3}

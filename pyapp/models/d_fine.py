"""D-FINE (Peng et al. 2024, arXiv 2410.13842): a detector of RT-DETR's kind, whose decoder finds how far each edge of a
box is from a first guess as a distribution that every layer refines.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.parameter import Parameter
from pyapp.nn.vision.detection import Detector, PredictionHead, attend_to_points, inverse_sigmoid
from pyapp.nn.vision.hgnet import Stem, stages_of
from pyapp.nn.vision.real_time_detection import Filter, HybridEncoder, LookingLayer, PartialPairs, Promising
from pyapp.nn.vision.vision import check_pictures

from .loading.config import require
from .loading.pictures_config import METHODS, WIDEST, HGNetConfig, RealTimeDetectorConfig, check_numbers

MODEL_TYPES = ("d_fine",)
IMAGE_PROCESSOR = "RTDetr"  # of files that name none
BASE = "model"  # the name of all but the heads in files
# Of the training; the decoder's own; computed.
IGNORED = r"(model\.)?denoising_class_embed\.weight|(class_embed|bbox_embed)\..*|.*\.encoder_attn\.num_points_scale"
PAIRS = 3  # of a joint, times depth_mult
LARGEST = 65504.0  # of float16
FARTHEST = 10.0  # of the numbers that say where a query is


@dataclass(frozen=True, kw_only=True)
class Config(RealTimeDetectorConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    decoder_n_points: tuple[int, ...]  # of each map
    depth_mult: float = 1.0
    max_num_bins: int = 32
    top_prob_values: int = 4
    lqe_hidden_dim: int = 64
    lqe_layers: int = 2
    reg_scale: float = 4.0
    up: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("decoder_n_points", self.decoder_n_points, 64, count=len(self.stages))
        require(0.17 < self.depth_mult <= 16, f"depth_mult is {self.depth_mult}, expected a number from 0.17 to 16")
        bins = self.max_num_bins
        require(4 <= bins <= 1 << 10 and bins % 2 == 0, f"max_num_bins is {bins:,}, expected an even number from 4")
        most = min(bins + 1, 64)
        require(self.top_prob_values <= most, f"top_prob_values is {self.top_prob_values:,}, expected at most {most}")
        require(self.lqe_hidden_dim <= WIDEST, f"lqe_hidden_dim is {self.lqe_hidden_dim:,}")
        require(self.lqe_layers <= 16, f"lqe_layers is {self.lqe_layers:,}, expected at most 16")
        require(self.inner >= 1, f"hidden_expansion {self.hidden_expansion} leaves no channels")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for what is not supported."""
        layers, last = values.get("decoder_layers", cls.decoder_layers), values.get("eval_idx", -1)
        whole = last in (-1, None) or (type(last) is int and last + 1 == layers)
        require(whole, f"eval_idx is {last!r:.60}: only the boxes of the last layer are supported")
        read = super().read
        points = values.get("decoder_n_points", 4)
        if type(points) is not int:
            return read(values, HGNetConfig, ("num_feature_levels",))
        maps = values.get("num_feature_levels", 3)
        require(type(maps) is int and 1 <= maps <= 16, f"num_feature_levels is {maps!r:.60}, expected up to 16")
        return read({**values, "decoder_n_points": [points] * maps}, HGNetConfig, ("num_feature_levels",))

    @property
    def inner(self) -> int:
        """The channels inside a joint."""
        return round(self.hidden_expansion * self.encoder_hidden_dim // 2)


class Joint(Module):
    """Two maps that lie on each other become one: half of the channels go on through filters, and what each step has
    found is kept (GELAN, Wang et al. 2024, arXiv 2402.13616).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, inner, pairs = config.encoder_hidden_dim, config.inner, round(PAIRS * config.depth_mult)
        self.conv1 = Filter(config, 2 * width, 2 * width, 1, 1, "silu")
        self.csp_rep1 = PartialPairs(config, width, inner, inner, pairs)
        self.conv2 = Filter(config, inner, inner, 3, 1, "silu")
        self.csp_rep2 = PartialPairs(config, inner, inner, inner, pairs)
        self.conv3 = Filter(config, inner, inner, 3, 1, "silu")
        self.conv4 = Filter(config, 2 * width + 2 * inner, width, 1, 1, "silu")

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 2 * C, H, W) → (B, C, H, W)."""
        x = self.conv1(x)
        first = self.conv2(self.csp_rep1(x.narrow(1, x.shape[1] // 2, x.shape[1] // 2)))  # (B, inner, H, W)
        second = self.conv3(self.csp_rep2(first))  # (B, inner, H, W)
        return self.conv4(ops.cat([x, first, second], 1))


class Halving(Module):
    """A filter of 1 x 1, and one within each channel that halves the map's sides."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.encoder_hidden_dim
        self.conv1 = Filter(config, width, width, 1, 1, None)
        self.conv2 = Filter(config, width, width, 3, 2, None, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H / 2, W / 2), rounded up."""
        return self.conv2(self.conv1(x))


class PointAttention(Module):
    """Attention of queries to a few points in and around their boxes, of each map as many as the configuration says;
    the maps are read as they are.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.counts = config.decoder_attention_heads, config.decoder_n_points
        self.scale, self.nearest = config.decoder_offset_scale, config.decoder_method == METHODS[1]
        points = self.heads * sum(self.counts)
        self.sampling_offsets = Linear(config.d_model, 2 * points)
        self.attention_weights = Linear(config.d_model, points)

    def forward(self, x: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """x (B, Q, D) with boxes (B, Q, 4), source (B, S, D) of maps of `sizes` → (B, Q, D)."""
        steps = self.sampling_offsets(x).reshape(*x.shape[:2], self.heads, -1, 2)  # (B, Q, H, N, 2)
        scales = ops.tensor([self.scale / count for count in self.counts for _ in range(count)], device=x.device)
        box = boxes.reshape(*boxes.shape[:2], 1, 1, 4)
        places = box[..., :2] + steps * scales.to(x.dtype).unsqueeze(1) * box[..., 2:]
        return attend_to_points(self.attention_weights(x), places, source, sizes, self.counts, self.nearest)


class Gate(Module):
    """The norm of a sum of two vectors, each weighted by what both are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = Linear(2 * width, 2 * width)
        self.norm = LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """x and y (B, Q, D) → (B, Q, D)."""
        own, other = ops.sigmoid(self.gate(ops.cat([x, y], 2))).chunk(2, 2)  # (B, Q, D)
        return self.norm(own * x + other * y)


class DecoderLayer(LookingLayer):
    """A layer of the decoder."""

    limit = LARGEST

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.encoder_attn = PointAttention(config)
        self.gateway = Gate(config.d_model)

    def look(self, x: Tensor, places: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        return self.gateway(x, self.encoder_attn(x + places, boxes, source, sizes))


class Quality(Module):
    """How much the distributions of a box's edges say that the box is right, as an addend of its labels' logits."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.most = config.top_prob_values
        self.reg_conf = PredictionHead(4 * (self.most + 1), config.lqe_hidden_dim, 1, config.lqe_layers)

    def forward(self, chances: Tensor) -> Tensor:
        """chances (B, Q, 4, N) → (B, Q, 1)."""
        best = ops.topk(chances, self.most, 3)[0]  # (B, Q, 4, most)
        return self.reg_conf(ops.cat([best, best.mean(3, True)], 3).flatten(2))


class Decoder(Module):
    """The layers; each refines the distributions of the edges' distances."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, layers = config.d_model, config.decoder_layers
        self.bins = config.max_num_bins
        self.layers = ModuleList(DecoderLayer(config) for _ in range(layers))
        self.query_pos_head = PredictionHead(4, 2 * width, width, 2)
        self.pre_bbox_head = PredictionHead(width, width, 4)
        self.bbox_embed = ModuleList(PredictionHead(width, width, 4 * (self.bins + 1)) for _ in range(layers))
        self.class_embed = ModuleList(Linear(width, len(config.labels)) for _ in range(layers))
        self.lqe_layers = ModuleList(Quality(config) for _ in range(layers))
        self.reg_scale = Parameter(ops.tensor([float(config.reg_scale)]), requires_grad=False)
        self.up = Parameter(ops.tensor([float(config.up)]), requires_grad=False)

    def distances(self) -> Tensor:
        """The distance that each bin stands for (N,), in widths or heights of the first box over reg_scale: 0 in the
        middle, ever larger steps to both sides, and a last one that is twice as far.
        """
        bound = self.up.abs() * self.reg_scale.abs()  # (1,)
        powers = ops.arange(1, self.bins // 2, dtype="float32", device=bound.device) * (2 / (self.bins - 2))
        right = (powers * bound.log1p()).expm1()  # (N / 2 - 1,)
        return ops.cat([-2 * bound, -right.flip(0), ops.zeros_like(bound), right, 2 * bound])

    def placed(self, boxes: Tensor, distances: Tensor) -> Tensor:
        """The boxes (B, Q, 4) whose edges are moved out by distances (B, Q, 4): left, top, right, bottom."""
        scale = self.reg_scale.abs()
        sides = boxes[..., 2:] / scale  # (B, Q, 2)
        first = boxes[..., :2] - (0.5 * scale + distances[..., :2]) * sides
        last = boxes[..., :2] + (0.5 * scale + distances[..., 2:]) * sides
        return ops.cat([(first + last) / 2, last - first], 2)

    def forward(self, x: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """x (B, Q, D) with boxes (B, Q, 4), source (B, S, D) of maps of `sizes` → the last layer's logits (B, Q,
        labels) and boxes (B, Q, 4).
        """
        distances = self.distances()
        first = before = edges = chances = None
        for layer, head in zip(self.layers, self.bbox_embed, strict=True):
            boxes = boxes.detach()
            x = layer(x, self.query_pos_head(boxes).clamp(-FARTHEST, FARTHEST), boxes, source, sizes)
            if first is None:
                first = ops.sigmoid(self.pre_bbox_head(x) + inverse_sigmoid(boxes)).detach()
            found = head(x if before is None else x + before)  # (B, Q, 4 * N)
            edges = found if edges is None else found + edges
            before = x.detach()
            chances = ops.softmax(edges.reshape(*edges.shape[:2], 4, -1), 3)  # (B, Q, 4, N)
            boxes = self.placed(first, (chances * distances).sum(3))
        last = len(self.layers) - 1
        return self.class_embed[last](x) + self.lqe_layers[last](chances), boxes


class DFineForObjectDetection(Detector):
    """Labels and boxes of the objects in pictures whose sides are multiples of 32 pixels."""

    background = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        encoder = HybridEncoder(config, partial(Joint, config), partial(Halving, config), None)
        seen = config.backbone
        self.model = Promising(
            config, Stem(seen), stages_of(seen), seen.stage_out_channels, encoder, Decoder(config),
            projected=config.d_model != config.encoder_hidden_dim,
        )  # fmt: skip

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        check_pictures("D-FINE", pixel_values, self.config.num_channels)
        return self.model(pixel_values)


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": DFineForObjectDetection}

"""SuperGlue (Sarlin et al. 2019, arXiv 1911.11763): the points of two pictures look at their own picture and at the
other one by turns; the matches are an optimal transport between them.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm1d, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.key_points import KeyPoints, PointMatcher, SuperPoint, mutual_matches

from .loading.config import DEEPEST, require
from .loading.pictures_config import WIDEST, check_numbers
from .loading.points_config import MatcherConfig

MODEL_TYPES = ("superglue",)
IMAGE_PROCESSOR = "SuperGlue"  # of files that name none
BASE = ""
KINDS = "self", "cross"
HIDDEN = -3e38  # the score of points that are not there
SPREAD = 0.7  # of the longer side, which is the unit of places


@dataclass(frozen=True, kw_only=True)
class Config(MatcherConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    hidden_size: int = 256
    keypoint_encoder_sizes: tuple[int, ...] = (32, 64, 128, 256)
    gnn_layers_types: tuple[str, ...] = KINDS * 9
    num_attention_heads: int = 4
    sinkhorn_iterations: int = 100
    matching_threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads("hidden_size", self.hidden_size, self.num_attention_heads)
        made = self.keypoint_detector_config.descriptor_decoder_dim
        require(made == self.hidden_size, f"hidden_size is {self.hidden_size}, but descriptors have {made} numbers")
        check_numbers("keypoint_encoder_sizes", self.keypoint_encoder_sizes, WIDEST)
        kinds = self.gnn_layers_types
        plausible = 1 <= len(kinds) <= DEEPEST and all(kind in KINDS for kind in kinds)
        require(plausible, f"gnn_layers_types is {kinds!r:.60}, expected {' or '.join(KINDS)} for each layer")
        require(self.sinkhorn_iterations <= 1 << 14, f"sinkhorn_iterations is {self.sinkhorn_iterations:,}")


class Normed(Module):
    """A linear layer, a norm of batches and a ReLU."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.linear = Linear(before, width)
        self.batch_norm = BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (N, before) → (N, width)."""
        return ops.relu(self.batch_norm(self.linear(x)))


def layers_of(*widths: int) -> ModuleList:
    """Layers from one width to the next, the last of them without a norm."""
    pairs = list(zip(widths, widths[1:], strict=False))
    return ModuleList([*(Normed(*pair) for pair in pairs[:-1]), Linear(*pairs[-1])])


def through(layers: ModuleList, x: Tensor) -> Tensor:
    """x (N, before) through all layers → (N, width)."""
    for layer in layers:
        x = layer(x)
    return x


class Propagation(Module):
    """Attention of points to those of a picture, and what it changes of them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        own = Module()
        own.query, own.key, own.value = Linear(width, width), Linear(width, width), Linear(width, width)
        self.attention = Module()
        self.attention.add_module("self", own)
        self.attention.output = Module()
        self.attention.output.dense = Linear(width, width)
        self.mlp = layers_of(2 * width, 2 * width, width)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """x (N, D) attending to source (M, D) → (N, D)."""
        own = self.attention._modules["self"]
        assert own is not None
        q, k, v = (
            layer(y).reshape(1, y.shape[0], self.heads, -1)
            for layer, y in ((own.query, x), (own.key, source), (own.value, source))
        )
        found = self.attention.output.dense(attend(q, k, v, None)[0])
        return x + through(self.mlp, ops.cat([x, found], 1))


class SuperGlue(PointMatcher):
    """The detector of points, and the network that matches them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, width = config, config.hidden_size
        self.keypoint_detector = SuperPoint(config.keypoint_detector_config)
        self.keypoint_encoder = Module()
        self.keypoint_encoder.encoder = layers_of(3, *config.keypoint_encoder_sizes, width)
        self.gnn = Module()
        self.gnn.layers = ModuleList(Propagation(config) for _ in config.gnn_layers_types)
        self.final_projection = Module()
        self.final_projection.final_proj = Linear(width, width)
        self.bin_score = new_parameter(ops.ones)

    def matches(self, first: KeyPoints, second: KeyPoints, size: tuple[int, int]) -> list[tuple[Any, Tensor]]:
        config = self.config
        x, y = self._encoded(first, size), self._encoded(second, size)  # (N, D), (M, D)
        for kind, layer in zip(config.gnn_layers_types, self.gnn.layers, strict=True):
            x, y = (layer(x, x), layer(y, y)) if kind == "self" else (layer(x, y), layer(y, x))
        last = self.final_projection.final_proj
        scores = last(x) @ last(y).transpose(0, 1) / sqrt(config.hidden_size)  # (N, M)
        # As transformers: to the picture with fewer points come some that fit no other one.
        most = max(first.count, second.count)
        square = ops.pad(scores, (0, most - second.count, 0, most - first.count), value=HIDDEN)
        plan = transport(square, self.bin_score, config.sinkhorn_iterations)[: first.count, : second.count]
        return mutual_matches(plan.exp(), config.matching_threshold, False)

    def _encoded(self, points: KeyPoints, size: tuple[int, int]) -> Tensor:
        """Descriptors with their places and scores (N, D)."""
        high, wide = size
        middle = ops.tensor([wide / 2, high / 2], device=points.places.device)
        places = (points.places - middle) / (max(size) * SPREAD)
        given = ops.cat([places, points.scores.unsqueeze(1)], 1)  # (N, 3)
        return points.descriptors + through(self.keypoint_encoder.encoder, given)


def transport(scores: Tensor, rest: Tensor, iterations: int) -> Tensor:
    """The logarithms of the plan (N + 1, M + 1) that brings N points to M, of which some go to, or come from, none: by
    the scores (N, M) of pairs and the one of none (Sinkhorn & Knopp 1967). Each point has the mass 1.
    """
    rows, columns = int(scores.shape[0]), int(scores.shape[1])
    beside, below = rest.expand(rows, 1), rest.expand(1, columns + 1)
    x = ops.cat([ops.cat([scores, beside], 1), below])
    unit = -log(rows + columns)
    sources = ops.tensor([unit] * rows + [log(columns) + unit], device=x.device)
    targets = ops.tensor([unit] * columns + [log(rows) + unit], device=x.device)
    u, v = ops.zeros(rows + 1, device=x.device), ops.zeros(columns + 1, device=x.device)
    for _ in range(iterations):
        u = sources - ops.logsumexp(x + v.unsqueeze(0), 1)
        v = targets - ops.logsumexp(x + u.unsqueeze(1), 0)
    return x + u.unsqueeze(1) + v.unsqueeze(0) - unit


TASKS: Mapping[str, Callable[[Config], Module]] = {"keypoint-matching": SuperGlue}

"""LightGlue (Lindenberger et al. 2023, arXiv 2306.13643): the points of two pictures look at their own picture and at
the other one; it leaves out points without a match, and ends as soon as it is sure of the others.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.nn import LayerNorm, Linear, Module, ModuleList, Sequential
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.key_points import KeyPoints, PointMatcher, SuperPoint, mutual_matches

from .loading.config import require
from .loading.points_config import MatcherConfig

MODEL_TYPES = ("lightglue",)
IMAGE_PROCESSOR = "LightGlue"  # of files that name none
BASE = ""


@dataclass(frozen=True, kw_only=True)
class Config(MatcherConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    descriptor_dim: int = 256
    num_hidden_layers: int = 9
    num_attention_heads: int = 4
    num_key_value_heads: int | None = None
    depth_confidence: float = 0.95
    width_confidence: float = 0.99
    filter_threshold: float = 0.1
    hidden_act: str = "gelu"
    attention_bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, width = self.num_attention_heads, self.descriptor_dim
        self.check_heads("descriptor_dim", width, heads)
        require(width // heads % 2 == 0, f"heads of {width // heads} features cannot be rotated in pairs")
        given = self.num_key_value_heads
        require(given in (None, heads), f"num_key_value_heads is {given}, expected num_attention_heads {heads}")


class PointAttention(Module):
    """Attention of points to those of a picture."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, width, bias = config.num_attention_heads, config.descriptor_dim, config.attention_bias
        self.q_proj, self.k_proj = Linear(width, width, bias), Linear(width, width, bias)
        self.v_proj, self.o_proj = Linear(width, width, bias), Linear(width, width, bias)

    def forward(self, x: Tensor, source: Tensor, angles: Tensor | None = None) -> Tensor:
        """x (N, D), source (M, D), which is x if there are angles (N, head / 2) → (N, D)."""
        q, k, v = (
            layer(y).reshape(1, y.shape[0], self.heads, -1)
            for layer, y in ((self.q_proj, x), (self.k_proj, source), (self.v_proj, source))
        )
        if angles is not None:
            q, k = _turned(q, angles), _turned(k, angles)
        return self.o_proj(attend(q, k, v, None)[0])


def _turned(x: Tensor, angles: Tensor) -> Tensor:
    """x (1, N, H, head) with its pairs of neighbours turned by angles (N, head / 2)."""
    pairs = x.reshape(*x.shape[:3], -1, 2)
    cosines, sines = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)  # (N, 1, head / 2)
    left, right = pairs[..., 0], pairs[..., 1]
    return ops.stack([left * cosines - right * sines, right * cosines + left * sines], -1).reshape(x.shape)


class FeedForward(Module):
    """Two layers with a norm and an activation between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        inner = 2 * config.descriptor_dim
        self.fc1 = Linear(inner, inner)
        self.fc2 = Linear(inner, config.descriptor_dim)
        self.layer_norm = LayerNorm(inner)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, found: Tensor) -> Tensor:
        """x and found (N, D) → x changed by both (N, D)."""
        return x + self.fc2(self.activation(self.layer_norm(self.fc1(ops.cat([x, found], 1)))))


class Layer(Module):
    """Attention within each picture, then to the other one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.self_attention, self.self_mlp = PointAttention(config), FeedForward(config)
        self.cross_attention, self.cross_mlp = PointAttention(config), FeedForward(config)

    def forward(self, pair: list[Tensor], angles: list[Tensor]) -> list[Tensor]:
        """The points (N, D) of both pictures and their angles (N, head / 2) → both (N, D)."""
        x, y = (self.self_mlp(x, self.self_attention(x, x, own)) for x, own in zip(pair, angles, strict=True))
        across = self.cross_attention
        return [self.cross_mlp(x, across(x, y)), self.cross_mlp(y, across(y, x))]


class Assignment(Module):
    """How surely points are the same, after a layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.final_projection = Linear(width, width)
        self.matchability = Linear(width, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """x (N, D), y (M, D) → the chances (N, M)."""
        scale = sqrt(sqrt(x.shape[1]))
        scores = (self.final_projection(x) / scale) @ (self.final_projection(y) / scale).transpose(0, 1)
        sure = ops.logsigmoid(self.matchability(x)) + ops.logsigmoid(self.matchability(y)).transpose(0, 1)
        return (ops.log_softmax(scores, 1) + ops.log_softmax(scores, 0) + sure).exp()


class LightGlue(PointMatcher):
    """The detector of points, and the network that matches them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, width, layers = config, config.descriptor_dim, config.num_hidden_layers
        self.keypoint_detector = SuperPoint(config.keypoint_detector_config)
        before = config.keypoint_detector_config.descriptor_decoder_dim
        self.input_projection: Module = Linear(before, width) if before != width else Sequential()
        self.positional_encoder = Module()
        self.positional_encoder.projector = Linear(2, width // config.num_attention_heads // 2, bias=False)
        self.transformer_layers = ModuleList(Layer(config) for _ in range(layers))
        self.match_assignment_layers = ModuleList(Assignment(width) for _ in range(layers))
        self.token_confidence = ModuleList(Module() for _ in range(layers - 1))
        for part in self.token_confidence:
            part.token = Linear(width, 1)

    def matches(self, first: KeyPoints, second: KeyPoints, size: tuple[int, int]) -> list[tuple[Any, Tensor]]:
        config, both = self.config, (first, second)
        counts = [points.count for points in both]
        pair = [self.input_projection(points.descriptors.detach()) for points in both]
        angles = [self.positional_encoder.projector(_centred(points.places, size)) for points in both]
        kept = [np.arange(count) for count in counts]  # the points that are still there
        layer = 0
        for layer, block in enumerate(self.transformer_layers):
            pair = block(pair, angles)
            if layer == config.num_hidden_layers - 1:
                break
            sure = None
            if config.depth_confidence > 0:
                token = self.token_confidence[layer].token
                sure = [_chances(token, x) for x in pair]
                doubts = sum(int((own < self._threshold(layer)).sum()) for own in sure)
                if 1 - doubts / sum(counts) > config.depth_confidence:
                    break
            if config.width_confidence > 0:
                pair, angles, kept = self._without(layer, pair, angles, kept, sure)
                if min(map(len, kept)) == 0:
                    return [(np.full(count, -1), ops.zeros(count, device=self.device)) for count in counts]
        chances = self.match_assignment_layers[layer](*pair)
        found = mutual_matches(chances, config.filter_threshold, True)
        return [
            self._among_all(found[i], kept[i], kept[1 - i], counts[i]) for i in range(2)
        ]  # of the points that were left out nothing is known

    def _threshold(self, layer: int) -> float:
        """How sure a point must be after a layer to count as sure."""
        return min(max(0.8 + 0.1 * exp(-4.0 * layer / self.config.num_hidden_layers), 0.0), 1.0)

    def _without(
        self, layer: int, pair: list[Tensor], angles: list[Tensor], kept: list[Any], sure: list[Any] | None
    ) -> tuple[list[Tensor], list[Tensor], list[Any]]:
        """What is given without the points that are surely in no match."""
        matchability, least = self.match_assignment_layers[layer].matchability, 1 - self.config.width_confidence
        found: tuple[list[Tensor], list[Tensor], list[Any]] = ([], [], [])
        for i, x in enumerate(pair):
            stays = _chances(matchability, x) > least
            if sure is not None:
                stays = stays | (sure[i] <= self._threshold(layer))
            index = ops.tensor(np.flatnonzero(stays).tolist(), dtype="int64", device=x.device)
            for rows, own in zip(found, (x, angles[i]), strict=False):
                rows.append(own.index_select(0, index))
            found[2].append(kept[i][stays])
        return found

    def _among_all(self, found: tuple[Any, Tensor], own: Any, other: Any, count: int) -> tuple[Any, Tensor]:
        """The matches of points that were kept, by their numbers among all `count` points of a picture."""
        numbers, scores = found
        every = np.full(count, -1, "int64")
        every[own] = np.where(numbers < 0, -1, other[numbers])
        if len(own) == count:
            return every, scores
        where = np.full(count, len(own), "int64")  # the place of a zero behind the scores
        where[own] = np.arange(len(own))
        scores = ops.cat([scores, ops.zeros(1, device=scores.device)])
        return every, scores.index_select(0, ops.tensor(where.tolist(), dtype="int64", device=scores.device))


def _chances(layer: Module, x: Tensor) -> Any:
    """The numbers from 0 to 1 that a layer gives points x (N, D), (N,) float32 of NumPy."""
    with no_grad():
        return ops.sigmoid(layer(x)).reshape(-1).cpu().numpy()


def _centred(places: Tensor, size: tuple[int, int]) -> Tensor:
    """Places (N, 2) in pixels of a picture of `size` (height, width), from its middle, in halves of the longer side."""
    high, wide = size
    return (places - ops.tensor([wide / 2, high / 2], device=places.device)) / (max(size) / 2)


TASKS: Mapping[str, Callable[[Config], Module]] = {"keypoint-matching": LightGlue}

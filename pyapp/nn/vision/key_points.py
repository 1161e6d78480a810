"""Key points of pictures with their descriptors (SuperPoint, DeTone et al. 2017, arXiv 1712.07629), and what models
that match those of two pictures share.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...dataclass import dataclass
from ...engine import Tensor, no_grad, ops
from ...engine.buffers import int32_tensor
from ...engine.lazy import np
from ...errors import InputError
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.pooling import MaxPool2d
from ..module import Module
from .vision import ImageModel, check_pictures

CELL = 8  # pixels of a side of a place in the last map
ROUNDS = 2  # after the first, in which points that stand between weaker ones are found


@dataclass(frozen=True)
class KeyPoints:
    """The points of a picture: where they are, x and y in pixels (N, 2), how surely there is one (N,), and what it
    looks like there (N, D).
    """

    places: Tensor
    scores: Tensor
    descriptors: Tensor

    @property
    def count(self) -> int:
        """The number N of points."""
        return int(self.places.shape[0])


class Filters(Module):
    """Two filters of 3 x 3 pixels, and a pool that halves the sides, if there is one."""

    def __init__(self, before: int, width: int, pools: bool) -> None:
        super().__init__()
        self.conv_a = Conv2d(before, width, 3, padding=1)
        self.conv_b = Conv2d(width, width, 3, padding=1)
        self.pool = MaxPool2d(2, 2) if pools else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H', W')."""
        x = ops.relu(self.conv_b(ops.relu(self.conv_a(x))))
        return x if self.pool is None else self.pool(x)


class SuperPoint(ImageModel):
    """The network, for grey pictures of any size; of others it reads the first channel. `config` has the fields of
    SuperPointConfig.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        widths, inner = config.encoder_hidden_sizes, config.decoder_hidden_size
        self.encoder = Module()
        self.encoder.conv_blocks = ModuleList(
            Filters(before, width, i < len(widths) - 1)
            for i, (before, width) in enumerate(zip((1, *widths[:-1]), widths, strict=True))
        )
        self.keypoint_decoder = Module()
        self.keypoint_decoder.conv_score_a = Conv2d(widths[-1], inner, 3, padding=1)
        self.keypoint_decoder.conv_score_b = Conv2d(inner, config.keypoint_decoder_dim, 1)
        self.descriptor_decoder = Module()
        self.descriptor_decoder.conv_descriptor_a = Conv2d(widths[-1], inner, 3, padding=1)
        self.descriptor_decoder.conv_descriptor_b = Conv2d(inner, config.descriptor_decoder_dim, 1)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """pixel_values (B, C, H, W) → places (B, N, 2), x and y as parts of the sides, scores (B, N) and descriptors
        (B, N, D) of the points; after those of a picture with fewer come zeros.
        """
        found = self.points(pixel_values)
        sides = [float(pixel_values.shape[3]), float(pixel_values.shape[2])]
        places, scores, descriptors = (
            padded([getattr(own, name) for own in found]) for name in ("places", "scores", "descriptors")
        )
        return places / ops.tensor(sides, device=places.device), scores, descriptors

    def points(self, pixel_values: Tensor) -> list[KeyPoints]:
        """pixel_values (B, C, H, W) → the points of each picture."""
        check_pictures("SuperPoint", pixel_values, self.config.num_channels, least=CELL)
        x = pixel_values.narrow(1, 0, 1)
        for block in self.encoder.conv_blocks:
            x = block(x)
        scores, maps = self._scores(x), self._descriptors(x)
        return [self._points(scores[i], maps.narrow(0, i, 1)) for i in range(x.shape[0])]

    def _scores(self, x: Tensor) -> Tensor:
        """The last map (B, C, rows, columns) → how surely each pixel is a point (B, 8 * rows, 8 * columns)."""
        decoder = self.keypoint_decoder
        x = ops.softmax(decoder.conv_score_b(ops.relu(decoder.conv_score_a(x))), 1)  # (B, 65, rows, columns)
        count, _, rows, columns = x.shape
        x = x.narrow(1, 0, CELL * CELL).permute(0, 2, 3, 1).reshape(count, rows, columns, CELL, CELL)
        return x.permute(0, 1, 3, 2, 4).reshape(count, rows * CELL, columns * CELL)

    def _descriptors(self, x: Tensor) -> Tensor:
        """The last map (B, C, rows, columns) → descriptors of the length 1 (B, D, rows, columns)."""
        decoder = self.descriptor_decoder
        return ops.normalize(decoder.conv_descriptor_b(ops.relu(decoder.conv_descriptor_a(x))), dim=1)

    def _points(self, scores: Tensor, descriptors: Tensor) -> KeyPoints:
        """The points of a picture by the scores (H, W) of its pixels and the map (1, D, rows, columns)."""
        config, edge = self.config, self.config.border_removal_distance
        with no_grad():
            highest = highest_around(scores.detach(), config.nms_radius).cpu().numpy()
        values = np.where(highest, scores.detach().cpu().numpy(), 0.0)
        row, column = np.nonzero(values > config.keypoint_threshold)
        inside = (row >= edge) & (column >= edge)  # as transformers, which keeps those near the other two borders
        row, column = row[inside], column[inside]
        if 0 <= config.max_keypoints < row.size:
            best = np.argsort(-values[row, column], kind="stable")[: config.max_keypoints]
            row, column = row[best], column[best]
        index = ops.tensor((row * values.shape[1] + column).tolist(), dtype="int64", device=scores.device)
        places = np.stack([column, row], 1).astype("float32").reshape(-1, 2)
        chosen = scores.reshape(-1).index_select(0, index)  # (N,)
        return KeyPoints(ops.tensor(places, device=scores.device), chosen, _at_places(descriptors, places))


def highest_around(scores: Tensor, radius: int) -> Tensor:
    """scores (H, W) → bool (H, W): which pixels are points, because no pixel nearer than `radius` has a higher score,
    or only those that are not points themselves.
    """

    def largest(x: Tensor) -> Tensor:
        return ops.max_pool2d(x.reshape(1, 1, *x.shape), 2 * radius + 1, 1, radius).reshape(x.shape)

    found = scores == largest(scores)
    for _ in range(ROUNDS):
        near = largest(found.to("float32")) > 0
        rest = ops.where(near, 0.0, scores)
        found = found | ((rest == largest(rest)) & ~near)
    return found


def _at_places(x: Tensor, places: Any) -> Tensor:
    """A map (1, D, rows, columns) at places (N, 2) in pixels → descriptors of the length 1 (N, D)."""
    if not len(places):
        return ops.zeros(0, x.shape[1], device=x.device)
    half = CELL / 2 - 0.5
    ends = np.array([x.shape[3] * CELL - half - 1, x.shape[2] * CELL - half - 1], "float32")  # the last place's centre
    grid = (places - np.float32(half)) / ends * 2 - 1
    found = ops.grid_sample(x, ops.tensor(grid.reshape(1, 1, -1, 2), device=x.device), align_corners=True)
    return ops.normalize(found[0, :, 0].transpose(0, 1), dim=1)


def padded(rows: list[Tensor]) -> Tensor:
    """Tensors (N, ...) of several lengths, zeros after the shorter ones → (B, N, ...)."""
    most = max(int(row.shape[0]) for row in rows)
    found = []
    for row in rows:
        more = ops.zeros(most - int(row.shape[0]), *row.shape[1:], device=row.device)
        found.append(ops.cat([row, more]) if more.shape[0] else row)
    return ops.stack(found)


class PointMatcher(ImageModel):
    """A model that matches the points that its `keypoint_detector` finds in two pictures."""

    keypoint_detector: SuperPoint

    def matches(self, first: KeyPoints, second: KeyPoints, size: tuple[int, int]) -> list[tuple[Any, Tensor]]:
        """The points of two pictures of `size` (height, width) → of each picture, for each point the number of that of
        the other one, -1: none, (N,) int64 as NumPy has them, and how surely it is that one (N,), 0 where there is
        none.
        """
        raise NotImplementedError

    def pair(self, pixel_values: Tensor) -> tuple[list[KeyPoints], list[tuple[Any, Tensor]]]:
        """Two pictures (2, C, H, W) → the points of each, and their matches, as `matches` gives them."""
        found = self.keypoint_detector.points(pixel_values)
        return found, self.matched(found[0], found[1], (int(pixel_values.shape[2]), int(pixel_values.shape[3])))

    def matched(self, first: KeyPoints, second: KeyPoints, size: tuple[int, int]) -> list[tuple[Any, Tensor]]:
        """As `matches`, also of pictures without points."""
        if min(first.count, second.count) == 0:
            return [(np.full(own.count, -1), ops.zeros(own.count, device=self.device)) for own in (first, second)]
        return self.matches(first, second, size)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pairs of pictures (B, 2, C, H, W) → the places (B, 2, N, 2) of their points, x and y as parts of the sides,
        the number (B, 2, N) float32 of each point's match in the other picture, -1: none, and how surely it is that one
        (B, 2, N). After the points of a picture with fewer come zeros, and -1.
        """
        if pixel_values.ndim != 5 or pixel_values.shape[1] != 2:
            raise InputError(f"{type(self).__name__}: pairs are (B, 2, C, H, W), not {tuple(pixel_values.shape)}")
        pairs = [self.pair(pixel_values[i]) for i in range(pixel_values.shape[0])]
        sides = ops.tensor([float(pixel_values.shape[4]), float(pixel_values.shape[3])], device=self.device)
        shape, device = (len(pairs), 2), self.device
        places = padded([own.places for found, _ in pairs for own in found])
        numbers = padded([int32_tensor((to + 1).tolist(), device).to("float32") for _, own in pairs for to, _ in own])
        scores = padded([values for _, own in pairs for _, values in own])
        return (
            places.reshape(*shape, *places.shape[1:]) / sides,
            numbers.reshape(*shape, -1) - 1,
            scores.reshape(*shape, -1),
        )


def mutual_matches(chances: Tensor, least: float, weak: bool) -> list[tuple[Any, Tensor]]:
    """How surely two points are the same (N, M) → as PointMatcher.matches: points that are the surest of each other,
    above `least`. weak: whether those that are not above it keep their scores.
    """
    values = chances.detach().cpu().numpy()
    to, back = values.argmax(1), values.argmax(0)  # (N,), (M,)
    mutual, returned = back[to] == np.arange(len(to)), to[back] == np.arange(len(back))
    best = values.max(1)
    sure = mutual & (best > least)
    counted = mutual if weak else sure
    index = ops.tensor((np.arange(len(to)) * len(back) + to).tolist(), dtype="int64", device=chances.device)
    scores = chances.reshape(-1).index_select(0, index) * ops.tensor(counted.astype("float32"), device=chances.device)
    others = scores.index_select(0, ops.tensor(back.tolist(), dtype="int64", device=chances.device))
    others = others * ops.tensor(returned.astype("float32"), device=chances.device)
    return [(np.where(sure, to, -1), scores), (np.where(returned & sure[back], back, -1), others)]

"""Layers that move the pixels of pictures at random while a model is trained."""

from __future__ import annotations

from math import pi
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...engine.ops.resample import grid_sample
from .. import image_warps, random
from .images import (
    RandomPictureLayer,
    centred_boxes,
    draw,
    happens,
    of_each,
    of_shape,
    part_of_shape,
    resized,
    scaled_boxes,
)

__all__ = [
    "RandomCrop", "RandomElasticTransform", "RandomFlip", "RandomPerspective", "RandomRotation", "RandomShear",
    "RandomTranslation", "RandomZoom",
]  # fmt: skip

_FILLS = {"reflect": "reflection", "nearest": "border", "constant": "zeros", "wrap": ""}


class _Moving(RandomPictureLayer):
    """Base: masks move as the pictures do, with the nearest pixel's value."""

    moves = True

    def moved(self, x: Tensor, drawn: Any, interpolation: str) -> Tensor:
        """The pictures (B, H, W, C) with their pixels in other places."""
        raise NotImplementedError

    interpolation = "bilinear"

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        return self.moved(x, drawn, self.interpolation)

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self.moved(x, drawn, "nearest") if training and drawn is not None else x


class RandomFlip(_Moving):
    """Mirrored pictures; mode is horizontal, vertical or horizontal_and_vertical."""

    moves_boxes = True

    def __init__(self, mode: str = "horizontal_and_vertical", seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        if mode not in ("horizontal", "vertical", "horizontal_and_vertical"):
            raise ValueError(f"RandomFlip: mode is horizontal, vertical or horizontal_and_vertical, not {mode!r}")
        self.mode = mode

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        return [draw(x, (0.0, 1.0), generator) < 0.5 for _ in range(2)]

    def moved(self, x: Tensor, drawn: Any, interpolation: str) -> Tensor:
        for dim, name, flips in ((2, "horizontal", drawn[0]), (1, "vertical", drawn[1])):
            if name in self.mode:
                x = ops.where(flips, x.flip(dim), x)
        return x

    def moved_boxes(
        self, boxes: Tensor, size: tuple[int, int], drawn: Any, training: bool
    ) -> tuple[Tensor, tuple[int, int]]:
        if training and drawn is not None:
            for first, name, flips in ((0, "horizontal", drawn[0]), (1, "vertical", drawn[1])):
                if name in self.mode:
                    order = [2, 1, 0, 3] if first == 0 else [0, 3, 2, 1]
                    mirrored = boxes[..., order]
                    mirrored[..., first::2] = size[1 - first] - mirrored[..., first::2]
                    boxes = ops.where(flips.reshape(-1, 1, 1), mirrored, boxes)
        return boxes, size


class _Mapped(_Moving):
    """Base: the picture at places that a map gives. fill_mode says what lies outside: reflect, nearest, wrap or
    constant (`fill_value`)."""

    def __init__(
        self, fill_mode: str, interpolation: str, seed: int | None, fill_value: float, **settings: Any
    ) -> None:
        super().__init__(seed, **settings)
        if fill_mode not in _FILLS:
            raise ValueError(f"{type(self).__name__}: fill_mode is one of {', '.join(_FILLS)}, not {fill_mode!r}")
        if interpolation not in ("bilinear", "nearest"):
            raise ValueError(f"{type(self).__name__}: interpolation is bilinear or nearest, not {interpolation!r}")
        self.fill_mode, self.interpolation, self.fill_value = fill_mode, interpolation, fill_value

    def places(self, column: Tensor, row: Tensor, drawn: Any) -> tuple[Tensor, Tensor]:
        """Where in the picture (column, row) the pixels of the result lie, (B, H, W); column (1, 1, W) and row
        (1, H, 1) are their own."""
        raise NotImplementedError

    def moved(self, x: Tensor, drawn: Any, interpolation: str) -> Tensor:
        height, width = x.shape[1:3]
        column = ops.arange(width, dtype="float32", device=x.device).reshape(1, 1, -1)
        row = ops.arange(height, dtype="float32", device=x.device).reshape(1, -1, 1)
        columns, rows = (place.expand(x.shape[0], height, width) for place in self.places(column, row, drawn))
        if self.fill_mode == "wrap":
            return image_warps.sampled(x, rows, columns, int(interpolation == "bilinear"), "wrap", 0.0)
        places = ops.stack([(columns + 0.5) * (2 / width) - 1, (rows + 0.5) * (2 / height) - 1], -1)  # (B, H, W, 2)
        filled = self.fill_value if self.fill_mode == "constant" else 0.0
        planes = (x - filled if filled else x).movedim(-1, 1)
        moved = grid_sample(planes, places, interpolation, _FILLS[self.fill_mode], False)
        return (moved + filled if filled else moved).movedim(1, -1)


def _centred(column: Tensor, row: Tensor) -> tuple[Tensor, Tensor, float, float]:
    """Columns and rows counted from the centre, and the centre."""
    x, y = (column.shape[2] - 1) / 2, (row.shape[1] - 1) / 2
    return column - x, row - y, x, y


class RandomRotation(_Mapped):
    """Turned pictures. factor is a share of a full turn, positive against the clock; a pair has limits."""

    def __init__(
        self, factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear", seed: int | None = None,
        fill_value: float = 0.0, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(fill_mode, interpolation, seed, fill_value, **settings)
        self.factor = self.limits(factor)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        low, high = self.factor
        return {"angle": draw(x, (360 * low, 360 * high), generator, ())}  # degrees, (B,)

    def places(self, column: Tensor, row: Tensor, drawn: Any) -> tuple[Tensor, Tensor]:
        column, row, x, y = _centred(column, row)
        angle = drawn["angle"].reshape(-1, 1, 1) * (pi / 180)
        cosine, sine = angle.cos(), angle.sin()
        return column * cosine - row * sine + x, column * sine + row * cosine + y


class RandomTranslation(_Mapped):
    """Shifted pictures, by shares of their height (positive: down) and width (positive: to the right)."""

    def __init__(
        self, height_factor: Any, width_factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear",
        seed: int | None = None, fill_value: float = 0.0, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(fill_mode, interpolation, seed, fill_value, **settings)
        self.height_factor, self.width_factor = self.limits(height_factor), self.limits(width_factor)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        down, right = (draw(x, limits, generator, (1,)) for limits in (self.height_factor, self.width_factor))
        return {"height_translations": down, "width_translations": right}

    def places(self, column: Tensor, row: Tensor, drawn: Any) -> tuple[Tensor, Tensor]:
        down = drawn["height_translations"].reshape(-1, 1, 1) * row.shape[1]
        return column - drawn["width_translations"].reshape(-1, 1, 1) * column.shape[2], row - down


class RandomZoom(_Mapped):
    """Enlarged (negative factors) and reduced pictures; without `width_factor` the proportions stay."""

    def __init__(
        self, height_factor: Any, width_factor: Any = None, fill_mode: str = "reflect",
        interpolation: str = "bilinear", seed: int | None = None, fill_value: float = 0.0, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(fill_mode, interpolation, seed, fill_value, **settings)
        self.height_factor = self.limits(height_factor)
        self.width_factor = None if width_factor is None else self.limits(width_factor)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        tall = draw(x, self.height_factor, generator, (1,)) + 1
        wide = tall if self.width_factor is None else draw(x, self.width_factor, generator, (1,)) + 1
        return {"height_zoom": tall, "width_zoom": wide}

    def places(self, column: Tensor, row: Tensor, drawn: Any) -> tuple[Tensor, Tensor]:
        column, row, x, y = _centred(column, row)
        tall, wide = (drawn[name].reshape(-1, 1, 1) for name in ("height_zoom", "width_zoom"))
        return column * wide + x, row * tall + y


class RandomShear(_Mapped):
    """Slanted pictures: rows move by a share of their number (`x_factor`), columns by one of theirs (`y_factor`), from
    the first on. The shares are in [0, 1] and go both ways."""

    def __init__(
        self, x_factor: Any = 0.0, y_factor: Any = 0.0, interpolation: str = "bilinear", fill_mode: str = "reflect",
        fill_value: float = 0.0, data_format: str | None = None, seed: int | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(fill_mode, interpolation, seed, fill_value, data_format=data_format, **settings)
        self.x_factor, self.y_factor = self._shares(x_factor), self._shares(y_factor)

    def _shares(self, factor: Any) -> tuple[float, float]:
        found = self.limits(factor if isinstance(factor, (tuple, list)) else (0.0, factor), 0.0)
        return found if isinstance(factor, (tuple, list)) else (-found[1], found[1])

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        sign = ops.where(draw(x, (0.0, 1.0), generator, (1,)) > 0.5, -1.0, 1.0)
        down, right = (draw(x, limits, generator, (1,)) for limits in (self.y_factor, self.x_factor))
        return {"shear_factor": ops.cat([right, down], 1) * sign}  # (B, 2)

    def places(self, column: Tensor, row: Tensor, drawn: Any) -> tuple[Tensor, Tensor]:
        right, down = (share.reshape(-1, 1, 1) for share in drawn["shear_factor"].unbind(1))
        return column + right * row, row + down * column


class RandomPerspective(_Moving):
    """Pictures seen from another side: with a probability from `factor` each corner moves by a share of its place, up
    to half of `scale`. Outside is `fill_value`."""

    def __init__(
        self, factor: Any = 1.0, scale: float = 1.0, interpolation: str = "bilinear", fill_value: float = 0.0,
        seed: int | None = None, data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(seed, data_format, **settings)
        self.factor, self.scale = self.limits(factor, 0.0), float(scale)
        if not 0 <= scale <= 1:
            raise ValueError(f"RandomPerspective: scale is in [0, 1], not {scale!r}")
        if interpolation not in ("bilinear", "nearest"):
            raise ValueError(f"RandomPerspective: interpolation is bilinear or nearest, not {interpolation!r}")
        self.interpolation, self.fill_value = interpolation, fill_value

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        chosen = happens(x, self.factor, generator)
        moves = draw(x, (-0.5 * self.scale, 0.5 * self.scale), generator, (4, 2))
        right, down = x.shape[2] - 1.0, x.shape[1] - 1.0
        corners = [[0.0, 0.0], [right, 0.0], [0.0, down], [right, down]]
        start = ops.tensor(corners, device=x.device).expand(x.shape[0], 4, 2)
        return {"apply_perspective": chosen, "start_points": start, "end_points": start + start * moves}

    def moved(self, x: Tensor, drawn: Any, interpolation: str) -> Tensor:
        start, end = drawn["start_points"], drawn["end_points"]
        found = image_warps.perspective_transform(x, start, end, interpolation, self.fill_value)
        return ops.where(of_each(drawn["apply_perspective"]), found, x)


class RandomElasticTransform(_Moving):
    """Rippled pictures: with a probability from `factor` the pixels move by smooth random distances, which grow with
    `scale`."""

    resolved = ("factor", "scale")

    def __init__(
        self, factor: Any = 1.0, scale: Any = 1.0, interpolation: str = "bilinear", fill_mode: str = "reflect",
        fill_value: float = 0.0, value_range: Any = (0, 255), seed: int | None = None, data_format: str | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(seed, data_format, **settings)
        self.factor, self.scale = self.limits(factor, 0.0), self.limits(scale, 0.0)
        if interpolation not in ("bilinear", "nearest"):
            raise ValueError(f"RandomElasticTransform: interpolation is bilinear or nearest, not {interpolation!r}")
        if fill_mode not in image_warps.FILLS:
            raise ValueError(
                f"RandomElasticTransform: fill_mode is one of {', '.join(image_warps.FILLS)}, not {fill_mode!r}"
            )
        self.interpolation, self.fill_mode, self.fill_value = interpolation, fill_mode, fill_value
        self.value_range = tuple(value_range)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        if not self.factor[1] or not self.scale[1]:
            return None
        strength = draw(x[:1], self.scale, generator, ()).item()
        chosen = happens(x, self.factor, generator)
        seed = random.SeedGenerator(int(ops.randint(0, 1 << 30, (1,), generator=generator).item()))
        return {"apply_transform": chosen, "distortion_factor": strength, "seed": seed.seed}

    def moved(self, x: Tensor, drawn: Any, interpolation: str) -> Tensor:
        height, width = x.shape[1:3]
        strength = float(drawn["distortion_factor"])
        alpha, sigma = max(height, width) * 0.1 * strength, min(height, width) * 0.05 * strength
        found = image_warps.elastic_transform(
            x, alpha, max(sigma, 1e-6), interpolation, self.fill_mode, self.fill_value, drawn["seed"]
        )
        return ops.where(of_each(drawn["apply_transform"]), found, x).clamp(*self.value_range)


class RandomCrop(RandomPictureLayer):
    """A part of each picture of a batch at the same random place. In evaluation, and of smaller pictures, the largest
    part in the middle that has the shape, resized."""

    moves = moves_boxes = True

    def __init__(self, height: int, width: int, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.height, self.width = height, width

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        spare = (x.shape[1] - self.height, x.shape[2] - self.width)
        if min(spare) < 0:
            return None
        return [ops.randint(0, one + 1, (1,), generator=generator, device=x.device) for one in spare]

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self._cropped(x, drawn, "bilinear")

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self._cropped(x, drawn, "nearest")

    def moved_boxes(
        self, boxes: Tensor, size: tuple[int, int], drawn: Any, training: bool
    ) -> tuple[Tensor, tuple[int, int]]:
        wanted = self.height, self.width
        if drawn is None:
            part = part_of_shape(size, *wanted)
            return scaled_boxes(centred_boxes(boxes, size, part), part, wanted), wanted
        top, left = (first.to(boxes.dtype) for first in drawn)
        return boxes - ops.cat([left, top, left, top]), wanted

    def _cropped(self, x: Tensor, drawn: Any, interpolation: str) -> Tensor:
        if drawn is None:
            return resized(of_shape(x, self.height, self.width), self.height, self.width, interpolation)
        rows, columns = (
            first + ops.arange(size, device=x.device)
            for first, size in zip(drawn, (self.height, self.width), strict=True)
        )
        return x.index_select(1, rows).index_select(2, columns)

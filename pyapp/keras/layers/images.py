"""Layers for pictures (B, H, W, C) or (H, W, C): sizes, and random changes while a model is trained."""

from __future__ import annotations

from math import pi
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...engine.ops.resample import grid_sample, interpolate
from ..core import Layer, inherited_training

__all__ = [
    "CenterCrop", "RandomBrightness", "RandomContrast", "RandomCrop", "RandomFlip", "RandomRotation",
    "RandomTranslation", "RandomZoom", "Resizing",
]  # fmt: skip

_MODES = {"bilinear": "bilinear", "nearest": "nearest-exact", "bicubic": "bicubic"}
_FILLS = {"reflect": "reflection", "nearest": "border", "constant": "zeros"}


def _resized(x: Tensor, height: int, width: int, mode: str, antialias: bool = False) -> Tensor:
    """Pictures (B, H, W, C) -> (B, height, width, C)."""
    corners = None if mode == "nearest" else False
    found = interpolate(x.movedim(-1, 1), (height, width), None, _MODES[mode], corners, None, antialias)
    return found.movedim(1, -1)


def _centre(x: Tensor, height: int, width: int) -> Tensor:
    """The middle of pictures (B, H, W, C)."""
    top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
    return x.narrow(1, top, height).narrow(2, left, width)


def _of_shape(x: Tensor, height: int, width: int) -> Tensor:
    """The largest middle part that has the proportions height : width."""
    tall = min(x.shape[1], int(x.shape[2] * height / width))
    wide = min(x.shape[2], int(x.shape[1] * width / height))
    return _centre(x, max(tall, 1), max(wide, 1))


class _Pictures(Layer):
    """Base: `change(pictures, training)` computes on floats (B, H, W, C); a picture alone becomes a batch of one."""

    def __init__(self, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        if data_format not in (None, "channels_last"):
            raise ValueError(f"{type(self).__name__}: pictures have their channels last")

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if inputs.ndim not in (3, 4):
            raise ValueError(f"takes pictures (B, H, W, C) or (H, W, C), got {inputs.shape}")
        x = inputs.to(self.dtype)
        return self.change(x, training) if x.ndim == 4 else self.change(x.unsqueeze(0), training).squeeze(0)

    def change(self, x: Tensor, training: bool) -> Tensor:
        raise NotImplementedError


class Resizing(_Pictures):
    """Pictures of another size. `crop_to_aspect_ratio` cuts the middle of the new proportions first,
    `pad_to_aspect_ratio` adds borders of `fill_value` instead.
    """

    def __init__(
        self, height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False,
        pad_to_aspect_ratio: bool = False, fill_mode: str = "constant", fill_value: float = 0.0,
        antialias: bool = False, data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(data_format, **settings)
        if interpolation not in _MODES:
            raise ValueError(f"Resizing: interpolation is one of {', '.join(_MODES)}, not {interpolation!r}")
        if crop_to_aspect_ratio and pad_to_aspect_ratio:
            raise ValueError("Resizing: crops or pads to the proportions, not both")
        if fill_mode != "constant":
            raise ValueError(f"Resizing: fill_mode is constant, not {fill_mode!r}")
        self.height, self.width, self.interpolation, self.antialias = height, width, interpolation, antialias
        self.crops, self.pads, self.fill_value = crop_to_aspect_ratio, pad_to_aspect_ratio, fill_value

    def change(self, x: Tensor, training: bool) -> Tensor:
        if self.crops:
            x = _of_shape(x, self.height, self.width)
        elif self.pads:
            tall = max(x.shape[1], int(x.shape[2] * self.height / self.width))
            wide = max(x.shape[2], int(x.shape[1] * self.width / self.height))
            top, left = (tall - x.shape[1]) // 2, (wide - x.shape[2]) // 2
            x = ops.pad(x, [0, 0, left, left, top, top], value=self.fill_value)  # both sides alike, as Keras does
        antialias = self.antialias and self.interpolation != "nearest"
        return _resized(x, self.height, self.width, self.interpolation, antialias)


class CenterCrop(_Pictures):
    """The middle of pictures; smaller ones are enlarged."""

    def __init__(self, height: int, width: int, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.height, self.width = height, width

    def change(self, x: Tensor, training: bool) -> Tensor:
        if x.shape[1] >= self.height and x.shape[2] >= self.width:
            return _centre(x, self.height, self.width)
        return _resized(_of_shape(x, self.height, self.width), self.height, self.width, "bilinear")


class _Random(_Pictures):
    """Base: changes while the model is trained, or where the layer is called alone; each picture by its own draw."""

    def __init__(self, seed: int | None = None, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.seed = seed
        self.generator = None if seed is None else Generator(seed)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("training") is None and inherited_training() is None:
            kwargs["training"] = True
        return super().__call__(*args, **kwargs)

    def change(self, x: Tensor, training: bool) -> Tensor:
        return self.disturb(x) if training else x

    def disturb(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def draw(self, x: Tensor, limits: tuple[float, float]) -> Tensor:
        """A number for each picture: (B, 1, 1, 1)."""
        low, high = limits
        return ops.rand((x.shape[0], 1, 1, 1), generator=self.generator, device=x.device) * (high - low) + low

    def limits(self, factor: Any, least: float = -1.0, most: float = 1.0) -> tuple[float, float]:
        """(lower, upper) of a number, which goes both ways, or of a pair."""
        pair = tuple(sorted(factor)) if isinstance(factor, (tuple, list)) else (max(-abs(factor), least), abs(factor))
        if len(pair) != 2 or pair[0] > most or pair[1] < least or not least <= pair[0] <= pair[1] <= most:
            raise ValueError(f"{type(self).__name__}: factors are in [{least:g}, {most:g}], got {factor}")
        return float(pair[0]), float(pair[1])


class RandomFlip(_Random):
    """Mirrored pictures; mode is horizontal, vertical or horizontal_and_vertical."""

    def __init__(self, mode: str = "horizontal_and_vertical", seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        if mode not in ("horizontal", "vertical", "horizontal_and_vertical"):
            raise ValueError(f"RandomFlip: mode is horizontal, vertical or horizontal_and_vertical, not {mode!r}")
        self.mode = mode

    def disturb(self, x: Tensor) -> Tensor:
        for dim, name in ((2, "horizontal"), (1, "vertical")):
            if name in self.mode:
                x = ops.where(self.draw(x, (0.0, 1.0)) < 0.5, x.flip(dim), x)
        return x


class _Moved(_Random):
    """Base: the picture at places that an affine map gives. fill_mode says what lies outside: reflect, nearest or
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

    def places(self, x: Tensor, column: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """Where in x (column, row) the pixels of the result lie, (B, H, W); column (1, 1, W) and row (1, H, 1) are
        their own, counted from the centre."""
        raise NotImplementedError

    def disturb(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:3]
        middle = ((width - 1) / 2, (height - 1) / 2)
        column = (ops.arange(width, dtype="float32", device=x.device) - middle[0]).reshape(1, 1, -1)
        row = (ops.arange(height, dtype="float32", device=x.device) - middle[1]).reshape(1, -1, 1)
        found = [
            (place.expand(x.shape[0], height, width) + centre + 0.5) * (2 / size) - 1
            for place, centre, size in zip(self.places(x, column, row), middle, (width, height), strict=True)
        ]
        filled = self.fill_value if self.fill_mode == "constant" else 0.0
        planes = (x - filled if filled else x).movedim(-1, 1)
        moved = grid_sample(planes, ops.stack(found, -1), self.interpolation, _FILLS[self.fill_mode], False)
        return (moved + filled if filled else moved).movedim(1, -1)


class RandomRotation(_Moved):
    """Turned pictures. factor is a share of a full turn, positive against the clock; a pair has limits."""

    def __init__(
        self, factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear", seed: int | None = None,
        fill_value: float = 0.0, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(fill_mode, interpolation, seed, fill_value, **settings)
        self.factor = self.limits(factor)

    def places(self, x: Tensor, column: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        angle = (self.draw(x, self.factor) * (2 * pi)).squeeze(-1)  # (B, 1, 1)
        cosine, sine = angle.cos(), angle.sin()
        return column * cosine - row * sine, column * sine + row * cosine


class RandomTranslation(_Moved):
    """Shifted pictures, by shares of their height (positive: down) and width (positive: to the right)."""

    def __init__(
        self, height_factor: Any, width_factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear",
        seed: int | None = None, fill_value: float = 0.0, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(fill_mode, interpolation, seed, fill_value, **settings)
        self.height_factor, self.width_factor = self.limits(height_factor), self.limits(width_factor)

    def places(self, x: Tensor, column: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        down = self.draw(x, self.height_factor).squeeze(-1) * x.shape[1]
        right = self.draw(x, self.width_factor).squeeze(-1) * x.shape[2]
        return column - right, row - down


class RandomZoom(_Moved):
    """Enlarged (negative factors) and reduced pictures; without `width_factor` the proportions stay."""

    def __init__(
        self, height_factor: Any, width_factor: Any = None, fill_mode: str = "reflect",
        interpolation: str = "bilinear", seed: int | None = None, fill_value: float = 0.0, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(fill_mode, interpolation, seed, fill_value, **settings)
        self.height_factor = self.limits(height_factor)
        self.width_factor = None if width_factor is None else self.limits(width_factor)

    def places(self, x: Tensor, column: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        tall = self.draw(x, self.height_factor).squeeze(-1) + 1
        wide = tall if self.width_factor is None else self.draw(x, self.width_factor).squeeze(-1) + 1
        return column * wide, row * tall


class RandomContrast(_Random):
    """(x - mean) * f + mean, f between 1 - lower and 1 + upper, mean that of a channel; within `value_range`."""

    def __init__(self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.factor, self.value_range = self.limits(factor, 0.0), tuple(value_range)

    def disturb(self, x: Tensor) -> Tensor:
        mean = x.mean((1, 2), True)
        factor = self.draw(x, (1 - self.factor[0], 1 + self.factor[1]))
        return ((x - mean) * factor + mean).clamp(*self.value_range)


class RandomBrightness(_Random):
    """Brighter and darker pictures: a share of `value_range` is added."""

    def __init__(self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.factor, self.value_range = self.limits(factor), tuple(value_range)

    def disturb(self, x: Tensor) -> Tensor:
        low, high = self.value_range
        return (x + self.draw(x, self.factor) * (high - low)).clamp(low, high)


class RandomCrop(_Random):
    """A part of each picture of a batch at the same random place; the middle in evaluation. Smaller pictures are
    enlarged."""

    def __init__(self, height: int, width: int, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.height, self.width = height, width

    def change(self, x: Tensor, training: bool) -> Tensor:
        tall, wide = x.shape[1] - self.height, x.shape[2] - self.width
        if tall < 0 or wide < 0:
            return _resized(_of_shape(x, self.height, self.width), self.height, self.width, "bilinear")
        if not training:
            return _centre(x, self.height, self.width)
        rows, columns = (
            ops.randint(0, spare + 1, (1,), generator=self.generator, device=x.device)
            + ops.arange(size, device=x.device)
            for spare, size in ((tall, self.height), (wide, self.width))
        )
        return x.index_select(1, rows).index_select(2, columns)

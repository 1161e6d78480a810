"""Change pictures, at random or not, by torchvision's names: crops, flips, rotation, colours, sizes.

Pictures are tensors (..., C, H, W), uint8 from 0 to 255 or floats from 0 to 1; dtype and range stay. Leading dims share
the random choice. Random numbers come from `generator`, or the default one: as steps of a Pipeline,
`pipeline.map(on_picture(augment), seed=1)` is reproducible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pyapp.engine import ops
from pyapp.engine.ops.random import Generator, rand, randint, randperm
from pyapp.engine.tensor import Tensor
from pyapp.errors import OptionError

Range = float | tuple[float, float]


class Transform:
    """Base: a subclass defines `change(picture, generator)`."""

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        raise NotImplementedError

    def __call__(self, picture: Tensor, generator: Generator | None = None) -> Tensor:
        if picture.ndim < 3:
            raise OptionError(f"{type(self).__name__}: takes pictures (..., C, H, W), not {tuple(picture.shape)}")
        return self.change(picture, generator)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


class Compose(Transform):
    """Several transforms one after another."""

    def __init__(self, transforms: Sequence[Callable[..., Tensor]]) -> None:
        self.transforms = list(transforms)

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        for transform in self.transforms:
            picture = transform(picture, generator) if isinstance(transform, Transform) else transform(picture)
        return picture


def on_picture(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A function for examples (picture, label …) that changes the picture alone."""
    return _OnPicture(transform)


class _OnPicture:
    def __init__(self, transform: Callable[..., Any]) -> None:
        self.transform = transform

    def __call__(self, example: Any, generator: Generator | None = None) -> Any:
        first, *rest = example
        if isinstance(self.transform, (Transform, _OnPicture)):
            return (self.transform(first, generator), *rest)
        return (self.transform(first), *rest)


def _top(picture: Tensor) -> float:
    """The largest value that a picture may have."""
    return 1.0 if picture.dtype.is_floating_point else 255.0


def _as(values: Tensor, like: Tensor) -> Tensor:
    """Float results in the picture's dtype and range."""
    values = values.clamp(0.0, _top(like))
    return values.to(like.dtype) if like.dtype.is_floating_point else values.round().to(like.dtype)


def _pair(size: Any, name: str) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    if min(height, width) < 1:
        raise OptionError(f"{name}: the size is (height, width) of 1 or more, not {size}")
    return height, width


def _between(limits: Sequence[float], generator: Generator | None) -> float:
    low, high = limits
    return low + (high - low) * float(rand((), generator=generator))


class ToFloat(Transform):
    """uint8 0 … 255 as float32 0 … 1; floats stay."""

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        return picture if picture.dtype.is_floating_point else picture.float() / 255.0


class Normalize(Transform):
    """(picture - mean) / std for each channel; floats, also of uint8 pictures, which count as 0 … 1."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        if not std or min(std) <= 0 or len(mean) != len(std):
            raise OptionError(f"Normalize: takes a mean and a positive std for each channel, not {mean} and {std}")
        self.mean, self.std = list(mean), list(std)

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        if picture.shape[-3] != len(self.mean):
            raise OptionError(f"Normalize: {len(self.mean)} means for {picture.shape[-3]} channels")
        values = picture if picture.dtype.is_floating_point else picture.float() / 255.0
        kind, place = values.dtype, values.device
        mean, std = (ops.tensor(x, kind, place).reshape(-1, 1, 1) for x in (self.mean, self.std))  # (C, 1, 1)
        return (values - mean) / std


class Resize(Transform):
    """Resizes to (height, width); one number is the shorter side. Bilinear or "bicubic", with `antialias` (the filter
    grows with the factor by which the picture shrinks) as in Pillow, or "nearest".
    """

    def __init__(self, size: int | Sequence[int], interpolation: str = "bilinear", antialias: bool = True) -> None:
        if interpolation not in ("bilinear", "bicubic", "nearest"):
            raise OptionError(f"Resize: 'bilinear', 'bicubic' or 'nearest', not {interpolation!r}")
        _pair(size, "Resize")
        self.size, self.interpolation, self.antialias = size, interpolation, antialias

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        height, width = picture.shape[-2:]
        if isinstance(self.size, int):
            short = min(height, width)
            size = int(self.size * height / short), int(self.size * width / short)
        else:
            size = _pair(self.size, "Resize")
        return _resized(picture, size, self.interpolation, self.antialias)


def _resized(picture: Tensor, size: tuple[int, int], interpolation: str, antialias: bool) -> Tensor:
    if tuple(picture.shape[-2:]) == size:
        return picture
    flat = picture.reshape(-1, *picture.shape[-3:])  # (N, C, H, W)
    if interpolation == "nearest":
        found = ops.interpolate(flat.float(), size=size, mode="nearest").to(picture.dtype)
    else:
        values = flat if flat.dtype.is_floating_point else flat.float()
        wide = ops.interpolate(values, size=size, mode=interpolation, antialias=antialias)
        found = wide if picture.dtype.is_floating_point else _as(wide, picture)
    return found.reshape(*picture.shape[:-2], *size)


class CenterCrop(Transform):
    """The middle, of (height, width). OptionError for smaller pictures."""

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = _pair(size, "CenterCrop")

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        (height, width), (rows, columns) = picture.shape[-2:], self.size
        if rows > height or columns > width:
            raise OptionError(f"CenterCrop: the picture has {height} x {width} pixels, fewer than {rows} x {columns}")
        top, left = round((height - rows) / 2), round((width - columns) / 2)
        return picture[..., top : top + rows, left : left + columns]


class RandomCrop(Transform):
    """A random part of (height, width), after `padding` pixels of `fill` were added at each side."""

    def __init__(self, size: int | Sequence[int], padding: int = 0, fill: float = 0) -> None:
        self.size, self.padding, self.fill = _pair(size, "RandomCrop"), padding, fill

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        if self.padding:
            picture = ops.pad(picture, (self.padding,) * 4, value=self.fill)
        (height, width), (rows, columns) = picture.shape[-2:], self.size
        if rows > height or columns > width:
            raise OptionError(f"RandomCrop: the picture has {height} x {width} pixels, fewer than {rows} x {columns}")
        top = int(randint(0, height - rows + 1, (), generator=generator))
        left = int(randint(0, width - columns + 1, (), generator=generator))
        return picture[..., top : top + rows, left : left + columns]


class RandomResizedCrop(Transform):
    """A random part with `scale` of the area and `ratio` of width to height, resized to (height, width)."""

    def __init__(
        self, size: int | Sequence[int], scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3), antialias: bool = True,
    ) -> None:  # fmt: skip
        self.size, self.scale, self.ratio = _pair(size, "RandomResizedCrop"), scale, ratio
        self.antialias = antialias

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        height, width = picture.shape[-2:]
        for _ in range(10):
            area = height * width * _between(self.scale, generator)
            ratio = math.exp(_between([math.log(r) for r in self.ratio], generator))
            rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < rows <= height and 0 < columns <= width:
                break
        else:
            rows = min(height, round(width / self.ratio[0]))
            columns = min(width, round(height * self.ratio[1]))
        part = RandomCrop((rows, columns))(picture, generator)
        return _resized(part, self.size, "bilinear", self.antialias)


class RandomHorizontalFlip(Transform):
    """Left and right exchanged, with probability p."""

    dim = -1

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise OptionError(f"{type(self).__name__}: p is a probability, not {p}")
        self.p = p

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        return picture.flip(self.dim) if float(rand((), generator=generator)) < self.p else picture


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top and bottom exchanged, with probability p."""

    dim = -2


class RandomRotation(Transform):
    """Turned about its middle by a random angle in degrees, counter-clockwise: between -degrees and degrees, or of a
    range. Bilinear; what comes from outside is `fill`. The size stays.
    """

    def __init__(self, degrees: Range, fill: float = 0) -> None:
        self.degrees = (-degrees, degrees) if isinstance(degrees, (int, float)) else tuple(degrees)
        self.fill = fill

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        angle = math.radians(_between(self.degrees, generator))
        height, width = picture.shape[-2:]
        flat = picture.reshape(-1, *picture.shape[-3:])  # (N, C, H, W)
        cos, sin = math.cos(angle), math.sin(angle)
        # From output to input, in coordinates of -1 to 1 along each side.
        theta = ops.tensor(  # (1, 2, 3)
            [[[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]]], device=picture.device
        )
        grid = ops.affine_grid(theta.expand(len(flat), 2, 3), flat.shape, align_corners=False)  # (N, H, W, 2)
        values = flat.float() - self.fill
        turned = ops.grid_sample(values, grid, mode="bilinear", padding_mode="zeros", align_corners=False) + self.fill
        return _as(turned, picture).reshape(picture.shape)


def _grey(values: Tensor) -> Tensor:
    """Brightness of RGB by ITU-R 601: (..., 3, H, W) → (..., 1, H, W)."""
    red, green, blue = values[..., 0:1, :, :], values[..., 1:2, :, :], values[..., 2:3, :, :]
    return 0.2989 * red + 0.587 * green + 0.114 * blue


class ColorJitter(Transform):
    """Random brightness, contrast, saturation (factors between 1 - x and 1 + x, or of a range) and hue (turns of the
    circle of colours between -x and x, at most 0.5), in random order, for RGB; brightness and contrast for grey too.
    """

    def __init__(
        self, brightness: Range = 0.0, contrast: Range = 0.0, saturation: Range = 0.0, hue: Range = 0.0
    ) -> None:
        self.brightness, self.contrast, self.saturation = map(_factors, (brightness, contrast, saturation))
        self.hue = (-hue, hue) if isinstance(hue, (int, float)) else tuple(hue)
        if not -0.5 <= self.hue[0] <= self.hue[1] <= 0.5:
            raise OptionError(f"ColorJitter: hue lies between -0.5 and 0.5, not {hue}")

    def change(self, picture: Tensor, generator: Generator | None) -> Tensor:
        if picture.shape[-3] not in (1, 3):
            raise OptionError(f"ColorJitter: takes 1 or 3 channels, not {picture.shape[-3]}")
        coloured = picture.shape[-3] == 3
        values, top = picture.float(), _top(picture)
        changes = (self._brighter, self._contrasted, self._saturated, self._turned)
        factors = [_between(r, generator) for r in (self.brightness, self.contrast, self.saturation, self.hue)]
        for which in randperm(4, generator=generator).tolist():
            if which < 2 or coloured:
                values = changes[which](values, factors[which], top).clamp(0.0, top)
        return _as(values, picture)

    @staticmethod
    def _brighter(values: Tensor, factor: float, top: float) -> Tensor:
        return values * factor

    @staticmethod
    def _contrasted(values: Tensor, factor: float, top: float) -> Tensor:
        grey = _grey(values) if values.shape[-3] == 3 else values
        return values * factor + (1.0 - factor) * grey.mean((-3, -2, -1), keepdim=True)

    @staticmethod
    def _saturated(values: Tensor, factor: float, top: float) -> Tensor:
        return values * factor + (1.0 - factor) * _grey(values)

    @staticmethod
    def _turned(values: Tensor, turn: float, top: float) -> Tensor:
        """Hue by way of HSV (Smith 1978)."""
        if not turn:
            return values
        rgb = values / top
        red, green, blue = (rgb[..., k : k + 1, :, :] for k in range(3))
        most, least = rgb.amax(-3, keepdim=True), rgb.amin(-3, keepdim=True)
        spread = most - least
        safe = ops.where(spread > 0, spread, ops.ones_like(spread))
        hue = ops.where(
            most == red, ((green - blue) / safe).remainder(6.0),
            ops.where(most == green, (blue - red) / safe + 2.0, (red - green) / safe + 4.0),
        ) / 6.0 + turn  # (..., 1, H, W) in turns  # fmt: skip
        parts = []
        for shift in (5.0, 3.0, 1.0):
            k = (shift + hue * 6.0).remainder(6.0)
            ramp = ops.minimum(k, 4.0 - k).clamp(0.0, 1.0)
            parts.append(most - spread * ramp)
        return ops.cat(parts, -3) * top


def _factors(given: Range) -> tuple[float, float]:
    low, high = (max(0.0, 1.0 - given), 1.0 + given) if isinstance(given, (int, float)) else tuple(given)
    if not 0 <= low <= high:
        raise OptionError(f"ColorJitter: a factor is 0 or more, not {given}")
    return low, high

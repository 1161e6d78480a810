"""Layers that change the colours of pictures, most of them at random while a model is trained. `value_range` has the
smallest and the largest value of a pixel."""

from __future__ import annotations

from math import log
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ..image_functions import filtered, gaussian_blur, hsv_to_rgb, rgb_to_grayscale, rgb_to_hsv
from ..placing_functions import bincount
from .images import PictureLayer, RandomPictureLayer, draw, happens, of_each

__all__ = [
    "AutoContrast", "ContrastLimitedAdaptiveHistogramEqualization", "Equalization", "RandomBrightness",
    "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomGaussianBlur", "RandomGrayscale",
    "RandomHue", "RandomInvert", "RandomPosterization", "RandomSaturation", "RandomSharpness", "Solarization",
]  # fmt: skip

_BYTES = (0.0, 255.0)


def _range(name: str, value_range: Any) -> tuple[float, float]:
    if not isinstance(value_range, (tuple, list)) or len(value_range) != 2:
        raise ValueError(f"{name}: value_range is a pair of numbers, not {value_range!r:.40}")
    low, high = sorted(float(value) for value in value_range)
    if not low < high:
        raise ValueError(f"{name}: value_range is a pair of different numbers, not {value_range!r:.40}")
    return low, high


def _scaled(x: Tensor, before: tuple[float, float], after: tuple[float, float]) -> Tensor:
    """Values of one range as values of another."""
    if before == after:
        return x
    return (x - before[0]) / (before[1] - before[0]) * (after[1] - after[0]) + after[0]


class AutoContrast(PictureLayer):
    """Each channel of each picture stretched over the whole range; channels of one value stay."""

    def __init__(self, value_range: Any = (0, 255), **settings: Any) -> None:
        super().__init__(**settings)
        self.value_range = _range("AutoContrast", value_range)

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        y = _scaled(x, self.value_range, _BYTES)
        low, high = y.amin((1, 2), True), y.amax((1, 2), True)
        spread = high - low
        scale = 255.0 / ops.where(spread == 0, 1.0, spread)
        found = _scaled((y * scale - low * scale).clamp(0.0, 255.0), _BYTES, self.value_range)
        return ops.where(spread == 0, x, found)


class Equalization(PictureLayer):
    """Each channel with all of its values about equally frequent. `bins` is the number of values that are counted, over
    the whole batch."""

    def __init__(
        self, value_range: Any = (0, 255), bins: int = 256, data_format: str | None = None, **settings: Any
    ) -> None:
        super().__init__(data_format, **settings)
        if not isinstance(bins, int) or bins < 1:
            raise ValueError(f"Equalization: bins is a positive integer, not {bins!r}")
        self.value_range, self.bins = _range("Equalization", value_range), bins

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        if not training:
            return x
        x = _scaled(x, self.value_range, _BYTES)
        found = ops.stack([self._equalized(channel) for channel in x.unbind(-1)], -1)
        return _scaled(found, _BYTES, self.value_range)

    def _equalized(self, x: Tensor) -> Tensor:
        """One channel (B, H, W) of values from 0 to 255."""
        last = self.bins - 1
        places = (x * last / 255.0).clamp(0, last).to("int64")
        counts = bincount(places.reshape(-1), None, self.bins)
        total = counts.cumsum(0)
        first = ops.where(total > 0, total, total[-1]).amin()
        table = ((total - first) * 255.0 / (total[-1] - first).clamp(min=1)).round().clamp(0.0, 255.0)
        table = table.to(x.dtype).index_select(0, (x / 255.0 * last).clamp(0, last).to("int64").reshape(-1))
        return ops.where((counts > 0).sum() <= 1, x, table.reshape(x.shape))


class ContrastLimitedAdaptiveHistogramEqualization(PictureLayer):
    """Equalises tiles of the picture, each by its own frequencies, cut at `clip_limit` times the mean; between
    the tiles' centres the results are mixed (Zuiderveld 1994)."""

    def __init__(
        self, value_range: Any = (0, 255), clip_limit: float = 4.0, tile_grid_size: Any = (8, 8),
        data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(data_format, **settings)
        name = type(self).__name__
        self.value_range, self.clip_limit = _range(name, value_range), float(clip_limit)
        self.tile_grid_size = tuple(tile_grid_size)
        if len(self.tile_grid_size) != 2 or not all(isinstance(n, int) and n > 0 for n in self.tile_grid_size):
            raise ValueError(f"{name}: tile_grid_size is a pair of positive integers, not {tile_grid_size!r:.40}")

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return _scaled(self._equalized(_scaled(x, self.value_range, _BYTES)), _BYTES, self.value_range)

    def _equalized(self, x: Tensor) -> Tensor:
        """Pictures (B, H, W, C) of values from 0 to 255."""
        batch, height, width, channels = x.shape
        rows, columns = self.tile_grid_size
        tall, wide = -(-height // rows), -(-width // columns)
        padded = x
        for axis, size in ((1, tall * rows), (2, wide * columns)):  # mirrored at the edge, which is repeated
            places = ops.remainder(ops.arange(size, device=x.device), 2 * x.shape[axis])
            padded = padded.index_select(axis, ops.minimum(places, 2 * x.shape[axis] - 1 - places))
        pixels = padded.clamp(0, 255).to("int64")
        tiles = pixels.reshape(batch, rows, tall, columns, wide, channels).permute(0, 1, 3, 5, 2, 4)
        flat = tiles.reshape(-1, tall * wide)  # (B * rows * columns * C, pixels)
        tile = ops.arange(flat.shape[0], device=x.device).unsqueeze(1) * 256
        counts = bincount((flat + tile).reshape(-1), None, flat.shape[0] * 256).reshape(-1, 256).to(x.dtype)
        if self.clip_limit > 0:
            cut = counts.clamp(max=self.clip_limit * (tall * wide) / 256.0)
            counts = cut + (counts - cut).sum(-1, True) / 256.0
        total = counts.cumsum(-1)
        least = total.amin(-1, True)
        spread = tall * wide - least
        table = ((total - least) * 255.0 / ops.where(spread == 0, 1.0, spread)).clamp(0, 255)
        table = table.reshape(batch, rows, columns, channels, 256)
        table = ops.cat([table[:, :1], table, table[:, -1:]], 1)
        table = ops.cat([table[:, :, :1], table, table[:, :, -1:]], 2)  # (B, rows + 2, columns + 2, C, 256)
        across = (ops.arange(wide * columns, dtype="float32", device=x.device) - wide / 2.0) / wide + 1.0
        down = (ops.arange(tall * rows, dtype="float32", device=x.device) - tall / 2.0) / tall + 1.0
        left, top = across.floor(), down.floor()
        part_x, part_y = (across - left).reshape(1, 1, -1, 1), (down - top).reshape(1, -1, 1, 1)
        picture = ops.arange(batch, device=x.device).reshape(-1, 1, 1, 1)
        channel = ops.arange(channels, device=x.device).reshape(1, 1, 1, -1)

        def looked_up(row: Tensor, column: Tensor) -> Tensor:
            """The values of the tables of these tiles, (B, H, W, C)."""
            row, column = row.clamp(0, rows + 1).to("int64"), column.clamp(0, columns + 1).to("int64")
            tile = (picture * (rows + 2) + row.reshape(1, -1, 1, 1)) * (columns + 2) + column.reshape(1, 1, -1, 1)
            return table.reshape(-1)[(tile * channels + channel) * 256 + pixels]

        upper = looked_up(top, left) * (1 - part_x) + looked_up(top, left + 1) * part_x
        lower = looked_up(top + 1, left) * (1 - part_x) + looked_up(top + 1, left + 1) * part_x
        return (upper * (1 - part_y) + lower * part_y)[:, :height, :width]


class _Coloured(RandomPictureLayer):
    """Base: a value range."""

    def __init__(
        self, value_range: Any = (0, 255), seed: int | None = None, data_format: str | None = None, **settings: Any
    ) -> None:
        super().__init__(seed, data_format, **settings)
        self.value_range = _range(type(self).__name__, value_range)


class _ByFactor(_Coloured):
    """Base: numbers between the limits of `factor`, from 0 to 1; a number alone is the upper one."""

    def __init__(
        self, factor: Any, value_range: Any = (0, 255), data_format: str | None = None, seed: int | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_range, seed, data_format, **settings)
        self.factor = self.limits(factor, 0.0)


class Solarization(_Coloured):
    """Adds up to `addition_factor` of the range, then inverts what is not below a threshold of up to
    `threshold_factor`."""

    resolved = ("addition_factor", "threshold_factor")

    def __init__(
        self, addition_factor: Any = 0.0, threshold_factor: Any = 0.0, value_range: Any = (0, 255),
        seed: int | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_range, seed, **settings)
        self.addition_factor, self.threshold_factor = (
            self.limits(factor if isinstance(factor, (tuple, list)) else (0.0, factor), 0.0)
            for factor in (addition_factor, threshold_factor)
        )

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        additions, thresholds = (
            draw(x, (255 * low, 255 * high), generator) for low, high in (self.addition_factor, self.threshold_factor)
        )
        return {"additions": additions, "thresholds": thresholds}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        y = (_scaled(x, self.value_range, _BYTES) + drawn["additions"]).clamp(0.0, 255.0)
        return _scaled(ops.where(y < drawn["thresholds"], y, 255.0 - y), _BYTES, self.value_range)


class RandomContrast(_Coloured):
    """(x - mean) * f + mean, f between 1 - lower and 1 + upper, mean that of a channel; within `value_range`."""

    def __init__(self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **settings: Any) -> None:
        super().__init__(value_range, seed, **settings)
        self.factor = self.limits(factor, 0.0)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        return {"contrast_factor": draw(x, (1 - self.factor[0], 1 + self.factor[1]), generator)}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        mean = x.mean((1, 2), True)
        return ((x - mean) * drawn["contrast_factor"] + mean).clamp(*self.value_range)


class RandomBrightness(_Coloured):
    """Brighter and darker pictures: a share of `value_range` is added."""

    def __init__(self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **settings: Any) -> None:
        super().__init__(value_range, seed, **settings)
        self.factor = self.limits(factor)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        low, high = self.value_range
        return {"rgb_delta": draw(x, self.factor, generator) * (high - low)}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        return (x + drawn["rgb_delta"]).clamp(*self.value_range)


class RandomColorDegeneration(_ByFactor):
    """Colours moved towards their grey by a share."""

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        return {"factor": draw(x, self.factor, generator)}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        return (x + drawn["factor"] * (rgb_to_grayscale(x) - x)).clamp(*self.value_range)


class RandomGrayscale(RandomPictureLayer):
    """Pictures without colours, with the probability `factor`."""

    unwritten = ("seed",)

    def __init__(
        self, factor: float = 0.5, data_format: str | None = None, seed: int | None = None, **settings: Any
    ) -> None:
        super().__init__(seed, data_format, **settings)
        if not 0 <= factor <= 1:
            raise ValueError(f"RandomGrayscale: factor is in [0, 1], not {factor!r}")
        self.factor = float(factor)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        return draw(x, (0.0, 1.0), generator) < self.factor

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        return ops.where(drawn, rgb_to_grayscale(x), x)


class RandomHue(_ByFactor):
    """Colours turned by up to half of `factor` of the colour circle, either way."""

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        sign = ops.where(draw(x, (0.0, 1.0), generator, ()) > 0.5, -1.0, 1.0)
        return {"factor": sign * draw(x, self.factor, generator, ()) * 0.5}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        hue, saturation, value = rgb_to_hsv(_scaled(x, self.value_range, (0.0, 1.0))).unbind(-1)
        hue = hue + drawn["factor"].reshape(-1, 1, 1)
        hue = ops.where(hue > 1, hue - 1, hue)
        hue = ops.where(hue < 0, hue + 1, hue)
        found = hsv_to_rgb(ops.stack([hue, saturation, value], -1)).clamp(0.0, 1.0)
        return _scaled(found, (0.0, 1.0), self.value_range)


class RandomInvert(_Coloured):
    """Inverted pictures, with a probability from `factor`."""

    def __init__(
        self, factor: Any = 1.0, value_range: Any = (0, 255), seed: int | None = None, data_format: str | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_range, seed, data_format, **settings)
        self.factor = self.limits(factor, 0.0)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        return {"apply_inversion": happens(x, self.factor, generator)}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        return ops.where(of_each(drawn["apply_inversion"]), self.value_range[1] - x, x)


class RandomPosterization(_Coloured):
    """Pictures with as many bits a channel as `factor` says, 1 to 8; a pair has limits, of which the upper one is not
    reached."""

    def __init__(
        self, factor: Any, value_range: Any = (0, 255), data_format: str | None = None, seed: int | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_range, seed, data_format, **settings)
        pair = tuple(factor) if isinstance(factor, (tuple, list)) else (factor, factor)
        low, high = self.limits(pair, 1.0, 8.0)
        if low != int(low) or high != int(high):
            raise ValueError(f"RandomPosterization: factor is in whole bits, not {factor!r:.40}")
        self.factor = int(low), int(high)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        low, high = self.factor
        if low == high:
            return {"shift_factor": ops.full((x.shape[0],), 8 - low, dtype="int64", device=x.device)}
        return {"shift_factor": 8 - ops.randint(low, high, (x.shape[0],), generator=generator, device=x.device)}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        step = (of_each(drawn["shift_factor"]).to("float32") * log(2.0)).exp().round()  # 2 to that power
        whole = _scaled(x, self.value_range, _BYTES).trunc()
        return _scaled((whole / step).floor() * step, _BYTES, self.value_range)


class RandomSaturation(_ByFactor):
    """Colours with f / (1 - f) times their saturation, f drawn from `factor`: 0 is grey, 0.5 as it was, 1 the
    strongest."""

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        share = draw(x, self.factor, generator, ())
        return {"factor": share / (1 - share + 1e-7)}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        hue, saturation, value = rgb_to_hsv(x).unbind(-1)
        saturation = (saturation * drawn["factor"].reshape(-1, 1, 1)).clamp(*self.value_range)
        return hsv_to_rgb(ops.stack([hue, saturation, value], -1))


class RandomSharpness(_ByFactor):
    """Sharper pictures (factors above 0.5) and smoother ones."""

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        return {"factor": draw(x, self.factor, generator, ())}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        a, b = 1 / 13, 5 / 13
        smooth = filtered(x, ops.tensor([[a, a, a], [a, b, a], [a, a, a]], dtype=x.dtype, device=x.device), "same")
        return (x + (1.0 - 2.0 * of_each(drawn["factor"])) * (smooth - x)).clamp(*self.value_range)


class RandomGaussianBlur(_Coloured):
    """Blurred pictures, with a probability from `factor`; the blur's deviation is drawn from `sigma` for the whole
    batch."""

    resolved = ("factor", "sigma")

    def __init__(
        self, factor: Any = 1.0, kernel_size: Any = 3, sigma: Any = 1.0, value_range: Any = (0, 255),
        data_format: str | None = None, seed: int | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_range, seed, data_format, **settings)
        self.factor, self.sigma = self.limits(factor, 0.0), self.limits(sigma, 0.0)
        size = tuple(kernel_size) if isinstance(kernel_size, (tuple, list)) else (kernel_size, kernel_size)
        if len(size) != 2 or not all(isinstance(n, int) and n > 0 and n % 2 for n in size):
            raise ValueError(f"RandomGaussianBlur: kernel_size is an odd number or two, not {kernel_size!r:.40}")
        self.kernel_size = size

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        chosen = happens(x, self.factor, generator)
        low, high = self.sigma
        both = ops.rand((2,), generator=generator, device=x.device) * (high - low) + low + 1e-6
        return {"should_apply_blur": chosen, "blur_factor": both}

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        blurred = gaussian_blur(x, self.kernel_size, drawn["blur_factor"].tolist())
        return ops.where(of_each(drawn["should_apply_blur"]), blurred, x).clamp(*self.value_range)


class RandomColorJitter(_Coloured):
    """RandomBrightness, RandomContrast, RandomSaturation and RandomHue, one after another; those without a factor are
    left out."""

    def __init__(
        self, value_range: Any = (0, 255), brightness_factor: Any = None, contrast_factor: Any = None,
        saturation_factor: Any = None, hue_factor: Any = None, seed: int | None = None,
        data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_range, seed, data_format, **settings)
        self.steps = [
            kind(factor, value_range=value_range)
            for kind, factor in (
                (RandomBrightness, brightness_factor), (RandomContrast, contrast_factor),
                (RandomSaturation, saturation_factor), (RandomHue, hue_factor),
            )
            if factor is not None
        ]  # fmt: skip

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        return [step.drawn(x, generator) for step in self.steps]

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        for step, numbers in zip(self.steps, drawn, strict=True):
            x = step.disturbed(x, numbers)
        return x

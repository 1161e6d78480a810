"""The common parts of models that forecast series: what a forecast is made with, scaling, patches of a series, and the
head that names a distribution.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass

from ..engine import Device, Tensor, ops
from ..engine.lazy import np
from ..engine.user_errors import describe
from ..errors import InputError, ModelError
from .layers.channel_normalization import BatchNorm1d
from .layers.containers import ModuleList
from .layers.gated import activation_named
from .layers.linear import Linear
from .layers.normalization import LayerNorm
from .module import Module
from .parameter import new_parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST_STD = 1e-5  # is added to a variance
SMALLEST_MEAN = 1e-10  # of the absolute values
SMALLEST_SCALE = float(2**-23)  # of a distribution: float32's epsilon
DISTRIBUTIONS = {"student_t": ("df", "loc", "scale"), "normal": ("loc", "scale"), "negative_binomial": ("n", "logits")}


@dataclass(frozen=True)
class Wanted:
    """What a forecast is to have: the values of its `horizon`, the levels of its `quantiles` (0 to 1, ascending), how
    many paths are drawn where the model draws (`samples`; None: the model's own number), the `seed` of the drawing, and
    TimesFM's `frequency`.
    """

    horizon: int
    quantiles: tuple[float, ...] = ()
    samples: int | None = None
    seed: int = 0
    frequency: int = 0

    def generator(self) -> Any:
        """What draws, the same for the same seed."""
        return np.random.Generator(np.random.Philox(key=self.seed))


class Forecaster(Module):
    """A model that forecasts series. `reads`: the values of a series that it reads at most; `needs`: at least;
    `together`: how many series it reads together, and `chosen`: those of them that it forecasts; `horizon`: the values
    of a pass; `longest`: of a forecast at most (None: any number); `levels`: the quantiles that it knows, between which
    others are interpolated (None: any, because it draws paths; empty: none); `frequencies`: the kinds of TimesFM.
    """

    config: Any
    reads: int
    needs = 1
    together = 1
    horizon: int
    longest: int | None = None
    levels: tuple[float, ...] | None = None
    frequencies = 1
    draws = False  # whether Wanted.samples counts

    @property
    def chosen(self) -> tuple[int, ...]:
        return tuple(range(self.together))

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return next(iter(self.parameters())).device

    def forecasts(
        self, past: NDArray[np.float32], wanted: Wanted
    ) -> Generator[int, None, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """past (C, T): the last values of the series that are read together, T from `needs` to `reads`. Yields how many
        values of the horizon are known; returns the forecast (C', horizon) of the `chosen` series, and its quantiles
        (C', horizon, levels).
        """
        raise NotImplementedError


def between_levels(known: NDArray[np.float64], levels: Sequence[float], asked: Sequence[float]) -> NDArray[np.float64]:
    """The quantiles of levels (..., levels) → those of the levels that are asked for (..., asked), linearly between."""
    places = np.interp(asked, levels, np.arange(len(levels)))
    before = np.minimum(places.astype(np.int64), max(len(levels) - 2, 0))
    after = np.minimum(before + 1, len(levels) - 1)
    part = places - before
    found: NDArray[np.float64] = known[..., before] * (1 - part) + known[..., after] * part
    return found


def of_paths(
    paths: NDArray[np.float64], wanted: Wanted
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """The mean (C, H) and the quantiles (C, H, levels) of drawn paths (samples, C, H)."""
    quantiles = np.quantile(paths, wanted.quantiles, axis=0) if wanted.quantiles else np.empty((0, *paths.shape[1:]))
    return paths.mean(0), np.moveaxis(quantiles, 0, -1)


def check_series(model: str, x: Tensor, channels: int, length: int) -> None:
    """InputError for values that are not (B, length, channels)."""
    if x.ndim != 3 or x.shape[0] < 1 or tuple(x.shape[1:]) != (length, channels):
        raise InputError(f"{model}: series are (B, {length}, {channels}), not {describe(x)}")


def scaled(x: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """x (B, T, C) → the scaled values, and the places and scales (B, 1, C) of the series: by the mean and the deviation
    ("std"), by the mean of the absolute values ("mean"), or not at all ("none").
    """
    if kind == "std":
        place = x.mean(1, keepdim=True)
        scale = ((x - place).square().mean(1, keepdim=True) + SMALLEST_STD).sqrt()
        return (x - place) / scale, place, scale
    if kind == "mean":
        scale = x.abs().mean(1, keepdim=True).clamp(min=SMALLEST_MEAN)
        return x / scale, ops.zeros_like(scale), scale
    ones = ops.ones(x.shape[0], 1, x.shape[2], device=x.device)
    return x, ops.zeros_like(ones), ones


def patches_of(x: Tensor, length: int, stride: int) -> Tensor:
    """x (B, T, C) → the patches (B, C, N, length), the last of which ends with the series."""
    count = (x.shape[1] - length) // stride + 1
    start = x.shape[1] - (length + stride * (count - 1))
    return x.narrow(1, start, x.shape[1] - start).unfold(1, length, stride).transpose(1, 2)


class ResidualBlock(Module):
    """A layer with an activation and a layer without, beside a layer around both. `names`: of the three layers."""

    def __init__(
        self, before: int, inner: int, after: int, activation: str, names: tuple[str, str, str], bias: bool = True
    ) -> None:
        super().__init__()
        self.names = names
        self.activation = activation_named(activation)
        for name, sizes in zip(names, ((before, inner), (inner, after), (before, after)), strict=True):
            self.add_module(name, Linear(*sizes, bias=bias))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., before) → (..., after)."""
        first, second, around = (self._modules[name] for name in self.names)
        found: Tensor = second(self.activation(first(x))) + around(x)
        return found


class TimeNorm(Module):
    """The norm of batches over patches."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.batchnorm = BatchNorm1d(width, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, N, D) → (B, N, D)."""
        return self.batchnorm(x.transpose(1, 2)).transpose(1, 2)


def patch_norm(width: int, epsilon: float, batches: bool) -> Module:
    """The norm of patches: of batches, or of each patch."""
    return TimeNorm(width, epsilon) if batches else LayerNorm(width, epsilon)


class PatchPositions(Module):
    """Adds positions to patches, after a token of the series' own if there is one."""

    def __init__(self, patches: int, width: int, with_token: bool = False) -> None:
        super().__init__()
        if with_token:
            self.cls_token = new_parameter(ops.zeros, 1, 1, 1, width)
        self.position_enc = new_parameter(ops.zeros, patches + with_token, width)
        self.with_token = with_token

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N, D) → (B, C, N, D), or (B, C, 1 + N, D) with the token."""
        if not self.with_token:
            return x + self.position_enc
        token = self.cls_token.expand(*x.shape[:2], 1, x.shape[3])
        return ops.cat([token, x], 2) + self.position_enc


class ParameterProjection(Module):
    """The parameters of a distribution, each from a layer of its own."""

    def __init__(self, features: int, horizon: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.proj = ModuleList(Linear(features, horizon) for _ in DISTRIBUTIONS[kind])

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, features) → the parameters (P, B, C, horizon), within their bounds."""
        found = []
        for name, layer in zip(DISTRIBUTIONS[self.kind], self.proj, strict=True):
            y = layer(x)
            if name in ("df", "scale", "n"):  # above 0 (the square plus)
                y = (y + (y.square() + 4).sqrt()) / 2
            found.append(y.clamp(min=SMALLEST_SCALE) if name == "scale" else y + 2 if name == "df" else y)
        return ops.stack(found)


def drawn(
    kind: str, parameters: NDArray[np.float64], place: NDArray[np.float64], scale: NDArray[np.float64], samples: int,
    generator: Any,
) -> NDArray[np.float64]:  # fmt: skip
    """Paths (samples, C, H) of a distribution with the parameters (P, C, H), for series of a place and a scale (C, 1).
    ModelError where they are not numbers that it can have.
    """
    shape = (samples, *parameters.shape[1:])
    if not np.isfinite(parameters).all():
        raise ModelError("the model computes NaN", hint="Its weights may be damaged")
    if kind == "negative_binomial":  # integers, which are scaled by their rate
        count, logits = parameters
        rates = generator.gamma(count, np.exp(np.minimum(logits + np.log(scale), 40.0)), shape)
        return generator.poisson(np.minimum(rates, 1e15), shape).astype(np.float64)
    if kind == "normal":
        middle, wide = parameters
        return generator.normal(middle, wide, shape) * scale + place
    freedom, middle, wide = parameters
    return (middle + wide * generator.standard_t(freedom, shape)) * scale + place


class PatchForecaster(Forecaster):
    """What PatchTST and PatchTSMixer have in common. A subclass sets `config`, with `num_input_channels`,
    `context_length`, `prediction_length`, `num_parallel_samples`, `scaler` and `distribution` (None: the forecast
    itself), and writes `outputs`.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.reads = self.needs = config.context_length
        self.together = config.num_input_channels
        self.horizon = self.longest = config.prediction_length
        self.draws = config.distribution is not None
        self.levels = None if self.draws else ()

    def outputs(self, x: Tensor) -> Tensor:
        """x (B, T, C), scaled → the forecast (1, B, C', horizon), or the parameters of its distribution (P, …)."""
        raise NotImplementedError

    def forward(self, past_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """past_values (B, T, C) → the forecast (1, B, C', H), or the parameters (P, B, C', H) of the distribution of
        scaled values, and the places and scales (B, C', 1) of the series.
        """
        check_series(type(self).__name__, past_values, self.together, self.reads)
        x, place, scale = scaled(past_values, self.config.scaler)
        y = self.outputs(x)
        place, scale = (part.transpose(1, 2) for part in (place, scale))  # (B, C, 1)
        if self.chosen != tuple(range(self.together)):
            index = ops.tensor(list(self.chosen), dtype="int64", device=y.device)
            place, scale = (ops.index_select(part, 1, index) for part in (place, scale))
        return (y if self.draws else y * scale + place), place, scale

    def forecasts(
        self, past: NDArray[np.float32], wanted: Wanted
    ) -> Generator[int, None, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        x = ops.from_numpy(np.ascontiguousarray(past.T)[None]).to(self.device)  # (1, T, C)
        y, place, scale = (part.to("float32").cpu().numpy().astype(np.float64) for part in self(x))
        y = y[:, 0, :, : wanted.horizon]  # (P, C', H)
        yield wanted.horizon
        if not self.draws:
            return y[0], np.empty((*y.shape[1:], 0))
        samples = wanted.samples or self.config.num_parallel_samples
        return of_paths(drawn(self.config.distribution, y, place[0], scale[0], samples, wanted.generator()), wanted)

"""Distributions of real numbers."""

from __future__ import annotations

import math
from typing import Any

from ..engine.ops import erf, erfinv, full_like, rand, randn, where, zeros_like
from ..engine.tensor import Tensor
from .constraints import interval, nonnegative, positive, real
from .distribution import Distribution, as_tensors, inner
from .exp_family import ExponentialFamily

EULER = 0.57721566490153286060


def _uniform(like: Tensor, shape: Any) -> Tensor:
    """Uniform numbers in the open interval (0, 1)."""
    drawn = rand(shape, dtype=like.dtype, device=like.device)
    return drawn.clamp(2.0**-25, 1 - 2.0**-24)


class _LocationScale(Distribution):
    """Base of distributions that are shifted by `loc` and scaled by `scale`."""

    has_rsample = True
    arg_constraints = {"loc": real, "scale": positive}
    support: Any = real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = as_tensors(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = inner("loc")

    def _standard(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + drawn * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.variance) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 0.5 * (1 + erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(_LocationScale):
    """Two exponential distributions back to back."""

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = _uniform(self.loc, self._extended_shape(sample_shape)) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        x = value - self.loc
        return 0.5 - 0.5 * x.sign() * (-x.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has no mean and no variance."""

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = _uniform(self.loc, self._extended_shape(sample_shape))
        return self.loc + ((u - 0.5) * math.pi).tan() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - self._standard(value).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The Gumbel distribution, the limit distribution of maxima."""

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = _uniform(self.loc, self._extended_shape(sample_shape))
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class Exponential(ExponentialFamily):
    """The distribution of times between events of a given rate."""

    has_rsample = True
    arg_constraints = {"rate": positive}
    support = nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = as_tensors(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        return self.rate.square().reciprocal()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -(-_uniform(self.rate, self._extended_shape(sample_shape))).log1p() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()


class Uniform(Distribution):
    """Uniform from `low` up to `high`."""

    has_rsample = True
    arg_constraints = {"low": real, "high": real}

    @property
    def support(self) -> Any:
        return interval(self.low, self.high)

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = as_tensors(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._checks() and not bool((self.low < self.high).all()):
            raise ValueError("Uniform: low must be below high")

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return self.high * math.nan

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = (value >= self.low).logical_and(value < self.high)
        return where(inside, -(self.high - self.low).log(), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

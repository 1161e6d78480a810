"""Distributions of numbers above 0: of lifetimes, of heavy tails, of ratios, of absolute values."""

from __future__ import annotations

import math
from typing import Any

from ..engine.ops import digamma, lgamma, where, zeros_like
from ..engine.tensor import Tensor
from .constraints import Constraint, greater_than_eq, interval, nonnegative, positive, real, unit_interval
from .continuous import EULER, Cauchy, Normal, _uniform
from .distribution import Distribution, as_tensors, inner
from .gamma import Gamma
from .transformed import TransformedDistribution
from .transforms import AbsTransform, PowerTransform


class Weibull(Distribution):
    """Lifetimes whose rate of failure grows (concentration above 1) or falls."""

    has_rsample = True
    arg_constraints = {"scale": positive, "concentration": positive}
    support = positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = as_tensors(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        return (self.scale**order) * lgamma(1 + order / self.concentration).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = _uniform(self.scale, self._extended_shape(sample_shape))
        return self.scale * (-u.log()) ** self.concentration.reciprocal()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k, ratio = self.concentration, value / self.scale
        return (k / self.scale).log() + (k - 1) * ratio.log() - ratio**k

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(-((value / self.scale) ** self.concentration)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p()) ** self.concentration.reciprocal()

    def entropy(self) -> Tensor:
        k = self.concentration
        return EULER * (1 - k.reciprocal()) + (self.scale / k).log() + 1


class Pareto(Distribution):
    """Numbers from `scale`, with a tail that falls as a power `alpha`."""

    has_rsample = True
    arg_constraints = {"scale": positive, "alpha": positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = as_tensors(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        return greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return where(self.alpha <= 1, math.inf, self.alpha * self.scale / (self.alpha - 1))

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        return where(a <= 2, math.inf, self.scale.square() * a / ((a - 1).square() * (a - 2)))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(_uniform(self.scale, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - (self.scale / value) ** self.alpha

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p() / self.alpha).exp()

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class _Half(TransformedDistribution):
    """The absolute value of a number around 0."""

    arg_constraints = {"scale": positive}
    support = nonnegative
    _kind: type[Normal] | type[Cauchy]  # of the number

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._kind(0.0, scale, validate_args), AbsTransform(), validate_args)

    scale = inner("base_dist.scale")

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal number of mean 0."""

    _kind = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy number around 0."""

    _kind = Cauchy

    @property
    def mean(self) -> Tensor:
        return self.scale * math.inf

    variance = inner("base_dist.variance")


class InverseGamma(TransformedDistribution):
    """The reciprocals of numbers of a Gamma distribution."""

    arg_constraints = {"concentration": positive, "rate": positive}
    support = positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(Gamma(concentration, rate, validate_args), PowerTransform(-1.0), validate_args)

    concentration = inner("base_dist.concentration")
    rate = inner("base_dist.rate")

    @property
    def mean(self) -> Tensor:
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.base_dist.log_prob(value.reciprocal()) - 2 * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - self.base_dist.cdf(value.reciprocal())

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + lgamma(a) - (1 + a) * digamma(a)


class FisherSnedecor(Distribution):
    """The ratio of two Chi2 numbers, each divided by its degrees of freedom."""

    has_rsample = True
    arg_constraints = {"df1": positive, "df2": positive}
    support = positive

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = as_tensors(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        return where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        return where(b > 4, 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4)), math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        first = Gamma(self.df1 / 2, self.df1 / 2, False).rsample(sample_shape)
        return first / Gamma(self.df2 / 2, self.df2 / 2, False).rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        size = lgamma(a + b) - lgamma(a) - lgamma(b)
        return size + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()


class Kumaraswamy(Distribution):
    """Numbers between 0 and 1, much as Beta, with a simple cdf."""

    has_rsample = True
    arg_constraints = {"concentration1": positive, "concentration0": positive}
    support = unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = as_tensors(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        a, b = 1 + order / self.concentration1, self.concentration0
        return b * (lgamma(a) + lgamma(b) - lgamma(a + b)).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return where((a < 1).logical_or(b < 1), math.nan, found)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(_uniform(self.concentration1, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + (a - 1) * value.log() + (b - 1) * (-(value**a)).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - (1 - value**self.concentration1) ** self.concentration0

    def icdf(self, value: Tensor) -> Tensor:
        return (1 - (1 - value) ** self.concentration0.reciprocal()) ** self.concentration1.reciprocal()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * (digamma(b + 1) + EULER) - a.log() - b.log()


class GeneralizedPareto(Distribution):
    """What exceeds a high limit `loc` (Pickands 1975): tails that end (concentration below 0), fall exponentially (0)
    or are heavy.
    """

    has_rsample = True
    arg_constraints = {"loc": real, "scale": positive, "concentration": real}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = as_tensors(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def support(self) -> Constraint:
        shape = self.concentration
        return interval(self.loc, where(shape < 0, self.loc - self.scale / self._safe(), math.inf))

    def _safe(self) -> Tensor:
        """The concentration, 1 where it is (nearly) 0 and formulas of the exponential distribution hold."""
        return where(self._is_exponential(), 1.0, self.concentration)

    def _is_exponential(self) -> Tensor:
        return self.concentration.abs() < 1e-8

    @property
    def mean(self) -> Tensor:
        shape = where(self.concentration < 1, self.concentration, 0.0)
        return where(self.concentration < 1, self.loc + self.scale / (1 - shape), math.inf)

    mode = inner("loc")

    @property
    def variance(self) -> Tensor:
        shape = where(self.concentration < 0.5, self.concentration, 0.0)
        return where(self.concentration < 0.5, (self.scale / (1 - shape)).square() / (1 - 2 * shape), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(_uniform(self.scale, self._extended_shape(sample_shape)))

    def _log_survival(self, value: Tensor) -> Tensor:
        z, shape = (value - self.loc) / self.scale, self._safe()
        return -where(self._is_exponential(), z, (shape * z).log1p() / shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._log_survival(value) * (1 + self.concentration) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -self._log_survival(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        log, shape = -(-value).log1p(), self._safe()
        return self.loc + self.scale * where(self._is_exponential(), log, (shape * log).expm1() / shape)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

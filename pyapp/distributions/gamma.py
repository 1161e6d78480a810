"""The gamma distribution and those derived from it. Their draws are not differentiable."""

from __future__ import annotations

import math
from typing import Any

from ..engine import no_grad
from ..engine.lazy import np
from ..engine.numpy_arrays import array_of, tensor_of
from ..engine.ops import digamma, full_like, lgamma, rand, randn, where
from ..engine.ops.elementwise.exponential import xlogy
from ..engine.tensor import Tensor
from .constraints import nonnegative, positive, real, simplex, unit_interval
from .distribution import Distribution, as_tensors


def draw_gamma(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Gamma numbers of rate 1, by rejection (Marsaglia and Tsang 2000, "A simple method for generating gamma
    variables"). For a concentration a below 1, a draw for a + 1 is multiplied by a power of a uniform number.
    """
    wanted = np.broadcast_to(array_of(concentration.detach()).astype("float64"), shape).reshape(-1)
    d = np.where(wanted < 1, wanted + 1, wanted) - 1 / 3
    c = 1 / np.sqrt(9 * d)
    found, left = np.empty(len(d)), np.arange(len(d))
    while len(left):
        x = array_of(randn(len(left))).astype("float64")
        u = np.maximum(array_of(rand(len(left))).astype("float64"), 2.0**-25)
        v = (1 + c[left] * x) ** 3
        with np.errstate(invalid="ignore", divide="ignore"):
            taken = (v > 0) & (np.log(u) < 0.5 * x * x + d[left] * (1 - v + np.log(v)))
        found[left[taken]] = d[left[taken]] * v[taken]
        left = left[~taken]
    power = np.maximum(array_of(rand(len(d))).astype("float64"), 2.0**-25) ** (1 / np.maximum(wanted, 1e-30))
    found = np.where(wanted < 1, found * power, found)
    return tensor_of(np.maximum(found, 1e-37).reshape(shape), concentration.dtype)


class Gamma(Distribution):
    """The gamma distribution with a concentration (shape) and a rate."""

    arg_constraints = {"concentration": positive, "rate": positive}
    support = nonnegative

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = as_tensors(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return draw_gamma(self.concentration, self._extended_shape(sample_shape)) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration, self.rate
        return xlogy(a, b) + xlogy(a - 1, value) - b * value - lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1 - a) * digamma(a)


class Chi2(Gamma):
    """The distribution of the sum of the squares of `df` normal numbers."""

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = as_tensors(df)
        super().__init__(0.5 * df, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2


class Dirichlet(Distribution):
    """The distribution of vectors (..., K) of probabilities, with concentrations (..., K)."""

    arg_constraints = {"concentration": positive}
    support = simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("Dirichlet: takes concentrations of at least one dim")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            drawn = draw_gamma(self.concentration, self._extended_shape(sample_shape))
            return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return xlogy(a - 1, value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        spread = lgamma(a).sum(-1) - lgamma(total)
        return spread - (a.shape[-1] - total) * digamma(total) - ((a - 1) * digamma(a)).sum(-1)


class Beta(Distribution):
    """The beta distribution of probabilities, with two concentrations."""

    arg_constraints = {"concentration1": positive, "concentration0": positive}
    support = unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = as_tensors(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            first, second = draw_gamma(self.concentration1, shape), draw_gamma(self.concentration0, shape)
            return first / (first + second)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return xlogy(a - 1, value) + xlogy(b - 1, 1 - value) + lgamma(a + b) - lgamma(a) - lgamma(b)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        spread = lgamma(a) + lgamma(b) - lgamma(a + b)
        return spread - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (a + b - 2) * digamma(a + b)


class StudentT(Distribution):
    """Student's t distribution of `df` degrees of freedom, shifted by `loc` and scaled by `scale`."""

    arg_constraints = {"df": positive, "loc": real, "scale": positive}
    support = real

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = as_tensors(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def variance(self) -> Tensor:
        found = self.scale.square() * self.df / (self.df - 2)
        return where(self.df > 2, found, where(self.df > 1, full_like(self.df, math.inf), math.nan))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            squares = draw_gamma(self.df / 2, shape) * 2
            return self.loc + self.scale * randn(shape, dtype=self.loc.dtype) * (self.df / squares).sqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        size = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        size = size + lgamma(0.5 * self.df) - lgamma(0.5 * (self.df + 1))
        return -0.5 * (self.df + 1) * (y.square() / self.df).log1p() - size

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1)
        beta = lgamma(0.5 * self.df) + math.lgamma(0.5) - lgamma(half)
        return self.scale.log() + half * (digamma(half) - digamma(0.5 * self.df)) + 0.5 * self.df.log() + beta

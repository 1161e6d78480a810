"""The gamma distribution and those derived from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..engine import float64, int64, is_grad_enabled
from ..engine.lazy import np
from ..engine.numpy_arrays import array_of, tensor_of
from ..engine.ops import digamma, full_like, igamma, lgamma, rand, randn, sigmoid, softmax, stack, where, zeros
from ..engine.ops.dtype_limits import finfo
from ..engine.ops.elementwise.exponential import xlogy
from ..engine.ops.embedding_lookup import one_hot
from ..engine.tensor import Tensor
from .constraints import nonnegative, positive, real, simplex, unit_interval
from .distribution import Distribution, as_tensors, inner
from .exp_family import ExponentialFamily

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


def _draw_logarithms(concentration: Tensor, shape: tuple[int, ...]) -> Array:
    """Logarithms of gamma numbers of rate 1, in float64, by rejection (Marsaglia and Tsang 2000, "A simple method for
    generating gamma variables"). For a concentration a below 1, a draw for a + 1 is multiplied by a power of a uniform
    number.
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
    power = np.log(np.maximum(array_of(rand(len(d), dtype=float64)), 2.0**-54)) / np.maximum(wanted, 1e-30)
    return (np.log(found) + np.where(wanted < 1, power, 0.0)).reshape(shape)


def draw_gamma(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Gamma numbers of rate 1; what is too small for the dtype is its smallest normal number."""
    found = np.maximum(np.exp(_draw_logarithms(concentration, shape)), finfo(concentration.dtype).tiny)
    return tensor_of(found, concentration.dtype).to(concentration.device)


_MANY = 1e4  # concentration from which a draw is nearly normal


def _slope(logarithm: Array, a: Array) -> Array:
    """d log z / da of draws z of concentrations a, at a fixed cdf (Figurnov, Mohamed and Mnih 2018, "Implicit
    reparameterization gradients"): -(dP(a, z) / da) / density, by the series of P for small a; for large ones by the
    cube root of a draw, which is nearly normal (Wilson and Hilferty 1931)."""
    z, root = np.exp(logarithm), np.sqrt(a)
    cube = np.cbrt(z / a)
    normal = 3 * root * (cube - 1 + 1 / (9 * a))
    with np.errstate(all="ignore"):  # small concentrations have the series
        found = 1 / a + 3 / cube * (1 / (9 * a * a) - normal / (6 * a * root))
    at = np.nonzero(a < _MANY)
    x, b = z[at], a[at]
    psi = array_of(digamma(tensor_of(b + 1)))
    term, total, n = 1 / b, np.zeros_like(x), 0
    logarithm = logarithm[at]
    while len(x):
        step = term * (psi - logarithm)
        total += step
        n += 1
        if n % 16 == 0 and bool(((np.abs(step) <= 1e-17 * np.abs(total)) & (b + n > 2 * x)).all()):
            break
        psi = psi + 1 / (b + n)
        term = term * x / (b + n)
    found[at] = total
    return found


def _gammas(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Draws of `draw_gamma` with their gradient for the concentration."""
    drawn = draw_gamma(concentration, shape)
    if not (concentration.requires_grad and is_grad_enabled()):
        return drawn
    wide = np.broadcast_to(array_of(concentration.detach()), shape).astype("float64")
    values = array_of(drawn).astype("float64")
    slope = tensor_of(values * _slope(np.log(values), wide), drawn.dtype).to(drawn.device)
    return drawn + slope * (concentration - concentration.detach())


def _log_gammas(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Logarithms of gamma numbers with their gradient for the concentration; they say how numbers compare that are too
    small for the dtype."""
    found = _draw_logarithms(concentration, shape)
    drawn = tensor_of(found, concentration.dtype).to(concentration.device)
    if not (concentration.requires_grad and is_grad_enabled()):
        return drawn
    wide = np.broadcast_to(array_of(concentration.detach()), shape).astype("float64")
    slope = tensor_of(_slope(found, wide), drawn.dtype).to(drawn.device)
    return drawn + slope * (concentration - concentration.detach())


def _within(probabilities: Tensor) -> Tensor:
    """Probabilities between 0 and 1, without both, as torch draws them."""
    limits = finfo(probabilities.dtype)
    return probabilities.clamp(limits.tiny, 1 - limits.eps / 2)


class Gamma(ExponentialFamily):
    """The gamma distribution with a concentration (shape) and a rate."""

    has_rsample = True
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

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return _gammas(self.concentration, self._extended_shape(sample_shape)) / self.rate

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration, self.rate
        return xlogy(a, b) + xlogy(a - 1, value) - b * value - lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + lgamma(a) + (1 - a) * digamma(a)


class Chi2(Gamma):
    """The distribution of the sum of the squares of `df` normal numbers."""

    arg_constraints = {"df": positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = as_tensors(df)
        super().__init__(0.5 * df, 0.5, validate_args)

    def _given_names(self) -> tuple[str, ...]:
        return ("df",)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """The distribution of vectors (..., K) of probabilities, with concentrations (..., K)."""

    has_rsample = True
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

    @property
    def mode(self) -> Tensor:
        """Where all concentrations are below 1, the first corner, as in torch: all corners are modes."""
        above = (self.concentration - 1).clamp(min=0)
        first = zeros(above.shape[:-1], dtype=int64, device=above.device)
        flat = one_hot(first, self._event_shape[0]).to(above.dtype)
        return where((self.concentration < 1).all(-1, keepdim=True), flat, above / above.sum(-1, keepdim=True))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return _within(softmax(_log_gammas(self.concentration, self._extended_shape(sample_shape)), -1))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return xlogy(a - 1, value).sum(-1) + lgamma(a.sum(-1)) - lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        spread = lgamma(a).sum(-1) - lgamma(total)
        return spread - (a.shape[-1] - total) * digamma(total) - ((a - 1) * digamma(a)).sum(-1)


class Beta(ExponentialFamily):
    """The beta distribution of probabilities, with two concentrations."""

    has_rsample = True
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

    @property
    def mode(self) -> Tensor:
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), False).mode[..., 0]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return _within(sigmoid(_log_gammas(self.concentration1, shape) - _log_gammas(self.concentration0, shape)))

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

    has_rsample = True
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

    mode = inner("loc")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        squares = _gammas(self.df / 2, shape) * 2
        drawn = randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + self.scale * drawn * (self.df / squares).sqrt()

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

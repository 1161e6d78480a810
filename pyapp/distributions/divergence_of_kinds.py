"""Divergences of distributions of different kinds, by moments: KL(p || q) = -H(p) - E[log q(x)] for x from p."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..engine.ops import digamma, erf, full, lgamma, where
from ..engine.ops.elementwise.exponential import xlogy
from ..engine.tensor import Tensor
from .continuous import Cauchy, Exponential, Gumbel, Laplace, Normal, Uniform
from .continuous_bernoulli import ContinuousBernoulli
from .counts import Binomial, Poisson
from .discrete import Bernoulli
from .distribution import Distribution
from .gamma import Beta, Gamma
from .of_positive_numbers import Pareto

_EULER = 0.5772156649015329  # the Euler-Mascheroni constant

# (least, greatest) number that a distribution gives
_RANGES: dict[type, Callable[[Any], tuple[Any, Any]]] = {
    Beta: lambda d: (0.0, 1.0),
    ContinuousBernoulli: lambda d: (0.0, 1.0),
    Exponential: lambda d: (0.0, math.inf),
    Gamma: lambda d: (0.0, math.inf),
    Gumbel: lambda d: (-math.inf, math.inf),
    Laplace: lambda d: (-math.inf, math.inf),
    Normal: lambda d: (-math.inf, math.inf),
    Pareto: lambda d: (d.scale, math.inf),
    Uniform: lambda d: (d.low, d.high),
}


def _log_of_uniform(low: Tensor, high: Tensor) -> Tensor:
    """The mean of log x for x from low .. high."""
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1


# The mean of log x.
_LOGS: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda d: digamma(d.concentration1) - digamma(d.concentration1 + d.concentration0),
    Exponential: lambda d: -_EULER - d.rate.log(),
    Gamma: lambda d: digamma(d.concentration) - d.rate.log(),
    Pareto: lambda d: d.scale.log() + d.alpha.reciprocal(),
    Uniform: lambda d: _log_of_uniform(d.low, d.high),
}
# The mean of exp(-x / s).
_EXPONENTIALS: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Exponential: lambda d, s: d.rate * s / (d.rate * s + 1),
    Gamma: lambda d, s: (1 + (d.rate * s).reciprocal()) ** -d.concentration,
    Gumbel: lambda d, s: (lgamma(1 + d.scale / s) - d.loc / s).exp(),
    Normal: lambda d, s: (0.5 * (d.scale / s).square() - d.loc / s).exp(),
    Uniform: lambda d, s: s * ((-d.low / s).exp() - (-d.high / s).exp()) / (d.high - d.low),
}


def _in_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _in_gamma(p: Any, q: Gamma) -> Tensor:
    c, rate = q.concentration, q.rate
    return c * rate.log() - lgamma(c) + (c - 1) * _moment(_LOGS, p, q)(p) - rate * p.mean


def _in_normal(p: Any, q: Normal) -> Tensor:
    spread = p.variance + (p.mean - q.loc).square()
    return -0.5 * (spread / q.scale.square() + math.log(2 * math.pi)) - q.scale.log()


def _in_laplace(p: Any, q: Laplace) -> Tensor:
    if not isinstance(p, Normal):
        raise _none(p, q)
    apart = p.loc - q.loc
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * (apart / p.scale).square()).exp()
    return -(near + apart * erf(math.sqrt(0.5) * apart / p.scale)) / q.scale - (2 * q.scale).log()


def _in_gumbel(p: Any, q: Gumbel) -> Tensor:
    grown = (q.loc / q.scale).exp() * _moment(_EXPONENTIALS, p, q)(p, q.scale)
    return -(p.mean - q.loc) / q.scale - grown - q.scale.log()


def _in_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return p.mean * q.logits + (-q.probs).log1p() + q._log_norm()


def _in_pareto(p: Any, q: Pareto) -> Tensor:
    return q.alpha.log() + xlogy(q.alpha, q.scale) - (q.alpha + 1) * _moment(_LOGS, p, q)(p)


def _in_beta(p: Any, q: Beta) -> Tensor:
    if not isinstance(p, Uniform):
        raise _none(p, q)
    a, b = q.concentration1, q.concentration0
    logs = (a - 1) * _log_of_uniform(p.low, p.high) + (b - 1) * _log_of_uniform(1 - p.high, 1 - p.low)
    return logs - lgamma(a) - lgamma(b) + lgamma(a + b)


# The mean of log q(x) for x from p.
_DENSITIES: dict[type, Callable[[Any, Any], Tensor]] = {
    Beta: _in_beta,
    ContinuousBernoulli: _in_continuous_bernoulli,
    Exponential: _in_exponential,
    Gamma: _in_gamma,
    Gumbel: _in_gumbel,
    Laplace: _in_laplace,
    Normal: _in_normal,
    Pareto: _in_pareto,
    Uniform: lambda p, q: -(q.high - q.low).log(),
}


def _none(p: Distribution, q: Distribution) -> NotImplementedError:
    return NotImplementedError(f"kl_divergence: not of {type(p).__name__} and {type(q).__name__}")


def _kind(d: Distribution, table: dict[type, Any]) -> Any:
    return next((table[kind] for kind in type(d).__mro__ if kind in table), None)


def _moment(table: dict[type, Any], p: Distribution, q: Distribution) -> Any:
    found = _kind(p, table)
    if found is None:
        raise _none(p, q)
    return found


def _of_counts(p: Distribution, q: Distribution) -> Tensor:
    if isinstance(p, Binomial) and isinstance(q, Binomial):
        if bool((q.total_count > p.total_count).any()):
            raise NotImplementedError("kl_divergence: the second Binomial counts more trials than the first")
        each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
        return where(p.total_count > q.total_count, math.inf, p.total_count * each)
    if isinstance(p, Bernoulli) and isinstance(q, Poisson):
        return -p.entropy() - (p.probs * q.rate.log() - q.rate)
    if isinstance(p, Poisson) and isinstance(q, (Bernoulli, Binomial)):
        return (p.rate + q.probs) * 0 + math.inf
    raise _none(p, q)


def _ends(own: Any, other: Any) -> bool:
    """Whether the first has no limit on a side where the second has one."""
    return isinstance(own, float) and math.isinf(own) and not (isinstance(other, float) and math.isinf(other))


def divergence_of_kinds(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), infinite where p gives numbers that q does not. NotImplementedError where there is no formula, as in
    torch."""
    if isinstance(p, Cauchy) and isinstance(q, Cauchy):
        return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()
    own, other, density = _kind(p, _RANGES), _kind(q, _RANGES), _kind(q, _DENSITIES)
    if own is None or other is None:
        return _of_counts(p, q)
    (low, high), (least, most) = own(p), other(q)
    like = p.mean + q.mean
    if _ends(low, least) or _ends(high, most):
        return full(like.shape, math.inf, dtype=like.dtype, device=like.device)
    if isinstance(p, ContinuousBernoulli) and isinstance(q, Pareto):  # which begins above 0
        return full(like.shape, math.inf, dtype=like.dtype, device=like.device)
    value = -p.entropy() - density(p, q)
    outside = (like * 0 + low < least).logical_or(like * 0 + high > most)
    return where(outside, math.inf, value)

"""The Kullback-Leibler divergence of two distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from ..engine.ops import arange, digamma, lgamma, mvlgamma, solve_triangular, where
from ..engine.ops.elementwise.exponential import xlogy
from ..engine.tensor import Tensor
from .continuous import EULER, Exponential, Laplace, Normal, Uniform
from .counts import Geometric, Poisson
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .distribution import Distribution, Independent
from .divergence_of_kinds import divergence_of_kinds
from .gamma import Beta, Chi2, Dirichlet, Gamma
from .low_rank import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal
from .of_matrices import Wishart
from .of_positive_numbers import HalfCauchy, HalfNormal, InverseGamma, Weibull
from .transformed import LogNormal, TransformedDistribution
from .transforms import sum_last


def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


def _uniform(p: Uniform, q: Uniform) -> Tensor:
    outside = (q.low > p.low).logical_or(q.high < p.high)
    return where(outside, math.inf, ((q.high - q.low) / (p.high - p.low)).log())


def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    on = xlogy(p.probs, p.probs) - xlogy(p.probs, q.probs)
    off = xlogy(1 - p.probs, 1 - p.probs) - xlogy(1 - p.probs, 1 - q.probs)
    return on + off


def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b, c, d = p.concentration, p.rate, q.concentration, q.rate
    return c * (b / d).log() + lgamma(c) - lgamma(a) + (a - c) * digamma(a) + (d - b) * (a / b)


def _beta(p: Beta, q: Beta) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    spread = lgamma(a + b) + lgamma(c) + lgamma(d) - lgamma(c + d) - lgamma(a) - lgamma(b)
    return spread + (a - c) * digamma(a) + (b - d) * digamma(b) + (c + d - a - b) * digamma(a + b)


def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, c = p.concentration, q.concentration
    spread = lgamma(a.sum(-1)) - lgamma(c.sum(-1)) - (lgamma(a) - lgamma(c)).sum(-1)
    return spread + ((a - c) * (digamma(a) - digamma(a.sum(-1, keepdim=True)))).sum(-1)


def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(cast(Normal, p.base_dist), cast(Normal, q.base_dist))


def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = where((q.probs == 0).expand(*terms.shape), math.inf, terms)
    return where((p.probs == 0).expand(*terms.shape), 0.0, terms).sum(-1)


def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    half = q._half_log_det() - p._half_log_det()
    moved = solve_triangular(q.scale_tril, p.scale_tril, upper=False).square().sum((-2, -1))
    apart = solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False).square().sum((-2, -1))
    return half + 0.5 * (moved + apart - p.event_shape[0])


def _weibull(p: Weibull, q: Weibull) -> Tensor:
    """Bauckhage 2013, arXiv 1310.3713."""
    ratio = q.concentration / p.concentration
    logs = (p.concentration / q.concentration).log() + q.concentration * q.scale.log() - p.concentration * p.scale.log()
    spread = (p.concentration - q.concentration) * (p.scale.log() - EULER / p.concentration)
    return logs + spread + ((p.scale / q.scale).log() * q.concentration + lgamma(ratio + 1)).exp() - 1


def _wishart(p: Wishart, q: Wishart) -> Tensor:
    """Penny 2001, "KL-divergences of Normal, Gamma, Dirichlet, and Wishart densities"."""
    size = p.event_shape[0]
    moved = solve_triangular(q.scale_tril, p.scale_tril, upper=False).square().sum((-2, -1))
    logs = 2 * (q.scale_tril.diagonal(0, -2, -1).log() - p.scale_tril.diagonal(0, -2, -1).log()).sum(-1)
    slope = digamma(p.df.unsqueeze(-1) / 2 - arange(size, dtype=p.df.dtype, device=p.df.device) / 2).sum(-1)
    apart = mvlgamma(q.df / 2, size) - mvlgamma(p.df / 2, size) + (p.df - q.df) / 2 * slope
    return q.df / 2 * logs + p.df / 2 * (moved - size) + apart


_KINDS: dict[type, Callable[[Any, Any], Tensor]] = {
    Bernoulli: _bernoulli, Beta: _beta, Categorical: _categorical, Chi2: _gamma, Dirichlet: _dirichlet,
    Exponential: _exponential, Gamma: _gamma, Geometric: _geometric, HalfNormal: _half_normal,
    Laplace: _laplace, LogNormal: _normal, MultivariateNormal: _multivariate, Normal: _normal,
    OneHotCategorical: _categorical, Poisson: _poisson, Uniform: _uniform, Weibull: _weibull, Wishart: _wishart,
    HalfCauchy: lambda p, q: kl_divergence(p.base_dist, q.base_dist),  # both numbers have the same two signs
    InverseGamma: _gamma,  # of the same numbers' reciprocals
}  # fmt: skip


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator: the function gives the divergence of these two classes, and of classes made of them."""

    def register(function: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
        _OWN[type_p, type_q] = function
        return function

    return register


_OWN: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def _own(p: Distribution, q: Distribution) -> Callable[[Any, Any], Tensor] | None:
    """The registered function for the nearest of the classes."""
    pairs = ((a, b) for a in type(p).__mro__ for b in type(q).__mro__)
    return next((_OWN[pair] for pair in pairs if pair in _OWN), None)


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q) in nats, in the shape of the batch. NotImplementedError where there is no formula."""
    own = _own(p, q) if _OWN else None
    if own is not None:
        return own(p, q)
    if isinstance(p, Independent) and isinstance(q, Independent):
        if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
            raise NotImplementedError("kl_divergence: the two make different dims one event")
        return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
    kind = next((kind for kind in type(p).__mro__ if kind in _KINDS), None)
    found = _KINDS[kind] if kind is not None and kind in type(q).__mro__ else None
    if found is not None:
        return found(p, q)
    if isinstance(p, TransformedDistribution) and isinstance(q, TransformedDistribution):
        if p.transforms != q.transforms or p.event_shape != q.event_shape:
            raise NotImplementedError("kl_divergence: the two distributions have different transforms")
        return kl_divergence(p.base_dist, q.base_dist)
    normal = (MultivariateNormal, LowRankMultivariateNormal)
    if isinstance(p, normal) and isinstance(q, normal):
        return _multivariate(*(MultivariateNormal(d.loc, scale_tril=d.scale_tril) for d in (p, q)))
    return divergence_of_kinds(p, q)

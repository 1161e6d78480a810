"""Calls on torch.distributions: what each distribution answers, expanded ones, transforms, constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

A, B, P = [0.5, 2.0, 3.0], [1.5, 0.7, 2.0], [0.2, 0.3, 0.5]
INSIDE = [0.3, 0.5, 0.8]


def _normal(t: Any, *shape: int) -> Any:
    return t.distributions.Normal(t.zeros(*shape), t.ones(*shape))


MADE: dict[str, tuple[Callable[[Any, Any, Any, Any], Any], Any]] = {  # by (torch, distributions, a, b); a value
    "Normal": (lambda t, d, a, b: d.Normal(a, b), INSIDE), "scalar": (lambda t, d, a, b: d.Normal(0.0, 1.0), 0.5),
    "LogNormal": (lambda t, d, a, b: d.LogNormal(a, b), INSIDE),
    "Laplace": (lambda t, d, a, b: d.Laplace(a, b), INSIDE),
    "Uniform": (lambda t, d, a, b: d.Uniform(a - 9, b), INSIDE), "Cauchy": (lambda t, d, a, b: d.Cauchy(a, b), INSIDE),
    "Bernoulli": (lambda t, d, a, b: d.Bernoulli(a / 3.5), [0.0, 1.0, 1.0]),
    "Bernoulli of logits": (lambda t, d, a, b: d.Bernoulli(logits=a), [0.0, 1.0, 1.0]),
    "Categorical": (lambda t, d, a, b: d.Categorical(t.stack([a, b])), [2, 1]),
    "OneHotCategorical": (lambda t, d, a, b: d.OneHotCategorical(logits=t.stack([a, b])), [0.0, 1.0, 0.0]),
    "Beta": (lambda t, d, a, b: d.Beta(a, b), INSIDE), "Gamma": (lambda t, d, a, b: d.Gamma(a, b), INSIDE),
    "Chi2": (lambda t, d, a, b: d.Chi2(a), INSIDE), "Dirichlet": (lambda t, d, a, b: d.Dirichlet(t.stack([a, b])), P),
    "Exponential": (lambda t, d, a, b: d.Exponential(a), INSIDE), "Gumbel": (lambda t, d, a, b: d.Gumbel(a, b), INSIDE),
    "Geometric": (lambda t, d, a, b: d.Geometric(a / 4), [0.0, 1.0, 4.0]),
    "HalfNormal": (lambda t, d, a, b: d.HalfNormal(a), INSIDE),
    "Poisson": (lambda t, d, a, b: d.Poisson(a), [0.0, 2.0, 9.0]),
    "StudentT": (lambda t, d, a, b: d.StudentT(a + 2, a, b), INSIDE),
    "Binomial": (lambda t, d, a, b: d.Binomial(5, a / 4), [0.0, 2.0, 5.0]),
    "MultivariateNormal": (
        lambda t, d, a, b: d.MultivariateNormal(t.stack([a, b]), scale_tril=t.diag(b) + t.ones(3, 3).tril(-1)), INSIDE
    ),
    "Independent": (lambda t, d, a, b: d.Independent(d.Normal(t.stack([a, b]), b), 1), INSIDE),
    "MixtureSameFamily": (
        lambda t, d, a, b: d.MixtureSameFamily(d.Categorical(t.stack([a, b])), d.Normal(a.repeat(2, 1), b)), 0.5
    ),
    "VonMises": (lambda t, d, a, b: d.VonMises(a, b * 4), INSIDE),
    "ContinuousBernoulli": (lambda t, d, a, b: d.ContinuousBernoulli(a / 4), INSIDE),
    "ContinuousBernoulli of logits": (lambda t, d, a, b: d.ContinuousBernoulli(logits=a * 0.001), INSIDE),
    "LowRankMultivariateNormal": (
        lambda t, d, a, b: d.LowRankMultivariateNormal(t.stack([a, b]), t.stack([b, a], -1), a), INSIDE
    ),
    "Weibull": (lambda t, d, a, b: d.Weibull(a, b), INSIDE),
    "Pareto": (lambda t, d, a, b: d.Pareto(a, b), [0.6, 3.0, 4.0]),
    "HalfCauchy": (lambda t, d, a, b: d.HalfCauchy(a), INSIDE),
    "Wishart": (
        lambda t, d, a, b: d.Wishart(a[1:] + 1.5, t.diag(b[:2]) + 0.2), [[2.0, 0.3], [0.3, 1.0]]
    ),
    "Wishart of the inverse": (
        lambda t, d, a, b: d.Wishart(t.tensor(1.5), precision_matrix=t.eye(2) * 2), [[2.0, 0.3], [0.3, 1.0]]
    ),
    "LKJCholesky": (
        lambda t, d, a, b: d.LKJCholesky(3, a[:2]), [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.64, 0.6]]
    ),
    "GeneralizedPareto": (lambda t, d, a, b: d.GeneralizedPareto(0.1, b, t.tensor([-0.3, 0.0, 0.4])), INSIDE),
    "InverseGamma": (lambda t, d, a, b: d.InverseGamma(a, b), INSIDE),
    "FisherSnedecor": (lambda t, d, a, b: d.FisherSnedecor(a * 2, b * 3), INSIDE),
    "Kumaraswamy": (lambda t, d, a, b: d.Kumaraswamy(a[:2], b[:2]), INSIDE[:2]),
    "NegativeBinomial": (lambda t, d, a, b: d.NegativeBinomial(b * 2, a / 4), [1.0, 2.0, 30.0]),
    "Multinomial": (lambda t, d, a, b: d.Multinomial(4, t.stack([a, b])), [1.0, 1.0, 2.0]),
    "Multinomial of logits": (lambda t, d, a, b: d.Multinomial(4, logits=a), [0.0, 0.0, 4.0]),
    "RelaxedBernoulli": (lambda t, d, a, b: d.RelaxedBernoulli(t.tensor(0.5), logits=a), INSIDE),
    "RelaxedOneHotCategorical": (lambda t, d, a, b: d.RelaxedOneHotCategorical(t.tensor(0.7), t.stack([a, b])), P),
    "OneHotCategoricalStraightThrough": (lambda t, d, a, b: d.OneHotCategoricalStraightThrough(a), [0.0, 1.0, 0.0]),
    "LogisticNormal": (lambda t, d, a, b: d.LogisticNormal(a, b), [0.2, 0.3, 0.4, 0.1]),
    "growing and falling": (
        lambda t, d, a, b: d.TransformedDistribution(
            d.Normal(a, 1.0), [d.AffineTransform(1.0, -2.0), d.ExpTransform(), d.PowerTransform(b)]
        ), INSIDE
    ),
    "sticks": (
        lambda t, d, a, b: d.TransformedDistribution(_normal(t, 2, 3), d.StickBreakingTransform()), [0.2, 0.3, 0.4, 0.1]
    ),
    "of an event": (
        lambda t, d, a, b: d.TransformedDistribution(
            d.Independent(_normal(t, 2, 3), 1), [d.SigmoidTransform(), d.AffineTransform(0.0, a * 3)]
        ), INSIDE
    ),
    "reshaped": (
        lambda t, d, a, b: d.TransformedDistribution(_normal(t, 2, 6), [d.ReshapeTransform((6,), (2, 3))]), [INSIDE, P]
    ),
    "correlations": (
        lambda t, d, a, b: d.TransformedDistribution(_normal(t, 3), [d.CorrCholeskyTransform()]),
        [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.48, 0.64, 0.6]],
    ),
    "inverses": (
        lambda t, d, a, b: d.TransformedDistribution(d.Gamma(a, b), [d.SoftplusTransform().inv, d.ExpTransform()]),
        INSIDE,
    ),
    "composed": (
        lambda t, d, a, b: d.TransformedDistribution(
            _normal(t, 3), d.ComposeTransform([d.TanhTransform(cache_size=1), d.AffineTransform(0, 2.0)])
        ), INSIDE
    ),
    "made larger by a transform": (
        lambda t, d, a, b: d.TransformedDistribution(d.Normal(0.0, 1.0), [d.AffineTransform(a, b)]), INSIDE
    ),
    "a vector moved": (
        lambda t, d, a, b: d.TransformedDistribution(
            d.MultivariateNormal(t.zeros(3), t.eye(3)), [d.AffineTransform(a, 2.0, event_dim=1)]
        ), INSIDE
    ),
}  # fmt: skip


def _or_refusal(call: Callable[[], Any]) -> Any:
    """A result, or the text NotImplementedError."""
    try:
        return call()
    except NotImplementedError:
        return "NotImplementedError"


def answers(t: Any, name: str) -> list[Any]:
    """Shapes, moments, probabilities, the list of values; the same of the distribution expanded to a larger batch."""
    make, value = MADE[name]
    p, at = make(t, t.distributions, t.tensor(A), t.tensor(B)), t.tensor(value)
    found: list[Any] = []
    for q in (p, p.expand((4, *p.batch_shape))):
        found += [type(q).__name__, list(q.batch_shape), list(q.event_shape), q.has_rsample, q.has_enumerate_support]
        found += [_or_refusal(lambda q=q, of=of: getattr(q, of)) for of in ("mean", "variance", "stddev", "mode")]
        found += [q.log_prob(at), _or_refusal(q.entropy) if q is p else None, _or_refusal(lambda q=q: q.cdf(at))]
        found += [_or_refusal(lambda q=q: q.icdf(t.tensor(0.4)))]
        found += [_or_refusal(lambda q=q, wide=wide: q.enumerate_support(wide)) for wide in (True, False)]
        found += [list(q.sample((5,)).shape), list(q.rsample((5,)).shape) if q.has_rsample else None]
        found += [q.support.event_dim, q.support.is_discrete, bool(q.support.check(at).all())]
    return found


CONSTRAINTS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "real": (lambda c: c.real, A), "positive": (lambda c: c.positive, A), "above 2": (lambda c: c.greater_than(2.0), A),
    "from 2": (lambda c: c.greater_than_eq(2.0), A), "below 2": (lambda c: c.less_than(2.0), A),
    "unit": (lambda c: c.unit_interval, A), "interval": (lambda c: c.interval(-1.0, 3.0), A),
    "half open": (lambda c: c.half_open_interval(-1.0, 3.0), A), "simplex": (lambda c: c.simplex, A),
    "corr_cholesky": (lambda c: c.corr_cholesky, A), "lower_cholesky": (lambda c: c.lower_cholesky, [A, B, P]),
    "positive_definite": (lambda c: c.positive_definite, [A, B, P]), "vector": (lambda c: c.real_vector, A),
    "independent": (lambda c: c.independent(c.positive, 1), [A, B]), "boolean": (lambda c: c.boolean, A),
    "nonnegative_integer": (lambda c: c.nonnegative_integer, A), "symmetric": (lambda c: c.symmetric, [A, B, P]),
}  # fmt: skip


def constrained(t: Any, name: str) -> list[Any]:
    """Whether numbers keep the constraint; numbers made to keep it, back again, and the derivative."""
    d = t.distributions
    constraint, x = CONSTRAINTS[name][0](d.constraints), t.tensor(CONSTRAINTS[name][1])
    found = [constraint.event_dim, constraint.is_discrete]
    found += [constraint.check(x).long()] if x.ndim >= constraint.event_dim else []
    for registry in (d.biject_to, d.transform_to):
        f = _or_refusal(lambda registry=registry: registry(constraint))
        if isinstance(f, str):
            found.append(f)
            continue
        y = f(x)
        found += [y, f.inv(y), f.bijective, f.domain.event_dim, f.codomain.event_dim, constraint.check(y).long()]
        found += [list(f.forward_shape(x.shape)), list(f.inverse_shape(y.shape))]
        found += [_or_refusal(lambda f=f, y=y: f.log_abs_det_jacobian(x, y) + 0.0)]
    return found


def _own(t: Any) -> list[Any]:
    """A transform of one's own, as normalising flows have them, with a cache."""
    d = t.distributions

    class Doubled(d.Transform):  # type: ignore[misc]
        domain, codomain, bijective, sign = d.constraints.real, d.constraints.positive, True, 1

        def _call(self, x: Any) -> Any:
            return x.exp() * 2

        def _inverse(self, y: Any) -> Any:
            return (y / 2).log()

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return y.log()

    f, x = Doubled(cache_size=1), t.tensor(A)
    y = f(x)
    q = d.TransformedDistribution(_normal(t, 3), [Doubled(), Doubled().inv, Doubled()])
    return [
        y, f.inv(y) is x, f.inv.log_abs_det_jacobian(y, x), f.inv.inv is f, q.log_prob(x), q.cdf(x),
        q.icdf(t.tensor(P)),
        d.ExpTransform() == d.ExpTransform(), d.AffineTransform(0, 1) == d.AffineTransform(0, 1),
        d.AffineTransform(0, 1) == d.AffineTransform(0, 2.0), d.ExpTransform() == d.ExpTransform().inv,
    ]  # fmt: skip


def _parts(t: Any) -> list[Any]:
    d, x = t.distributions, t.tensor([A, B])
    of = [d.ExpTransform(), d.AffineTransform(1.0, 2.0)]
    cat, stacked = d.CatTransform(of, 1, [2, 1]), d.StackTransform(of, 0)
    found = []
    for f in (cat, stacked, d.IndependentTransform(of[0], 1), d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))):
        found += [f(x), f.inv(f(x)), f.log_abs_det_jacobian(x, f(x))]
    return found


def _divergences(t: Any) -> list[Any]:
    d, a, b = t.distributions, t.tensor(A), t.tensor(B)

    class Own(d.Normal):  # type: ignore[misc]
        pass

    @d.register_kl(Own, Own)
    def _of_own(p: Any, q: Any) -> Any:
        return p.loc - q.loc

    return [
        d.kl_divergence(d.Poisson(a), d.Poisson(b)), d.kl_divergence(Own(a, b), Own(b, a)),
        d.kl_divergence(Own(a, b), d.Normal(b, a)),
        d.kl_divergence(d.OneHotCategoricalStraightThrough(a), d.OneHotCategorical(b)),
    ]  # fmt: skip


def _divergences_of_kinds(t: Any) -> Any:
    """Infinite where the first gives numbers that the second does not."""
    d, a, b = t.distributions, t.tensor([1.5, 2.0]), t.tensor([0.5, 3.0])
    made = {
        "Beta": d.Beta(a, b), "ContinuousBernoulli": d.ContinuousBernoulli(t.tensor([0.3, 0.6])),
        "Exponential": d.Exponential(a), "Gamma": d.Gamma(a, b), "Gumbel": d.Gumbel(b, a), "Laplace": d.Laplace(b, a),
        "Normal": d.Normal(b, a), "Pareto": d.Pareto(a, b + 2), "Uniform": d.Uniform(t.tensor([0.2, -1.0]), b + 0.25),
        "Binomial": d.Binomial(5, t.tensor([0.3, 0.6])), "Poisson": d.Poisson(a), "Cauchy": d.Cauchy(b, a),
        "Bernoulli": d.Bernoulli(t.tensor([0.3, 0.6])), "LogNormal": d.LogNormal(b, a),
        "LowRank": d.LowRankMultivariateNormal(a, t.ones(2, 1), b), "Full": d.MultivariateNormal(b, t.eye(2) + 0.5),
    }  # fmt: skip
    found = []
    for p in made.values():
        for q in made.values():
            try:
                found.append(d.kl_divergence(p, q))
            except NotImplementedError:
                found.append(None)
    return found


def calls() -> dict[str, Any]:
    """All cases by name, as functions of the framework."""
    found = {f"answers of {n}": lambda t, n=n: answers(t, n) for n in MADE}
    found |= {f"constraint {n}": lambda t, n=n: constrained(t, n) for n in CONSTRAINTS}
    return found | {
        "a transform of one's own": _own,
        "transforms of parts": _parts,
        "more divergences": _divergences,
        "divergences of kinds": _divergences_of_kinds,
    }

"""Checks of distributions' parameters and values: those of torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import distributions as D
from pyapp import tensor
from pyapp.distributions import utils
from tests.together import check_each

NAN = float("nan")
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "scale 0": (lambda: D.Normal(pyapp.zeros(2), tensor([1.0, 0.0])), "Normal: scale must be above 0; got 0"),
    "loc NaN": (lambda: D.Normal(NAN, 1.0), "loc must be numbers, not NaN"),
    "half normal": (lambda: D.HalfNormal(-1.0), "scale must be above 0; got -1"),
    "probability": (lambda: D.Bernoulli(tensor(1.5)), "probs must be from 0 to 1; got 1.5"),
    "weight": (lambda: D.Categorical(tensor([-0.5, 0.5, 1.0])), "probs must be vectors of numbers from 0"),
    "concentration": (lambda: D.Gamma(-1.0, 1.0), "concentration must be above 0"),
    "rate": (lambda: D.Exponential(0.0), "rate must be above 0"),
    "count": (lambda: D.Binomial(-1, tensor(0.5)), "total_count must be whole numbers from 0; got -1"),
    "limits": (lambda: D.Uniform(1.0, 0.0), "low must be below high"),
    "mean": (lambda: D.MultivariateNormal(tensor([NAN, 0.0]), pyapp.eye(2)), "loc must be numbers"),
    "value NaN": (lambda: D.Normal(0.0, 1.0).log_prob(tensor(NAN)), "the value must be numbers, not NaN"),
    "outside": (lambda: D.Uniform(0.0, 1.0).log_prob(tensor(2.0)), "the value must be from 0 to 1; got 2"),
    "outside one of two": (
        lambda: D.Uniform(pyapp.zeros(2), tensor([1.0, 2.0])).log_prob(tensor(1.5)), "from its own limit to its own"
    ),
    "class": (lambda: D.Categorical(pyapp.ones(2)).log_prob(tensor(2)), "whole numbers from 0 to 1; got 2"),
    "no vector of one": (lambda: D.OneHotCategorical(pyapp.ones(3)).log_prob(pyapp.ones(3)), "zeros and a single 1"),
    "half an event": (lambda: D.Poisson(2.0).log_prob(tensor(0.5)), "whole numbers from 0; got 0.5"),
    "too many": (lambda: D.Binomial(3, tensor(0.5)).log_prob(tensor(4.0)), "whole numbers from 0 to 3"),
    "negative": (lambda: D.LogNormal(0.0, 1.0).cdf(tensor(-1.0)), "the value must be above 0"),
    "neither 0 nor 1": (lambda: D.Bernoulli(0.5).log_prob(tensor(0.5)), "the value must be 0 or 1"),
    "sum": (lambda: D.Dirichlet(pyapp.ones(3)).log_prob(tensor([0.5, 0.6, 0.2])), "whose sum is 1"),
    "beta": (lambda: D.Beta(1.0, 1.0).log_prob(tensor(1.5)), "from 0 to 1"),
}  # fmt: skip


def test_what_a_distribution_does_not_have_is_refused() -> None:
    def check(name: str) -> None:
        make, message = REFUSED[name]
        with pytest.raises(ValueError, match=message):
            make()

    check_each(check, [(name,) for name in REFUSED])


def test_limits_belong_to_the_values() -> None:
    assert D.Uniform(0.0, 1.0).log_prob(tensor(1.0)).item() == -float("inf")  # torch's, too
    assert D.Poisson(0.0).log_prob(tensor(0.0)).item() == 0
    assert D.Exponential(2.0).log_prob(tensor(0.0)).item() == pytest.approx(0.6931472)
    assert D.Binomial(tensor([3.0, 4.0]), tensor([0.5, 0.5])).log_prob(tensor([3.0, 0.0])).exp().tolist() == (
        pytest.approx([0.125, 0.0625])
    )
    assert D.Bernoulli(tensor(0.25)).entropy().item() == pytest.approx(0.5623351)


def test_checks_can_be_left_out() -> None:
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert D.Uniform(0.0, 1.0, validate_args=False).log_prob(tensor(2.0)).item() == -float("inf")
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale.item() == -1
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="scale"):
        D.Normal(0.0, -1.0)


def test_checks_do_not_end_the_capture_of_a_graph() -> None:
    @pyapp.compile
    def scores(mean: pyapp.Tensor, value: pyapp.Tensor) -> pyapp.Tensor:
        return D.Normal(mean, 2.0).log_prob(value)

    expected = D.Normal(0.0, 2.0).log_prob(pyapp.ones(3)).tolist()
    for _ in range(4):
        assert scores(pyapp.zeros(3), pyapp.ones(3)).tolist() == pytest.approx(expected)
    assert scores.reason is None


def test_all_values_of_classes() -> None:
    assert D.Categorical(pyapp.ones(2, 3)).enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert D.Categorical(pyapp.ones(2, 3)).enumerate_support(expand=False).shape == (3, 1)
    assert D.OneHotCategorical(pyapp.ones(2)).enumerate_support().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_draws_of_the_gamma_family_have_gradients() -> None:
    """Slopes of logarithms of draws at fixed probabilities, against differences of quantiles by Newton's method."""
    from pyapp.distributions.gamma import _slope

    def below(a: float, z: float) -> float:
        return float(pyapp.igamma(tensor([a], dtype="float64"), tensor([z], dtype="float64")).item())

    def quantile(a: float, p: float, z: float) -> float:
        for _ in range(30):
            z -= (below(a, z) - p) / math.exp((a - 1) * math.log(z) - z - math.lgamma(a))
        return z

    for a, z in ((10.0, 30.0), (10.0, 2.6), (0.1, 2.5), (0.5, 1e-6), (200.0, 230.0), (9e3, 9100.0), (2e4, 20100.0)):
        p, step = below(a, z), 1e-4 * a
        expected = (quantile(a + step, p, z) - quantile(a - step, p, z)) / (2 * step)
        assert z * _slope(np.log([z]), np.array([a]))[0] == pytest.approx(expected, rel=1e-5), (a, z)
    pyapp.manual_seed(0)
    a, b = tensor([0.5, 2.0, 8.0], requires_grad=True), tensor([1.0, 3.0, 2.0], requires_grad=True)
    for p in (
        D.Gamma(a, b),
        D.Beta(a, b),
        D.Dirichlet(a),
        D.Chi2(a * 2),
        D.StudentT(a + 5, b, b),
        D.InverseGamma(a + 4, b),
    ):
        drawn = p.rsample((20_000,)).mean(0)
        weights = tensor([1.0, -2.0, 3.0])
        found = pyapp.autograd.grad((drawn * weights).sum(), (a, b), allow_unused=True)
        expected = pyapp.autograd.grad((p.mean * weights).sum(), (a, b), allow_unused=True)
        for x, y in zip(found, expected, strict=True):
            if y is not None:
                assert pyapp.allclose(x, y, rtol=0.1, atol=0.03), (type(p), x, y)
        assert not p.sample().requires_grad


def test_an_expanded_distribution_shares_its_parameters() -> None:
    scale = pyapp.ones(2, requires_grad=True)
    p = D.Normal(pyapp.zeros(2), scale).expand([3, 2])
    p.log_prob(pyapp.ones(3, 2)).sum().backward()
    assert p.scale.shape == (3, 2) and scale.grad is not None and scale.grad.tolist() == [0.0, 0.0]
    assert (
        repr(p) == "Normal(loc: pyapp.Size([3, 2]), scale: pyapp.Size([3, 2]))"
        and repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    )
    with pytest.raises(ValueError, match="do not broadcast|expand"):
        p.expand((3, 3))


def test_transforms_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="takes a Transform"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), [pyapp.exp])
    with pytest.raises(ValueError, match="too few dims"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform())
    with pytest.raises(ValueError, match="not a triangle"):
        D.CorrCholeskyTransform()(pyapp.ones(4))
    with pytest.raises(NotImplementedError, match="register one"):
        D.biject_to(D.constraints.boolean)


def test_draws_have_the_moments_of_their_distributions() -> None:
    pyapp.manual_seed(1)
    for p, near in (
        (D.ContinuousBernoulli(tensor([0.2, 0.5, 0.93])), 0.02),
        (D.LowRankMultivariateNormal(tensor([1.0, -2.0]), tensor([[1.0], [2.0]]), tensor([0.5, 1.0])), 0.1),
    ):
        drawn = p.sample((20_000,))
        assert pyapp.allclose(drawn.mean(0), p.mean, atol=near) and pyapp.allclose(drawn.var(0), p.variance, rtol=0.06)
    p = D.LowRankMultivariateNormal(tensor([1.0, -2.0]), tensor([[1.0], [2.0]]), tensor([0.5, 1.0]))
    assert pyapp.allclose(p.covariance_matrix, tensor([[1.5, 2.0], [2.0, 5.0]]))
    angles = D.VonMises(tensor([3.0, -1.0, 0.5]), tensor([4.0, 0.3, 1e-6])).sample((20_000,))
    assert float(angles.min()) >= -math.pi and float(angles.max()) <= math.pi
    for i, (place, part) in enumerate(((3.0, 0.8635), (-1.0, 0.14834))):  # I1 / I0 of 4 and 0.3
        towards = (angles[:, i] - place).cos().mean().item(), (angles[:, i] - place).sin().mean().item()
        assert towards == pytest.approx((part, 0.0), abs=0.02)


def test_a_distribution_of_ones_own_is_written_with_torchs_helpers() -> None:
    c = D.constraints

    class Shifted(D.Distribution):
        arg_constraints = {"rate": c.positive}
        has_rsample = True

        def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
            (self.rate,) = utils.broadcast_all(rate)
            super().__init__(self.rate.shape, pyapp.Size(), validate_args=validate_args)

        @c.dependent_property(is_discrete=False, event_dim=0)
        def support(self) -> Any:
            return c.greater_than_eq(self.rate)

        @utils.lazy_property
        def mean(self) -> Any:  # type: ignore[override]
            return 1 / self.rate

        def rsample(self, sample_shape: Any = ()) -> Any:
            return self.rate.new(self._extended_shape(sample_shape)).exponential_() / self.rate

        def log_prob(self, value: Any) -> Any:
            self._validate_sample(value)
            return self.rate.log() - self.rate * value

    p = Shifted(tensor([1.0, 2.0]))
    assert p.rsample((3,)).shape == (3, 2) and p.mean is p.mean and isinstance(p.batch_shape, pyapp.Size)
    assert c.is_dependent(Shifted.support) and c.is_dependent(D.Uniform.support) and not c.is_dependent(c.real)
    with pytest.raises(ValueError, match="must be"):
        p.log_prob(tensor(1.5))
    # The values below are torch 2.14's.
    probs = tensor([0.2, 0.8])
    assert pyapp.allclose(utils.probs_to_logits(probs, is_binary=True), tensor([-1.3863, 1.3863]), atol=1e-4)
    assert pyapp.allclose(utils.logits_to_probs(utils.probs_to_logits(probs)), probs)
    matrix = utils.vec_to_tril_matrix(pyapp.arange(1.0, 7.0))
    assert matrix.tolist() == [[1, 0, 0], [2, 3, 0], [4, 5, 6]]
    assert utils.tril_matrix_to_vec(matrix, diag=-1).tolist() == [2, 4, 5]
    shown = [c.positive, c.unit_interval, c.integer_interval(1, 3), c.independent(c.real, 1), c.simplex, c.less_than(2)]
    assert [repr(one) for one in shown] == [
        "GreaterThan(lower_bound=0.0)", "Interval(lower_bound=0.0, upper_bound=1.0)",
        "IntegerInterval(lower_bound=1, upper_bound=3)", "IndependentConstraint(Real(), 1)", "Simplex()",
        "LessThan(upper_bound=2)",
    ]  # fmt: skip
    assert isinstance(c.positive, c.greater_than) and c.interval(0, 3).upper_bound == 3


def test_a_covariance_is_checked_and_named() -> None:
    mean = pyapp.zeros(2)
    shown = repr(D.MultivariateNormal(mean, pyapp.eye(2)))
    assert shown == "MultivariateNormal(loc: pyapp.Size([2]), covariance_matrix: pyapp.Size([2, 2]))"
    for wrong in ([[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]]):
        with pytest.raises(ValueError, match="covariance_matrix must be symmetric"):
            D.MultivariateNormal(mean, tensor(wrong))

"""Distributions of counts."""

from __future__ import annotations

from math import inf, lgamma
from typing import Any

from ..engine import no_grad
from ..engine.ops import arange, binomial, logsigmoid, poisson, rand, where, zeros_like
from ..engine.ops.embedding_lookup import one_hot
from ..engine.tensor import Tensor
from .constraints import integer_interval, multinomial, nonnegative, nonnegative_integer, real, simplex, unit_interval
from .discrete import Bernoulli, Binary, Categorical, one_of
from .distribution import Distribution, as_tensors, inner
from .exp_family import ExponentialFamily
from .gamma import Gamma


class Geometric(Binary):
    """The number of failures before the first success."""

    support = nonnegative_integer

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            u = rand(self._extended_shape(sample_shape), device=self._given.device).clamp(2.0**-25)
            return (u.log() / (-self.probs).log1p()).floor().to(self._given.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        failing = where((self.probs == 1) & (value == 0), 0.0, self.probs)  # 0 log(0) is 0
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return Bernoulli(logits=self.logits).entropy() / self.probs


class Binomial(Binary):
    """How many of `total_count` trials have the outcome 1."""

    has_enumerate_support = True
    arg_constraints = {"total_count": nonnegative_integer, "probs": unit_interval, "logits": real}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        self.total_count, given = as_tensors(total_count, one_of("Binomial", probs, logits))
        super().__init__(given if logits is None else None, None if logits is None else given, validate_args)

    def _given_names(self) -> tuple[str, ...]:
        return ("total_count", *super()._given_names())

    @property
    def support(self) -> Any:
        return integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.mean * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        most = int(self.total_count.max().item())
        if bool((self.total_count != most).any()):
            raise NotImplementedError("Binomial: the values of elements with other total_counts are not listed")
        return self._enumerated(arange(most + 1, dtype=self._given.dtype, device=self._given.device), expand)

    def entropy(self) -> Tensor:
        found = self.log_prob(self.enumerate_support())
        return -(found.exp() * found).sum(0)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape, probs = self._extended_shape(sample_shape), self.probs
            return binomial(self.total_count.to(probs.dtype).expand(shape), probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logits + n * logsigmoid(-logits)


class NegativeBinomial(Binary):
    """How many trials have the outcome 1 before `total_count` have the outcome 0."""

    arg_constraints = {"total_count": nonnegative, "probs": unit_interval, "logits": real}
    support = nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        self.total_count, given = as_tensors(total_count, one_of("NegativeBinomial", probs, logits))
        super().__init__(given if logits is None else None, None if logits is None else given, validate_args)

    def _given_names(self) -> tuple[str, ...]:
        return ("total_count", *super()._given_names())

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), False).sample(sample_shape)
            return Poisson(rate, False).sample()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        ways = where(n + value == 0, 0.0, ways)
        return n * logsigmoid(-self.logits) + value * logsigmoid(self.logits) + ways


class Multinomial(Distribution):
    """How many of `total_count` draws of a Categorical have each class."""

    arg_constraints = {"probs": simplex, "logits": real}

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: one total_count, a whole number, for the batch")
        self.total_count, self._categorical = total_count, Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.probs.shape[-1:], False)
        if validate_args is not None:
            self._validate_args = validate_args
        else:
            self._validate_args = Distribution._validate_args

    probs = inner("_categorical.probs")
    logits = inner("_categorical.logits")

    def _given_names(self) -> tuple[str, ...]:
        return self._categorical._given_names()

    @property
    def support(self) -> Any:
        return multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        return one_hot(drawn, self._event_shape[0]).to(self.probs.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + where((value == 0).logical_and(self.logits == -inf), 0.0, self.logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        ways = arange(n + 1, dtype=self.probs.dtype, device=self.probs.device)[1:]
        per_class = Binomial(n, self.probs, validate_args=False).log_prob(
            ways.reshape(-1, *(1,) * (len(self._batch_shape) + 1))
        )
        weights = (ways + 1).lgamma().reshape(-1, *(1,) * (len(self._batch_shape) + 1))
        return n * self._categorical.entropy() - lgamma(n + 1) + (per_class.exp() * weights).sum((0, -1))


class Poisson(ExponentialFamily):
    """The number of events at a mean rate."""

    arg_constraints = {"rate": nonnegative}
    support = nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = as_tensors(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()

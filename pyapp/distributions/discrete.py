"""Distributions of classes, by probabilities or by logits."""

from __future__ import annotations

import math
from typing import Any

from ..engine import no_grad
from ..engine.dtype import int64
from ..engine.ops import arange, eye, log_softmax, logsigmoid, multinomial, rand, softmax, where
from ..engine.ops.embedding_lookup import one_hot
from ..engine.shape import Size
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from .constraints import boolean, integer_interval, real, simplex, unit_interval
from .constraints import one_hot as one_hot_vectors
from .distribution import Distribution, as_tensors
from .exp_family import ExponentialFamily
from .utils import probs_to_logits


def one_of(name: str, probs: Any, logits: Any) -> Any:
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: give either probs or logits")
    return as_tensors(logits if probs is None else probs)[0]


class Binary(Distribution):
    """Base of distributions with one probability, or its logit."""

    arg_constraints = {"probs": unit_interval, "logits": real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = one_of(type(self).__name__, probs, logits)
        self._by_logits = probs is None
        self._given = given
        super().__init__(given.shape, validate_args=validate_args)

    def _given_names(self) -> tuple[str, ...]:
        return ("logits",) if self._by_logits else ("probs",)

    @property
    def probs(self) -> Tensor:
        return self._given.sigmoid() if self._by_logits else self._given

    @property
    def logits(self) -> Tensor:
        if self._by_logits:
            return self._given
        return probs_to_logits(self._given, is_binary=True)


class Bernoulli(Binary, ExponentialFamily):
    """1 with the given probability, else 0."""

    support = boolean
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        return where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(arange(2, dtype=self._given.dtype, device=self._given.device), expand)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            drawn = rand(self._extended_shape(sample_shape), device=self._given.device)
            return (drawn < self.probs).to(self._given.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._expected(value)

    def _expected(self, value: Tensor) -> Tensor:
        """log_prob, linear in the value."""
        logits = self.logits
        return value * logits + logsigmoid(-logits)

    def entropy(self) -> Tensor:
        return -self._expected(self.probs)


class Categorical(Distribution):
    """One of the classes of the last dim, by weights, which need not sum to 1, or by logits."""

    has_enumerate_support = True
    arg_constraints = {"probs": simplex, "logits": real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = one_of(type(self).__name__, probs, logits)
        if not given.ndim:
            raise ValueError(f"{type(self).__name__}: takes at least one dim, of classes, got {describe(given)}")
        self._probs = None if probs is None else given / given.sum(-1, keepdim=True)
        self._logits = None if logits is None else log_softmax(given, -1)
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def _given_names(self) -> tuple[str, ...]:
        return ("logits",) if self._probs is None else ("probs",)

    @property
    def param_shape(self) -> Any:
        """The shape of the weights or logits: those of the batch, and the classes."""
        return Size((*self._batch_shape, self._num_events))

    @property
    def support(self) -> Any:
        return integer_interval(0, self._num_events - 1)

    @property
    def probs(self) -> Tensor:
        return softmax(self._logits, -1) if self._probs is None else self._probs

    @property
    def logits(self) -> Tensor:
        if self._logits is None:
            assert self._probs is not None
            return probs_to_logits(self._probs)
        return self._logits

    @property
    def _num_events(self) -> int:
        given = self._logits if self._probs is None else self._probs
        assert given is not None
        return int(given.shape[-1])

    @property
    def mean(self) -> Tensor:
        return self.probs[..., 0] * math.nan

    @property
    def variance(self) -> Tensor:
        return self.mean

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    def _classes(self, sample_shape: Any) -> Tensor:
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = multinomial(rows, math.prod(sample_shape), True)  # (rows, count)
            return drawn.t().reshape((*sample_shape, *self._batch_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._classes(tuple(sample_shape))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All classes: (classes, *batch_shape), or with dims of 1 without `expand`."""
        return self._enumerated(self._values(), expand)

    def _values(self) -> Tensor:
        return arange(self._num_events, device=self.logits.device)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._log_prob_of(value)

    def _log_prob_of(self, value: Tensor) -> Tensor:
        index = value.to(int64).unsqueeze(-1)
        shape = (*value.shape[: max(value.ndim - len(self._batch_shape), 0)], *self._batch_shape)
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, index.expand(*shape, 1)).squeeze(-1)

    def entropy(self) -> Tensor:
        least = -3.4028234663852886e38
        return -(self.logits.clamp(least) * self.probs).sum(-1)


class OneHotCategorical(Categorical):
    """Categorical with one-hot vectors as values."""

    @property
    def support(self) -> Any:
        return one_hot_vectors

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        self._event_shape = (self._num_events,)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return one_hot(self._classes(tuple(sample_shape)), self._num_events).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._log_prob_of(value.argmax(-1))

    @property
    def mode(self) -> Tensor:
        return one_hot(super().mode, self._num_events).to(self.probs.dtype)

    def _values(self) -> Tensor:
        return eye(self._num_events, dtype=self.probs.dtype, device=self.logits.device)

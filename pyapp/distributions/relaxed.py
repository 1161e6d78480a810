"""Relaxations of Bernoulli and Categorical, whose draws are differentiable (Maddison, Mnih and Teh 2016, "The Concrete
distribution"; Jang, Gu and Poole 2016, "Categorical reparameterization with Gumbel-softmax")."""

from __future__ import annotations

import math
from typing import Any

from ..engine.ops import as_tensor, rand
from ..engine.ops.dtype_limits import finfo
from ..engine.tensor import Tensor
from .constraints import real, real_vector, simplex, unit_interval
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .distribution import Distribution, inner
from .transformed import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform


def _open(like: Tensor, shape: Any) -> Tensor:
    """Uniform numbers in the open interval (0, 1), on the device of `like`."""
    limits = finfo(like.dtype)
    return rand(shape, dtype=like.dtype, device=like.device).clamp(limits.eps, 1 - limits.eps)


class LogitRelaxedBernoulli(Distribution):
    """The logits of RelaxedBernoulli's draws."""

    has_rsample = True
    arg_constraints = {"probs": unit_interval, "logits": real}
    support = real
    _of_no_batch = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self.temperature, self._discrete = temperature, Bernoulli(probs, logits, validate_args)
        super().__init__(self._discrete.batch_shape, validate_args=False)

    logits = inner("_discrete.logits")
    probs = inner("_discrete.probs")

    def _given_names(self) -> tuple[str, ...]:
        return self._discrete._given_names()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = _open(self.logits, self._extended_shape(sample_shape))
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        apart = self.logits - value * self.temperature
        return as_tensor(self.temperature).log() + apart - 2 * apart.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, the nearer to both the lower the temperature."""

    arg_constraints = {"probs": unit_interval, "logits": real}
    support = unit_interval

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)

    temperature = inner("base_dist.temperature")
    logits = inner("base_dist.logits")
    probs = inner("base_dist.probs")

    def _given_names(self) -> Any:
        return self.base_dist._given_names()


class ExpRelaxedCategorical(Distribution):
    """The logarithms of RelaxedOneHotCategorical's draws."""

    has_rsample = True
    arg_constraints = {"probs": simplex, "logits": real_vector}
    support = real_vector
    _of_no_batch = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self.temperature, self._categorical = temperature, Categorical(probs, logits, validate_args)
        shape = self._categorical.logits.shape
        super().__init__(shape[:-1], shape[-1:], False)

    logits = inner("_categorical.logits")
    probs = inner("_categorical.probs")

    def _given_names(self) -> tuple[str, ...]:
        return self._categorical._given_names()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        gumbels = -(-_open(self.logits, self._extended_shape(sample_shape)).log()).log()
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        count = self._event_shape[0]
        temperature = as_tensor(self.temperature)
        scale = math.lgamma(count) - temperature.log() * -(count - 1)
        score = self.logits - value * temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors of probabilities, the nearer to one-hot vectors the lower the temperature."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    support = simplex

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    temperature = inner("base_dist.temperature")
    logits = inner("base_dist.logits")
    probs = inner("base_dist.probs")

    def _given_names(self) -> Any:
        return self.base_dist._given_names()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose draws have the gradient of the probabilities (Bengio, Léonard and Courville 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())

"""Mixtures of distributions of one kind."""

from __future__ import annotations

from typing import Any

from ..engine import no_grad
from ..engine.ops import log_softmax
from ..engine.tensor import Tensor
from .discrete import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """One of the distributions of the last dim of `component_distribution`'s batch, which a Categorical draws."""

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        shape = component_distribution.batch_shape
        if not isinstance(mixture_distribution, Categorical) or not shape:
            raise ValueError("MixtureSameFamily: takes a Categorical, and distributions with a batch of some dims")
        if mixture_distribution.logits.shape[-1] != shape[-1]:
            raise ValueError(
                f"MixtureSameFamily: the Categorical has {mixture_distribution.logits.shape[-1]} classes, the last dim "
                f"of the distributions {shape[-1]}"
            )
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        super().__init__(shape[:-1], component_distribution.event_shape, validate_args)

    @property
    def support(self) -> Any:
        return self.component_distribution.support

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution!r},\n  {self.component_distribution!r})"

    def _weights(self) -> Tensor:
        """The probabilities (…, components), with a dim of 1 for each of the event's."""
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self._event_shape))

    @property
    def _dim(self) -> int:
        return -1 - len(self._event_shape)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(self._dim)

    @property
    def variance(self) -> Tensor:
        weights, parts = self._weights(), self.component_distribution
        away = (parts.mean - self.mean.unsqueeze(self._dim)).square()
        return (weights * (parts.variance + away)).sum(self._dim)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = tuple(sample_shape)
            chosen = self.mixture_distribution.sample(shape)  # (sample, batch of the Categorical)
            chosen = chosen.expand(*shape, *self._batch_shape).unsqueeze(-1)
            chosen = chosen.reshape(*chosen.shape, *(1,) * len(self._event_shape))
            drawn = self.component_distribution.sample(shape)
            return drawn.gather(self._dim, chosen.expand(*chosen.shape[: self._dim], 1, *self._event_shape)).squeeze(
                self._dim
            )

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        found = self.component_distribution.log_prob(value.unsqueeze(self._dim))
        return (found + log_softmax(self.mixture_distribution.logits, -1)).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        return (self.component_distribution.cdf(value.unsqueeze(self._dim)) * self.mixture_distribution.probs).sum(-1)

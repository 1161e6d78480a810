"""Exponential families: densities h(x) exp(η·t(x) - A(η)), by torch.distributions.exp_family's names."""

from __future__ import annotations

from typing import Any

from ..engine.autograd import enable_grad, grad
from ..engine.tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base of distributions with natural parameters. A class of one's own that gives `_natural_params`,
    `_log_normalizer` and `_mean_carrier_measure` has its entropy from them (Nielsen and Nock 2010).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """η, each of the shape of the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no _natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        """A(η)."""
        raise NotImplementedError(f"{type(self).__name__} has no _log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of log h(x)."""
        raise NotImplementedError(f"{type(self).__name__} has no _mean_carrier_measure")

    def entropy(self) -> Tensor:
        """A(η) - η·∇A(η) - E[log h(x)], in nats."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*params)
            slopes = grad([normalizer.sum()], params, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for p, slope in zip(params, slopes, strict=True):
            result = result - (p * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result

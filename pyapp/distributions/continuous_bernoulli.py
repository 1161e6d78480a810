"""The continuous Bernoulli distribution (Loaiza-Ganem and Cunningham 2019, https://arxiv.org/abs/1907.06845)."""

from __future__ import annotations

import math
from typing import Any

from ..engine.ops import logsigmoid, rand, where
from ..engine.tensor import Tensor
from .constraints import unit_interval
from .discrete import Binary
from .exp_family import ExponentialFamily
from .utils import clamp_probs


class ContinuousBernoulli(Binary, ExponentialFamily):
    """Numbers x from 0 to 1 with a density in proportion to probs^x (1 - probs)^(1 - x): for decoders of pictures.
    Between `lims`, near 0.5, Taylor series take the place of formulas that divide by 2 probs - 1.
    """

    has_rsample = True
    support = unit_interval

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._lims = lims
        super().__init__(probs, logits, validate_args)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """The probabilities, whether they are away from 0.5, and those away from it (the lower limit elsewhere)."""
        p = clamp_probs(self.probs)
        away = (p <= self._lims[0]) | (p > self._lims[1])
        return p, away, where(away, p, self._lims[0])

    def _log_norm(self) -> Tensor:
        p, away, q = self._parts()
        difference = ((-q).log1p() - q.log()).abs().log()
        low = where(q <= 0.5, q, 0.0)
        high = where(q >= 0.5, q, 1.0)
        exact = difference - where(q <= 0.5, (-2.0 * low).log1p(), (2.0 * high - 1.0).log())
        x = (p - 0.5).square()
        return where(away, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        p, away, q = self._parts()
        exact = q / (2.0 * q - 1.0) + ((-q).log1p() - q.log()).reciprocal()
        x = p - 0.5
        return where(away, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        p, away, q = self._parts()
        exact = q * (q - 1.0) / (1.0 - 2.0 * q).square() + ((-q).log1p() - q.log()).square().reciprocal()
        x = (p - 0.5).square()
        return where(away, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits = self.logits
        return value * logits + logsigmoid(-logits) + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        _, away, q = self._parts()
        inner = (q**value * (1.0 - q) ** (1.0 - value) + q - 1.0) / (2.0 * q - 1.0)
        return where(value <= 0, 0.0, where(value >= 1, 1.0, where(away, inner, value)))

    def icdf(self, value: Tensor) -> Tensor:
        _, away, q = self._parts()
        exact = ((-q + value * (2.0 * q - 1.0)).log1p() - (-q).log1p()) / (q.log() - (-q).log1p())
        return where(away, exact, value)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        like = self._given
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=like.dtype, device=like.device))

    def entropy(self) -> Tensor:
        p = clamp_probs(self.probs)
        none, one = (-p).log1p(), p.log()
        return self.mean * (none - one) - self._log_norm() - none

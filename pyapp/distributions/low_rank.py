"""The normal distribution of vectors whose covariance is of low rank beside its diagonal."""

from __future__ import annotations

import math
from typing import Any

from ..engine.ops import cholesky, inverse, randn, solve_triangular
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from .constraints import positive, real, real_vector
from .distribution import Distribution, inner


class LowRankMultivariateNormal(Distribution):
    """The normal distribution with mean `loc` (..., D) and the covariance W Wᵀ + diag(d), with `cov_factor` W
    (..., D, R) and `cov_diag` d (..., D). Densities cost D R² by Woodbury's identity, not D³.
    """

    has_rsample = True
    arg_constraints = {"loc": real, "cov_factor": real, "cov_diag": positive}
    support = real_vector

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        size = loc.shape[-1:]
        if not size or cov_factor.ndim < 2 or cov_factor.shape[-2:-1] != size or cov_diag.shape[-1:] != size:
            raise ValueError(
                "LowRankMultivariateNormal: takes a mean (..., D), a factor (..., D, R) and a diagonal (..., D), got "
                f"{describe(loc)}, {describe(cov_factor)} and {describe(cov_diag)}"
            )
        batch = (loc.unsqueeze(-1) + cov_factor.sum(-1, True) + cov_diag.unsqueeze(-1)).shape[:-2]
        self.loc, self.cov_diag = loc.expand(*batch, *size), cov_diag.expand(*batch, *size)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        super().__init__(batch, size, validate_args)

    def _capacitance(self) -> Tensor:
        """The lower Cholesky factor of I + Wᵀ D⁻¹ W (..., R, R)."""
        weighed = self.cov_factor.mT / self.cov_diag.unsqueeze(-2) @ self.cov_factor
        return cholesky(weighed + weighed.new_ones(weighed.shape[-1]).diag())

    mean = mode = inner("loc")

    @property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        return inverse(self.covariance_matrix)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, (kind, place) = self._extended_shape(sample_shape), (self.loc.dtype, self.loc.device)
        shared = randn((*shape[:-1], self.cov_factor.shape[-1]), dtype=kind, device=place)
        own = randn(shape, dtype=kind, device=place)
        return self.loc + (self.cov_factor @ shared.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * own

    def _half_log_det(self, factor: Tensor) -> Tensor:
        return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) + 0.5 * self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        difference, factor = value - self.loc, self._capacitance()
        scaled = difference / self.cov_diag
        inner = self.cov_factor.mT @ scaled.unsqueeze(-1)
        solved = solve_triangular(factor.expand(*inner.shape[:-2], *factor.shape[-2:]), inner, upper=False).squeeze(-1)
        distance = (difference * scaled).sum(-1) - solved.square().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det(factor)

    def entropy(self) -> Tensor:
        whole = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return whole + self._half_log_det(self._capacitance())

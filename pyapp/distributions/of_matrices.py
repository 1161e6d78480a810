"""Distributions of covariances and correlations."""

from __future__ import annotations

import math
from typing import Any

from ..engine.ops import arange, cat, cholesky, diag_embed, digamma, inverse, lgamma, mvlgamma, randn, slogdet, where
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from .constraints import corr_cholesky, greater_than, lower_cholesky, positive, positive_definite
from .distribution import Distribution, as_tensors
from .exp_family import ExponentialFamily
from .gamma import Beta, Chi2


class Wishart(ExponentialFamily):
    """The sum of `df` squares of normal vectors (Wishart 1928): matrices (..., D, D). `df` is above D - 1; of the
    covariance, its inverse and its lower Cholesky factor (..., D, D) one is given.
    """

    has_rsample = True
    support = positive_definite

    def __init__(
        self, df: Any, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1 or given[0].ndim < 2 or given[0].shape[-1] != given[0].shape[-2]:
            raise ValueError(
                f"Wishart: takes one square matrix (..., D, D), got {', '.join(map(describe, given)) or 'no matrix'}"
            )
        if scale_tril is None:
            scale_tril = cholesky(covariance_matrix if precision_matrix is None else inverse(precision_matrix))
        size = scale_tril.shape[-1]
        self.arg_constraints = {"df": greater_than(size - 1), "scale_tril": lower_cholesky}
        self.df, ones = as_tensors(df, scale_tril[..., 0, 0])
        self.scale_tril = scale_tril.expand(*ones.shape, size, size)
        super().__init__(ones.shape, (size, size), validate_args)

    @property
    def covariance_matrix(self) -> Tensor:
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        return inverse(self.covariance_matrix)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """NaN where there is none: df up to D + 1."""
        factor = self.df - self._event_shape[0] - 1
        return where(factor > 0, factor, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (covariance.square() + diagonal[..., None] * diagonal[..., None, :])

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws samples by Bartlett's decomposition."""
        size, shape = self._event_shape[0], self._extended_shape(sample_shape)
        squares = Chi2(self.df[..., None] - arange(size, device=self.df.device)).rsample(sample_shape)  # (..., D)
        drawn = randn(shape, dtype=self.df.dtype, device=self.df.device).tril(-1) + diag_embed(squares.sqrt())
        factor = self.scale_tril @ drawn
        return factor @ factor.mT

    def _half_log_det(self) -> Tensor:
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        size = self._event_shape[0]
        trace = (self.precision_matrix * value.mT).sum((-2, -1))
        normalizer = self.df * (size * math.log(2) / 2 + self._half_log_det()) + mvlgamma(self.df / 2, size)
        return (self.df - size - 1) / 2 * slogdet(value)[1] - trace / 2 - normalizer

    def entropy(self) -> Tensor:
        size, half = self._event_shape[0], self.df / 2
        slope = digamma(half[..., None] - arange(size, device=half.device) / 2).sum(-1)
        logs = (size + 1) * (size * math.log(2) / 2 + self._half_log_det())
        return logs + mvlgamma(half, size) - (self.df - size - 1) / 2 * slope + half * size


class LKJCholesky(Distribution):
    """Lower Cholesky factors (..., dim, dim) of correlations whose determinant has the power `concentration` - 1
    (Lewandowski, Kurowicka and Joe 2009).
    """

    arg_constraints = {"concentration": positive}
    support = corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim is 2 or more, got {dim}")
        self.dim = dim
        (self.concentration,) = as_tensors(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)
        steps = arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        steps = cat([steps[:1], steps])  # (dim,): the squares of a row's part below the diagonal add up to Beta's
        self._beta = Beta(0.5 + steps, (self.concentration + 0.5 * (dim - 2))[..., None] - 0.5 * steps)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws samples by the onion method: rows in even directions."""
        squares = self._beta.sample(sample_shape)[..., None]  # (..., dim, 1)
        drawn = randn(
            self._extended_shape(sample_shape), dtype=squares.dtype, device=self.concentration.device
        ).tril(-1)  # fmt: skip
        length = drawn.norm(dim=-1, keepdim=True)
        rows = squares.sqrt() * drawn / where(length > 0, length, 1.0)
        return rows + diag_embed((1 - rows.square().sum(-1)).clamp(min=1e-38).sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        below, power = self.dim - 1, self.concentration - 1
        order = 2 * power[..., None] + self.dim - arange(2, self.dim + 1, device=power.device)
        found = (order * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        alpha = self.concentration + 0.5 * below
        return found - (0.5 * below * math.log(math.pi) + mvlgamma(alpha - 0.5, below) - lgamma(alpha) * below)

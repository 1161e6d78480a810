"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from ..engine.ops import cholesky, cholesky_inverse, inverse, randn, solve_triangular
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from ..errors import LinAlgError
from .constraints import lower_cholesky, positive_definite, real, real_vector, symmetric
from .distribution import Distribution, inner
from .utils import lazy_property


class MultivariateNormal(Distribution):
    """The normal distribution with mean `loc` (..., D) and its covariance, the inverse, or the lower Cholesky factor of
    the covariance (D, D).
    """

    has_rsample = True
    arg_constraints = {"loc": real, "scale_tril": lower_cholesky}
    support = real_vector
    _of_no_batch = ("_unbroadcasted_scale_tril",)

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1 or loc.ndim < 1 or given[0].shape[-1] != loc.shape[-1]:
            raise ValueError(
                f"MultivariateNormal: takes a mean (..., D) and one matrix (..., D, D), got {describe(loc)} and "
                f"{', '.join(map(describe, given)) or 'no matrix'}"
            )
        self._matrix = "covariance_matrix" if covariance_matrix is not None else "precision_matrix"
        if scale_tril is not None:
            self._matrix = "scale_tril"
        else:
            try:
                scale_tril = cholesky(covariance_matrix if precision_matrix is None else inverse(precision_matrix))
            except LinAlgError as error:
                raise ValueError(f"MultivariateNormal: {self._matrix} must be {positive_definite.text}") from error
        size = loc.shape[-1]
        batch = (loc.unsqueeze(-1) + scale_tril).shape[:-2]
        self.loc, self._unbroadcasted_scale_tril = loc.expand(*batch, size), scale_tril
        setattr(self, self._matrix, given[0].expand(*batch, size, size))
        super().__init__(batch, (size,), validate_args)
        if self._matrix != "scale_tril" and self._checks():
            self._require(self._matrix, symmetric, given[0])

    def _given_names(self) -> tuple[str, str]:
        return "loc", self._matrix

    @lazy_property
    def scale_tril(self) -> Tensor:
        size = self._event_shape[0]
        return self._unbroadcasted_scale_tril.expand(*self._batch_shape, size, size)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor, size = self._unbroadcasted_scale_tril, self._event_shape[0]
        return (factor @ factor.mT).expand(*self._batch_shape, size, size)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        size = self._event_shape[0]
        return cholesky_inverse(self._unbroadcasted_scale_tril).expand(*self._batch_shape, size, size)

    mean = mode = inner("loc")

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1).expand(self._batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        difference = (value - self.loc).unsqueeze(-1)
        factor = self._unbroadcasted_scale_tril
        factor = factor.expand(*difference.shape[:-2], *factor.shape[-2:])
        distance = solve_triangular(factor, difference, upper=False).squeeze(-1).square().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()

"""Special functions, by torch.special's names."""

from __future__ import annotations

import math
from typing import Any

from .engine.declare import publish
from .engine.dtype import Default
from .engine.ops import (
    digamma,
    erf,
    erfinv,
    exp2,
    expm1,
    full_like,
    lgamma,
    log1p,
    log_softmax,
    logsumexp,
    result_type,
    round,
    sigmoid,
    softmax,
    where,
)
from .engine.ops.activation import logit
from .engine.ops.elementwise.airy import airy_ai
from .engine.ops.elementwise.bessel import bessel_j0, bessel_j1, i0, i0e, i1, i1e, spherical_bessel_j0
from .engine.ops.elementwise.bessel_second_kind import (
    bessel_y0,
    bessel_y1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
)
from .engine.ops.elementwise.exponential import xlogy
from .engine.ops.elementwise.incomplete_gamma import igamma, igammac, mvlgamma
from .engine.ops.elementwise.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from .engine.ops.elementwise.special import erfc, polygamma
from .engine.ops.elementwise.special import erfcx as _erfcx
from .engine.ops.elementwise.special import ndtri as _ndtri
from .engine.ops.elementwise.special import zeta as _zeta
from .engine.ops.elementwise.trigonometry import sinc
from .engine.tensor import Tensor

expit, gammaln, psi = sigmoid, lgamma, digamma
gammainc, gammaincc, multigammaln = igamma, igammac, mvlgamma
modified_bessel_i0, modified_bessel_i1 = i0, i1


def entr(x: Tensor) -> Tensor:
    """-x log(x): 0 at 0, -inf below."""
    return where(x < 0, -math.inf, 0.0 - xlogy(x, where(x > 0, x, 1.0)))  # 0 has no sign


def ndtr(x: Tensor) -> Tensor:
    """The standard normal distribution function."""
    return erfc(x * -math.sqrt(0.5)) * 0.5


def ndtri(x: Tensor) -> Tensor:
    """Where the standard normal distribution's mass is x: the inverse of ndtr."""
    return _ndtri(x)


def erfcx(x: Tensor) -> Tensor:
    """exp(x²) erfc(x), which does not vanish for large x."""
    return _erfcx(x)


def zeta(x: Any, other: Any) -> Tensor:
    """Hurwitz' zeta function: the sum of (other + k)^-x over k = 0, 1, …; inf at its pole x = 1, NaN below. With a
    gradient in `other`.
    """
    first = x if isinstance(x, Tensor) else full_like(other, float(x), dtype=result_type(other, float(x)))
    return _zeta(first, other)


def log_ndtr(x: Tensor) -> Tensor:
    """log of ndtr; far below 0 by its asymptotic series (Abramowitz and Stegun 1964, 26.2.12)."""
    x = x if x.dtype.is_floating_point else x.to(Default.dtype)
    near = where(x > -10, x, 0.0)
    far = where(x > -10, -10.0, x)
    u = (far * far).reciprocal()
    series = 1 - u * (1 - u * (3 - u * (15 - u * (105 - u * 945))))
    tail = far * far * -0.5 - (-far).log() - 0.5 * math.log(2 * math.pi) + series.log()
    above = log1p(-ndtr(-where(near > 1, near, 1.0)))
    return where(x > -10, where(near > 1, above, ndtr(near).log()), tail)


def xlog1py(x: Any, other: Any) -> Tensor:
    """x log(1 + other), 0 where x is 0."""
    return xlogy(x, other + 1) if not isinstance(x, Tensor) else where(x == 0, xlogy(x, other + 1), x * _log1p(other))


def _log1p(x: Any) -> Any:
    return x.log1p() if isinstance(x, Tensor) else math.log1p(x)


__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf", "erfc",
    "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln", "hermite_polynomial_h",
    "hermite_polynomial_he", "i0", "i0e", "i1", "i1e", "laguerre_polynomial_l", "legendre_polynomial_p", "log1p",
    "log_ndtr", "log_softmax", "logit", "logsumexp", "modified_bessel_i0", "modified_bessel_i1",
    "modified_bessel_k0", "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "sinc",
    "softmax", "spherical_bessel_j0", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
publish(globals(), __all__)

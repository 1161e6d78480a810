"""Special functions, by torch.special's names."""

from __future__ import annotations

from math import log, pi, sqrt

from .engine import Tensor
from .engine.by_name import rename_in
from .engine.ops import (
    digamma,
    erf,
    erfinv,
    exp2,
    expm1,
    lgamma,
    log_softmax,
    logsumexp,
    round,
    sigmoid,
    softmax,
    where,
)
from .engine.ops.elementwise import log1p
from .engine.ops.elementwise_more import erfc, logit, polygamma, sinc, xlogy
from .engine.ops.gamma import i0, igamma, igammac, mvlgamma

expit, gammaln, psi, multigammaln, gammainc, gammaincc = sigmoid, lgamma, digamma, mvlgamma, igamma, igammac


def entr(x: Tensor) -> Tensor:
    """-x log(x): 0 at 0, -inf below."""
    inside = where(x > 0, x, 1.0)
    return where(x == 0, 0.0, where(x < 0, float("-inf"), -x * inside.log()))


def ndtr(x: Tensor) -> Tensor:
    """The normal distribution's cdf."""
    return erfc(x * -sqrt(0.5)) * 0.5


def ndtri(x: Tensor) -> Tensor:
    """The inverse of ndtr."""
    return erfinv(x * 2 - 1) * sqrt(2)


def log_ndtr(x: Tensor) -> Tensor:
    """log of ndtr; far below 0 by its asymptotic series (Abramowitz and Stegun 1964, 26.2.12)."""
    near = where(x > -10, x, 0.0)
    far = where(x > -10, -10.0, x)
    u = (far * far).reciprocal()
    series = 1 - u * (1 - u * (3 - u * (15 - u * (105 - u * 945))))
    tail = far * far * -0.5 - (-far).log() - 0.5 * log(2 * pi) + series.log()
    above = log1p(-ndtr(-where(near > 1, near, 1.0)))
    return where(x > -10, where(near > 1, above, ndtr(near).log()), tail)


def xlog1py(x: Tensor, other: Tensor) -> Tensor:
    """x log(1 + other): 0 where x is 0, unless other is NaN."""
    return where((x == 0) & ~other.isnan(), 0.0, x * log1p(other))


__all__ = [
    "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln", "i0",
    "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "polygamma", "psi",
    "round", "sinc", "softmax", "xlog1py", "xlogy",
]  # fmt: skip
rename_in(globals(), __all__)

"""Determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

from ... import dtype as _dtype
from ...declare import function
from ...dtype import promote
from ...lazy import np
from ...op import primitive
from ...return_types import printed_as
from ...tensor import Tensor
from ..elementwise.select import where
from ..stacking import cat
from .lapack import _square, part_of, result_of
from .solve import inverse
from .svd import svd


def _cofactors(x: Tensor) -> Tensor:
    """The derivative of det at (..., N, N), also for singular matrices, from the singular values."""
    u, s, v = svd(x.detach().to(promote(x.dtype, _dtype.float32)))  # (..., N, N), (..., N), (..., N, N)
    one = s.new_ones((*s._shape[:-1], 1))
    before = cat([one, s[..., :-1]], -1).cumprod(-1)  # (..., N): the product of the larger values
    behind = cat([one, s.flip(-1)[..., :-1]], -1).cumprod(-1).flip(-1)  # of the smaller ones
    size = (det(u) * det(v).conj()).unsqueeze(-1).unsqueeze(-1)  # (..., 1, 1), of size 1
    return (size * ((u.conj() * (before * behind).unsqueeze(-2)) @ v.mT)).to(x.dtype)


def _d_det(g: Tensor, y: Tensor, x: Tensor) -> Any:
    g = g.unsqueeze(-1).unsqueeze(-1)
    if not x._shape[-1] or bool((y == 0).any()):
        return (g * _cofactors(x) if x.numel() else x * 0,)
    return (g * y.unsqueeze(-1).unsqueeze(-1) * inverse(x).mT,)


@function(method=True)
@primitive(vjp=_d_det, saves="both")
def det(x: Tensor) -> Tensor:
    """Determinants of (..., N, N)."""
    _square("det", x)
    return result_of("det", lambda a: np.linalg.det(a), x)


@primitive(
    vjp=lambda g, _, x: (g.unsqueeze(-1).unsqueeze(-1) * inverse(x).mH,), name="_log_abs_det"
)  # fmt: skip
def _log_abs_det(x: Tensor) -> Tensor:
    """log|det| of complex matrices."""
    return result_of("slogdet", lambda a: np.linalg.slogdet(a)[1], x, kind=part_of)


def _d_direction(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Only the angle of the determinant changes it."""
    turn = (g * y.conj()).imag * 1j
    return (turn.unsqueeze(-1).unsqueeze(-1) * inverse(x).mH,)


@primitive(vjp=_d_direction, saves="both", name="_direction_of_det")
def _direction(x: Tensor) -> Tensor:
    """det / |det| of complex matrices."""
    return result_of("slogdet", lambda a: np.linalg.slogdet(a)[0], x)


_direction.takes_complex = True


@primitive(
    vjp=lambda g, _, x: (g[..., 1, None, None] * inverse(x).mT,), name="_sign_and_log_of_det"
)  # fmt: skip
def _sign_and_log(x: Tensor) -> Tensor:
    """The sign of the determinant of real matrices, 1, -1 or 0, and log|det|: (..., N, N) → (..., 2)."""
    return result_of("slogdet", lambda a: np.stack(np.linalg.slogdet(a), -1), x)


@printed_as("linalg_slogdet")
class LogDeterminant(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


@function(method=True)
def slogdet(x: Tensor) -> LogDeterminant:
    """(sign, log|det|) of (..., N, N); the sign of complex matrices is det / |det|."""
    _square("slogdet", x)
    if x.dtype.is_complex:
        return LogDeterminant(_direction(x), _log_abs_det(x))
    found = _sign_and_log(x)
    return LogDeterminant(found[..., 0].detach(), found[..., 1])


@function(method=True)
def logdet(x: Tensor) -> Tensor:
    """log of the determinant; NaN if that is a negative real number."""
    sign, size = slogdet(x)
    if x.dtype.is_complex:
        return sign.log() + size
    return where(sign < 0, float("nan"), size)

"""Determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...declare import function
from ...lazy import np
from ...op import primitive
from ...return_types import printed_as
from ...tensor import Tensor
from ..elementwise.select import where
from .lapack import _square, finite_svd, part_of, result_of
from .solve import inverse


@primitive(vjp=None, name="_cofactors")
def _cofactors(x: Tensor) -> Tensor:
    """The gradient of det from the singular values, also for singular matrices."""

    def compute(a: Any) -> Any:
        u, s, vh = finite_svd(a)
        others = np.stack([np.prod(np.delete(s, i, -1), -1) for i in range(s.shape[-1])], -1)
        size = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
        return size * ((np.conj(u) * others[..., None, :]) @ np.conj(vh))

    return result_of("det", compute, x)


def _d_det(g: Tensor, y: Tensor, x: Tensor) -> Any:
    g = g.unsqueeze(-1).unsqueeze(-1)
    if not x.shape[-1] or bool((y == 0).any()):
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

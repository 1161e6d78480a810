"""Covariance and correlation."""

from __future__ import annotations

from operator import index

from ..declare import function
from ..dtype import bool_, promote
from ..tensor import Tensor
from ..user_errors import describe
from .complex_numbers import complex_
from .view import reshape


def _check_weights(x: Tensor, fweights: Tensor | None, aweights: Tensor | None) -> None:
    """Whether the weights of cov are one for each column of x (rows, N), and not negative; fweights are integers."""
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        if given._shape != x._shape[1:]:
            raise ValueError(f"cov: {name} {describe(given)} are not one number for each observation of {describe(x)}")
        if (given.dtype.category != 1) if name == "fweights" else not given.dtype.is_floating_point:
            raise TypeError(f"cov: {name} are {'integers' if name == 'fweights' else 'floats'}, not {describe(given)}")
        if given.numel() and bool((given.detach() < 0).any()):
            raise ValueError(f"cov: {name} are not negative")


@function(method=True)
def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Covariances of variables (rows) over observations (columns), with integer repetitions (fweights) or weights
    (aweights) of the observations.
    """
    correction = index(correction)
    if x.dtype is bool_:
        raise TypeError(f"cov: takes numbers, not {describe(x)}")
    if x.ndim > 2:
        raise ValueError(
            f"cov: takes observations (N,) or variables (rows, N), not {describe(x)}; loop over its matrices"
        )
    if x.ndim < 2:
        x = reshape(x, (1, -1))
    _check_weights(x, fweights, aweights)
    kind = x.dtype if aweights is None else promote(x.dtype, aweights.dtype)
    x = x.to(kind if kind.has_gradient else "float32")
    if fweights is None and aweights is None:
        centred = x - x.mean(1, True)
        found = (centred @ centred.mH) / max(x._shape[1] - correction, 0)
    else:
        own = x.new_ones(x._shape[1]) if aweights is None else aweights.to(x.dtype)
        weights = own if fweights is None else own * fweights.to(x.dtype)
        total = weights.sum()
        centred = x - (x * weights).sum(1, True) / total
        lost = correction if aweights is None else correction * (weights * own).sum() / total
        left = total - lost
        found = ((centred * weights) @ centred.mH) / (left.real if left.dtype.is_complex else left).clamp(0)
    return found.squeeze() if found._shape == (1, 1) else found


@function(method=True)
def corrcoef(x: Tensor) -> Tensor:
    """Correlations of variables (rows)."""
    c = cov(x)
    if not c.ndim:
        return c / c
    spread = (c.diagonal().real if c.dtype.is_complex else c.diagonal()).sqrt()
    found = c / spread.unsqueeze(0) / spread.unsqueeze(1)
    if c.dtype.is_complex:
        return complex_(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)

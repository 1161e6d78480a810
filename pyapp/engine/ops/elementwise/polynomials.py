"""Orthogonal polynomials by their recurrences (NIST DLMF 18.9); the degree is a number or a tensor, broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as _dtype
from ...operands import as_tensor, common_dtype
from ...tensor import Tensor
from .select import where

First = Callable[[Tensor], Tensor]
Next = Callable[[Tensor, int, Tensor, Tensor], Tensor]
_HIGHEST = 10000


def _polynomial(name: str, about: str, first: First, following: Next, shifted: bool = False) -> Any:
    """The function of a family: 1, `first(x)`, and `following(x, k, P_k, P_(k-1))` for k + 1."""

    def function(input: Any, n: Any) -> Tensor:
        given = input if isinstance(input, Tensor) else as_tensor(input, n)
        x = given if given.dtype.is_floating_point else given.to(_dtype.Default.dtype)
        if isinstance(n, Tensor) and n.dtype.is_floating_point:
            x = x.to(common_dtype(x, n))
            n = where(n.isfinite(), n.trunc(), -1.0)  # torch finds 0 for a degree that is not a number, too
        most = (int(n.max().item()) if n.numel() else 0) if isinstance(n, Tensor) else int(n)
        x = x * 2.0 - 1.0 if shifted else x
        if most > _HIGHEST:
            raise ValueError(f"{name}: degrees are at most {_HIGHEST}, got {most}")
        before, now = x * 0.0 + 1.0, first(x)
        if not isinstance(n, Tensor):
            if most < 1:
                return before if most == 0 else before * 0.0
            for k in range(1, most):
                before, now = now, following(x, k, now, before)
            return now
        found = where(n < 0, before * 0.0, before)
        for k in range(1, most + 1):
            found = where(n == k, now, found)
            before, now = now, following(x, k, now, before)
        return found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{about} of degree n at each element; 0 where n < 0. Any shapes that broadcast."
    return function


def _chebyshev(x: Tensor, k: int, now: Tensor, before: Tensor) -> Tensor:
    return x * now * 2.0 - before


_CHEBYSHEV: dict[str, tuple[str, First]] = {
    "t": ("first", lambda x: x), "u": ("second", lambda x: x * 2.0), "v": ("third", lambda x: x * 2.0 - 1.0),
    "w": ("fourth", lambda x: x * 2.0 + 1.0),
}  # fmt: skip
chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v, chebyshev_polynomial_w = (
    _polynomial(f"chebyshev_polynomial_{kind}", f"Chebyshev's polynomial of the {name} kind", first, _chebyshev)
    for kind, (name, first) in _CHEBYSHEV.items()
)
(
    shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
) = (
    _polynomial(
        f"shifted_chebyshev_polynomial_{kind}", f"Chebyshev's polynomial of the {name} kind in 2 x - 1", first,
        _chebyshev, shifted=True,
    )
    for kind, (name, first) in _CHEBYSHEV.items()
)  # fmt: skip
hermite_polynomial_h = _polynomial(
    "hermite_polynomial_h", "The physicists' Hermite polynomial", lambda x: x * 2.0,
    lambda x, k, now, before: x * now * 2.0 - before * (2.0 * k),
)  # fmt: skip
hermite_polynomial_he = _polynomial(
    "hermite_polynomial_he", "The probabilists' Hermite polynomial", lambda x: x,
    lambda x, k, now, before: x * now - before * float(k),
)  # fmt: skip
laguerre_polynomial_l = _polynomial(
    "laguerre_polynomial_l", "Laguerre's polynomial", lambda x: 1.0 - x,
    lambda x, k, now, before: ((2.0 * k + 1.0 - x) * now - before * float(k)) / (k + 1.0),
)  # fmt: skip
legendre_polynomial_p = _polynomial(
    "legendre_polynomial_p", "Legendre's polynomial", lambda x: x,
    lambda x, k, now, before: (x * now * (2.0 * k + 1.0) - before * float(k)) / (k + 1.0),
)  # fmt: skip

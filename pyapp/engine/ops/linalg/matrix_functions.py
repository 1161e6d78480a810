"""Powers and the exponential of a matrix."""

from __future__ import annotations

from typing import Any

from ... import dtype as _dtype
from ...declare import function
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import primitive
from ...tensor import Tensor
from ...user_errors import describe
from ..create import eye
from ..stacking import cat
from .lapack import _square
from .products import matmul
from .solve import inverse

# Of the Padé approximant of degree 13, and the 1-norm up to which it is exact to double precision.
PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
PADE_LIMIT = 5.371920351148152


def pade(a: Any, one: Any) -> tuple[Any, Any]:
    """The denominator and numerator of the approximant to exp(a): arrays or tensors (..., N, N), and the identity."""
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    c = PADE
    odd = a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * one
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * one
    odd = a @ odd
    return even - odd, even + odd


def _exponential(a: Any) -> Any:
    """Scaling and squaring of matrices of 64-bit floats or complex numbers of these (Higham 2005, "The scaling and
    squaring method revisited", 2.3).
    """
    norms = np.abs(a).sum(-2).max(-1, initial=0)
    finite = np.where(np.isfinite(norms), norms, 0)
    halvings = np.ceil(np.log2(np.maximum(finite / PADE_LIMIT, 1)))[..., None, None]
    a = a / 2**halvings
    result = np.linalg.solve(*pade(a, np.broadcast_to(np.eye(a.shape[-1]), a.shape)))
    for step in range(int(halvings.max(initial=0))):
        result = np.where(halvings > step, result @ result, result)
    return np.where(np.isfinite(norms)[..., None, None], result, np.nan)


def _d_matrix_exp(g: Tensor, _: Any, x: Tensor) -> Any:
    """The upper right block of exp([[xᵀ, g], [0, xᵀ]]) (Mathias 1996, "A chain rule for matrix functions")."""
    n = x._shape[-1]
    upper, lower = cat([x.mT, g], -1), cat([g * 0, x.mT], -1)
    return (matrix_exp(cat([upper, lower], -2))[..., :n, n:],)


@function(method=True)
@primitive(vjp=_d_matrix_exp, name="matrix_exp")
def matrix_exp(x: Tensor) -> Tensor:
    """The exponential of square matrices (..., N, N): the sum of xᵏ / k!."""
    _square("matrix_exp", x)
    if not x.dtype.has_gradient:
        raise TypeError(f"matrix_exp: takes floating-point or complex matrices, not {describe(x)}")
    with np.errstate(all="ignore"):
        found = _exponential(array_of(x, _dtype.complex128 if x.dtype.is_complex else _dtype.float64))
    return tensor_of(found, x.dtype)


@function(method=True)
def matrix_power(x: Tensor, n: int) -> Tensor:
    """x multiplied with itself n times; of the inverse for negative n."""
    _square("matrix_power", x)
    if n < 0:
        return matrix_power(inverse(x), -n)
    result = eye(x._shape[-1], dtype=x.dtype, device=x.device).expand(x._shape) if n == 0 else None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    assert result is not None
    return result

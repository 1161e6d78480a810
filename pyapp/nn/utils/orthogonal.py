"""Training of matrices that keep orthonormal columns, or rows if these are fewer (Lezcano-Casado 2019,
"Trivializations for gradient-based optimization on manifolds"), by torch.nn.utils.parametrizations' name.
"""

from __future__ import annotations

from ...engine import Tensor, no_grad
from ...engine.ops import cat, diag_embed, eye, geqrf, pad, randn, solve, where
from ...engine.ops.linalg.factor import qr
from ...engine.ops.linalg.matrix_functions import matrix_exp
from ...engine.user_errors import describe
from ..module import Module
from .parametrize import register_parametrization

WAYS = ("matrix_exp", "cayley", "householder")


def _columns(matrix: Tensor) -> Tensor:
    """An orthonormal basis of the span of the columns, in their order and directions."""
    q, r = qr(matrix)
    signs = r.diagonal(dim1=-2, dim2=-1).sgn()
    return q * signs.unsqueeze(-2)


def _reflections(vectors: Tensor) -> Tensor:
    """The first columns of the product of Householder reflections whose vectors are the columns of (..., N, K) below
    the diagonal, with a diagonal of ones.
    """
    n, k = vectors.shape[-2:]
    unit = eye(n, k, dtype=vectors.dtype, device=vectors.device)
    below, product = vectors.tril(-1), unit
    for i in reversed(range(k)):
        v = (below[..., i] + unit[:, i]).unsqueeze(-1)  # (..., N, 1)
        product = product - (2 / (v * v).sum(-2, keepdim=True)) * v * (v.mT @ product)
    return product


class _Orthogonal(Module):
    """An orthogonal `base` (N, N) times a rotation, or the rotation alone. One of three maps computes the rotation from
    the parameter."""

    base: Tensor | None = None

    def __init__(self, weight: Tensor, way: str, use_trivialization: bool) -> None:
        super().__init__()
        self.orthogonal_map, self.shape = way, weight.shape
        if use_trivialization:
            self.register_buffer("base", eye(max(weight.shape[-2:]), dtype=weight.dtype, device=weight.device))

    def _rotation(self, tall: Tensor) -> Tensor:
        n, k = tall.shape[-2:]
        if self.orthogonal_map == "householder":
            return _reflections(tall) * tall.detach().diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        lower = pad(tall.tril(), (0, n - k))
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            return matrix_exp(skew)[..., :k]
        unit = eye(n, dtype=tall.dtype, device=tall.device)
        return solve(unit - skew * 0.5, unit + skew * 0.5)[..., :k]

    def forward(self, original: Tensor) -> Tensor:
        wide = original.shape[-2] < original.shape[-1]
        found = self._rotation(original.mT if wide else original)
        found = found if self.base is None else self.base @ found
        return found.mT if wide else found

    def right_inverse(self, value: Tensor) -> Tensor:
        """Sets `base` to the nearest orthonormal columns; returns the parameter of the identity rotation. Without a
        base that of the value's own reflections, and NotImplementedError for other maps.
        """
        if value.shape != self.shape:
            raise ValueError(f"orthogonal: {describe(value)} is not of the shape {self.shape}")
        if self.base is None and self.orthogonal_map != "householder":
            raise NotImplementedError(
                f"orthogonal: with use_trivialization=False a value cannot be assigned to {self.orthogonal_map!r}"
            )
        with no_grad():
            wide = value.shape[-2] < value.shape[-1]
            tall = value.mT if wide else value
            n, k = tall.shape[-2:]
            if self.base is None:
                found, scales = geqrf(tall)
                signs = found.diagonal(dim1=-2, dim2=-1).sign()
                ends = pad(diag_embed(where(scales == 0, -signs, signs)), (0, 0, 0, n - k))
                found = found.tril(-1) + ends + found.triu(1)
                return found.mT if wide else found
            rest = randn(*tall.shape[:-2], n, n - k, dtype=value.dtype, device=value.device)
            self.base = _columns(cat([tall, rest], -1) if n > k else tall)
            none = -eye(value.shape[-2], value.shape[-1], dtype=value.dtype, device=value.device)
            return none.expand(*value.shape).clone()


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keeps the columns of a matrix orthonormal, or its rows if these are fewer. `orthogonal_map`: "matrix_exp" (the
    default for square and complex matrices), "cayley" or "householder" (the default for others). Without
    `use_trivialization` the matrix is the map of the parameter alone, and "matrix_exp" and "cayley" take no values.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        raise ValueError(f"orthogonal: {type(module).__name__} has no matrix {name!r}")
    square = weight.shape[-2] == weight.shape[-1]
    way = orthogonal_map or ("matrix_exp" if square or weight.dtype.is_complex else "householder")
    if way not in WAYS:
        raise ValueError(f"orthogonal: the map is {', '.join(WAYS)}, not {orthogonal_map!r}")
    if way == "householder" and weight.dtype.is_complex:
        raise ValueError(f"orthogonal: the map 'householder' is of real matrices, not {describe(weight)}")
    return register_parametrization(module, name, _Orthogonal(weight.detach(), way, use_trivialization), unsafe=True)

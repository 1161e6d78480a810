"""Products of matrices."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import array_of, like, text


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b as NumPy broadcasts it; whole numbers in their own type."""
    if a.dtype is not b.dtype:
        raise TypeError(f"its inputs have different element types, {a.dtype.name} and {b.dtype.name}")
    if a.dtype.category != 2:
        return like(a, array_of(a) @ array_of(b))
    if b.ndim == 2 and a.ndim > 2:
        # One product of all rows: (..., M, K) (K, N).
        return (a.reshape(-1, a.shape[-1]) @ b).reshape(*a.shape[:-1], b.shape[-1])
    return a @ b


operator("MatMul")(product)


@operator("Gemm", since=7)
def gemm(
    a: Tensor, b: Tensor, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Tensor:
    """alpha A B + beta C, where A and B may be transposed and C is broadcast."""
    a = a.t() if transA else a
    if a.dtype.category != 2:
        found = alpha * (array_of(a) @ array_of(b.t() if transB else b))
        return like(a, found if c is None else found + beta * array_of(c))
    if transB and alpha == 1 and (c is None or (beta == 1 and c.shape == (b.shape[0],))):
        return ops.linear(a, b, c)
    y = a @ (b.t() if transB else b)
    y = y * alpha if alpha != 1 else y
    if c is None or beta == 0:
        return y
    return y + (c * beta if beta != 1 else c)


@operator("Gemm")
def gemm_by_broadcast(
    a: Tensor, b: Tensor, c: Tensor, *, alpha: float = 1.0, beta: float = 1.0, broadcast: int = 0, transA: int = 0,
    transB: int = 0,
) -> Tensor:  # fmt: skip
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("Einsum")
def einsum(*inputs: Tensor, equation: bytes) -> Tensor:
    """Sums of products by Einstein's convention."""
    formula = text(equation).replace(" ", "")
    if inputs[0].dtype.category == 2:
        return ops.einsum(formula, *inputs)
    return like(inputs[0], np.einsum(formula, *(array_of(x) for x in inputs)))

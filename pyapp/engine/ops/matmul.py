"""Matrix products: `matmul` of tensors, and `linear` with weights of any format."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..autograd import STATE
from ..device import cpu
from ..lazy import np
from ..mistakes import names_itself
from ..op import describe, op, primitive, read_crosswise
from ..shape import broadcast_shapes
from ..tensor import Tensor
from .base import array_of, computed, same_device, tensor_of


def _d_matmul(g: Tensor, _: Any, a: Tensor, b: Tensor) -> Any:
    """Gradients of a @ b; vectors are matrices of one row or column meanwhile."""
    if a.ndim == 1 and b.ndim == 1:
        return g * b, g * a
    if a.ndim == 1:
        g2 = g.unsqueeze(-2)
        return _sum_to(g2 @ b.mT, (1, *a.shape)).reshape(a.shape), _sum_to(a.unsqueeze(-1) @ g2, b.shape)
    if b.ndim == 1:
        g2 = g.unsqueeze(-1)
        return _sum_to(g2 @ b.unsqueeze(0), a.shape), _sum_to(a.mT @ g2, (*b.shape, 1)).reshape(b.shape)
    grad_a = _sum_to(g @ b.mT, a.shape) if a.requires_grad else None
    if not b.requires_grad:
        return grad_a, None
    if b.ndim == 2 and a.ndim > 2:  # one product instead of a sum of many
        return grad_a, a.flatten(0, -2).mT @ g.flatten(0, -2)
    return grad_a, _sum_to(a.mT @ g, b.shape)


def _sum_to(gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    extra = gradient.ndim - len(shape)
    dims = [*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and gradient.shape[i + extra] != 1)]
    return gradient.sum(dims, keepdim=True).reshape(shape) if dims else gradient


def matmul_shape(a: Tensor, b: Tensor, name: str = "matmul") -> tuple[int, ...]:
    """The shape of a @ b. ValueError where the inner sizes differ."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        raise TypeError(f"{name}: takes two tensors, got {describe(a)} and {describe(b)}")
    if not a.shape or not b.shape:
        raise ValueError(f"{name}: takes tensors with dims, got {describe(a)} and {describe(b)}")
    inner = b.shape[0] if b.ndim == 1 else b.shape[-2]
    if a.shape[-1] != inner:
        raise ValueError(f"{name}: inner sizes differ: {describe(a)} @ {describe(b)} ({a.shape[-1]} and {inner})")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], op=name)
    return batch + a.shape[-2:-1] + (b.shape[-1:] if b.ndim > 1 else ())


@primitive(vjp=_d_matmul)
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product with broadcast batch dims, as torch.matmul. (..., M, K) @ (..., K, N) → (..., M, N)."""
    matmul_shape(a, b)
    same_device("matmul", a, b)
    if a.dtype is not b.dtype:
        raise TypeError(f"matmul: {describe(a)} and {describe(b)} differ in dtype; convert one with .to(dtype)")
    computed("matmul")
    kind = a.dtype
    compute = _dtype.float32 if kind in (_dtype.float16, _dtype.bfloat16) else kind
    return tensor_of(np.matmul(array_of(a, compute), array_of(b, compute)), kind)


matmul.reads = read_crosswise


def check_linear(x: Tensor, weight: Tensor) -> None:
    """Shapes of a linear layer. ValueError names both."""
    if weight.ndim != 2 or not x.shape or x.shape[-1] != weight.shape[1]:
        raise ValueError(f"linear: {describe(x)} does not fit the weight {describe(weight)} (outputs, inputs)")


@op()
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias + residual."""
    check_linear(x, weight)
    if weight.dtype.is_quantized:
        from ..quant import dequantize

        weight = dequantize(weight)
    if (weight.dtype.is_bits or weight.dtype is _dtype.float16) and x.dtype is _dtype.float32:
        weight = weight.to(_dtype.float32)
    y = x @ weight.mT
    if bias is not None:
        y = y + bias
    return y if residual is None else y + residual


_linear.reads = read_crosswise


@_linear.gradient
def _d_linear(
    g: Tensor, _: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None
) -> Any:
    flat = g.reshape(prod(g.shape[:-1]), g.shape[-1])  # -1 would be any number where there are no elements
    if weight.dtype.is_quantized:
        from ..quant import dequantize

        if weight.requires_grad:
            raise TypeError(
                f"linear: {describe(weight)} is block-quantised and has no gradient; train in floating point"
            )
        weight = dequantize(weight)
    return (
        (g @ weight.to(g.dtype)) if x.requires_grad else None,
        (flat.mT @ x.reshape(flat.shape[0], x.shape[-1])).to(weight.dtype) if weight.requires_grad else None,
        _sum_to(flat, (1, flat.shape[-1])).reshape(-1) if bias is not None and bias.requires_grad else None,
        g if residual is not None and residual.requires_grad else None,
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    """x (..., K) times weight (N, K) transposed, plus bias (N,) and residual (..., N) → (..., N).

    The weight may be float32, float16, bfloat16 (products in float32) or a block format (int8 activations).
    """
    return _linear(x, weight, bias, residual)


def bmm(a: Tensor, b: Tensor) -> Tensor:
    """(B, M, K) @ (B, K, N), without broadcasting."""
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0]:
        raise ValueError(f"bmm: takes (B, M, K) and (B, K, N), got {describe(a)} and {describe(b)}")
    return a @ b


@names_itself
def _operator(self: Tensor, other: Any) -> Any:
    if not isinstance(other, Tensor):
        return NotImplemented
    if not STATE.enabled and matmul.fast is not None and self.device is cpu:  # as Op.__call__, for small matrices
        result = matmul.fast(self, other)
        if result is not NotImplemented:
            return result
    return matmul(self, other)


Tensor.__matmul__ = _operator  # type: ignore[method-assign]
Tensor.bmm = bmm  # type: ignore[attr-defined]

"""Products of vectors and matrices: matmul, linear, dot, outer and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ... import dtype as _dtype
from ...autocast import converted, in_lower_precision, lower_precision
from ...declare import function, method
from ...device import cpu
from ...launch import constants
from ...lazy import np
from ...native import IN_BROWSER
from ...numpy_arrays import array_of, int64_tensor, tensor_of
from ...op import op, parts_of, primitive, read_crosswise
from ...operands import common_dtype, same_device, unbroadcast
from ...quant import dequantize
from ...shape import broadcast_shapes, normalize_dim
from ...tensor import Tensor
from ...user_errors import describe, names_itself
from ..create import arange
from ..reordering import flip
from ..stacking import cat
from ..view import expand, reshape, reshaped


@function(method=True)
def kron(a: Tensor, b: Tensor) -> Tensor:
    """The Kronecker product."""
    rank = max(a.ndim, b.ndim)
    a, b = (reshape(t, (1,) * (rank - t.ndim) + t._shape) for t in (a, b))
    wide = reshape(a, tuple(n for size in a._shape for n in (size, 1)))
    other = reshape(b, tuple(n for size in b._shape for n in (1, size)))
    return reshape(wide * other, tuple(m * n for m, n in zip(a._shape, b._shape, strict=True)))


@function()
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector as columns."""
    if x.ndim != 1:
        raise ValueError(f"vander: takes a vector, got {describe(x)}")
    count = x.numel() if N is None else N
    powers = arange(count, device=x.device)
    powers = powers if increasing else flip(powers, 0)
    return x.unsqueeze(-1) ** powers


def _d_matmul(g: Tensor, _: Any, a: Tensor, b: Tensor) -> Any:
    """Gradients of a @ b; vectors are matrices of one row or column meanwhile."""
    if a.ndim == 1 and b.ndim == 1:
        return g * b, g * a
    if a.ndim == 1:
        g2 = g.unsqueeze(-2)
        grad_a = _sum_to(g2 @ b.mT, (1, *a._shape)).reshape(a._shape) if a.requires_grad else None
        return grad_a, _sum_to(a.unsqueeze(-1) * g2, b._shape) if b.requires_grad else None
    if b.ndim == 1:
        grad_a = _sum_to(g.unsqueeze(-1) * b, a._shape) if a.requires_grad else None
        if not b.requires_grad:
            return grad_a, None
        return grad_a, _sum_to(g.unsqueeze(-2) @ a, (1, *b._shape)).reshape(b._shape)
    grad_a = _sum_to(g @ b.mT, a._shape) if a.requires_grad else None
    if not b.requires_grad:
        return grad_a, None
    if b.ndim == 2 and a.ndim > 2:  # one product instead of a sum of many
        return grad_a, a.flatten(0, -2).mT @ g.flatten(0, -2)
    return grad_a, _sum_to(a.mT @ g, b._shape)


def _sum_to(gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    if gradient._shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    dims = [*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and gradient._shape[i + extra] != 1)]
    return reshaped(gradient.sum(dims, keepdim=True), shape) if dims else gradient


def _not_multiplied(a: Sequence[int], b: Sequence[int]) -> str:
    """torch's words for two shapes, those of batches as matrices."""
    told = [f"{prod(shape[:-1])}x{shape[-1]}" if len(shape) > 1 else f"{shape[0]}" for shape in (a, b)]
    return f"mat1 and mat2 shapes cannot be multiplied ({' and '.join(told)})"


def matmul_shape(a: Tensor, b: Tensor, name: str = "matmul") -> tuple[int, ...]:
    """The shape of a @ b. ValueError where the inner sizes differ."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        raise TypeError(f"{name}: takes two tensors, got {describe(a)} and {describe(b)}")
    if not a._shape or not b._shape:
        raise ValueError(f"{name}: takes tensors with dims, got {describe(a)} and {describe(b)}")
    inner = b._shape[0] if b.ndim == 1 else b._shape[-2]
    if a._shape[-1] != inner:
        raise ValueError(
            f"{name}: {_not_multiplied(a.shape, b.shape)}: inner sizes differ: {describe(a)} @ {describe(b)} "
            f"({a.shape[-1]} and {inner})"
        )
    batch = broadcast_shapes(a._shape[:-2], b._shape[:-2], op=name)
    return batch + a._shape[-2:-1] + (b._shape[-1:] if b.ndim > 1 else ())


@function(method=True)
@primitive(vjp=_d_matmul, autocast=lower_precision)
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product with broadcast batch dims, as torch.matmul. (..., M, K) @ (..., K, N) → (..., M, N)."""
    matmul_shape(a, b)
    same_device("matmul", a, b)
    if a.dtype is not b.dtype:
        raise TypeError(
            f"matmul: mat1 and mat2 must have the same dtype: {describe(a)} and {describe(b)} differ in dtype; convert "
            "one with .to(dtype)"
        )
    kind = a.dtype
    if kind.is_complex and IN_BROWSER:  # where NumPy has no BLAS
        return parts_of("matmul")(a, b)  # type: ignore[misc]
    compute = _dtype.float32 if kind in (_dtype.float16, _dtype.bfloat16) else kind
    return tensor_of(np.matmul(array_of(a, compute), array_of(b, compute), order="C"), kind)


matmul.reads = read_crosswise


def check_linear(x: Tensor, weight: Tensor) -> None:
    """Shapes of a linear layer. ValueError names both."""
    if weight.ndim != 2 or not x._shape or x._shape[-1] != weight._shape[1]:
        told = _not_multiplied(x._shape, weight._shape[::-1]) + ": " if x._shape and weight.ndim == 2 else ""
        raise ValueError(f"linear: {told}{describe(x)} does not fit the weight {describe(weight)} (outputs, inputs)")


def _linear_by_autocast(linear: Any, args: tuple[Any, ...], dtype: Any) -> Tensor:
    """A residual is added in its own type, as by torch, where it is a sum of its own. Products with block-quantised
    weights run in float32: their activations are int8.
    """
    x, weight, *rest = args
    bias, residual = (*rest, None, None)[:2]
    if weight.dtype.is_quantized:
        return linear(*converted(args, _dtype.float32))
    y: Tensor = linear(*converted((x, weight, bias), dtype))
    return y if residual is None else residual + y


@op(autocast=_linear_by_autocast)
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias + residual."""
    check_linear(x, weight)
    packed = weight.dtype.is_quantized
    widened = (weight.dtype.is_bits or weight.dtype is _dtype.float16) and x.dtype is _dtype.float32
    if x.dtype is not weight.dtype and not (packed and x.dtype.is_floating_point or widened):
        hint = "x to float32" if packed else "one"
        raise TypeError(
            f"linear: mat1 and mat2 must have the same dtype: {describe(x)} and the weight {describe(weight)} differ "
            f"in dtype; convert {hint}"
        )
    weight = dequantize(weight) if packed else weight
    y = x @ weight.to(x.dtype).mT
    if bias is not None:
        y = y + bias
    return y if residual is None else y + residual


_linear.reads = read_crosswise


@_linear.gradient
def _d_linear(
    g: Tensor, _: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None
) -> Any:
    flat = reshaped(g, (prod(g._shape[:-1]), g._shape[-1]))  # -1 would be any number where there are no elements
    if weight.dtype.is_quantized:
        if weight.requires_grad:
            raise TypeError(
                f"linear: {describe(weight)} is block-quantised and has no gradient; train in floating point"
            )
        weight = dequantize(weight)
    dx = dw = None
    if x.requires_grad:
        dx = g @ (weight if weight.dtype is g.dtype else weight.to(g.dtype))
    if weight.requires_grad:
        dw = flat.mT @ reshaped(x, (flat._shape[0], x._shape[-1]))
        dw = dw if dw.dtype is weight.dtype else dw.to(weight.dtype)
    return (
        dx,
        dw,
        flat.sum(0) if bias is not None and bias.requires_grad else None,
        g if residual is not None and residual.requires_grad else None,
    )


@function()
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    """x (..., K) times weight (N, K) transposed, plus bias (N,) and residual (..., N) → (..., N).

    The weight may be float32, float16, bfloat16 (products in float32) or a block format (int8 activations).
    """
    return _linear(x, weight, bias, residual)


@function(method=True, arguments="input mat2")
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """(B, M, K) @ (B, K, N), without broadcasting."""
    if a.ndim != 3 or b.ndim != 3 or a._shape[0] != b._shape[0]:
        raise ValueError(
            f"bmm: batch1 and batch2 must be 3D tensors (B, M, K) and (B, K, N), got {describe(a)} and {describe(b)}"
        )
    return a @ b


@method("__matmul__")
@names_itself
def _operator(self: Tensor, other: Any) -> Any:
    if not isinstance(other, Tensor):
        return NotImplemented
    return matmul.call(self, other)


@function(method=True, arguments="input tensor")
def dot(a: Tensor, b: Tensor) -> Tensor:
    """Σ a b of two vectors."""
    if a.ndim != 1 or b.ndim != 1 or a._shape != b._shape:
        raise ValueError(f"dot: takes two vectors of one length, got {describe(a)} and {describe(b)}")
    return matmul(a, b)


@function(method=True)
def vdot(a: Tensor, b: Tensor) -> Tensor:
    """Σ conj(a) b of two vectors."""
    return dot(a.conj(), b)


@function(method=True, arguments="input vec2", synonyms="ger")
def outer(a: Tensor, b: Tensor) -> Tensor:
    """a (N,), b (M,) → (N, M)."""
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer: takes two vectors, got {describe(a)} and {describe(b)}")
    return a.unsqueeze(1) * b


@function(method=True, arguments="input mat2")
def mm(a: Tensor, b: Tensor) -> Tensor:
    """(M, K) @ (K, N)."""
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(
            f"mm: self and mat2 must be a matrix each: takes two matrices, got {describe(a)} and {describe(b)}"
        )
    return matmul(a, b)


@function(method=True, arguments="input vec")
def mv(a: Tensor, b: Tensor) -> Tensor:
    """(M, K) @ (K,)."""
    if a.ndim != 2 or b.ndim != 1:
        raise ValueError(f"mv: takes a matrix and a vector, got {describe(a)} and {describe(b)}")
    return matmul(a, b)


def _added(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    if not x.dtype.has_gradient and not product.dtype.has_gradient:
        beta, alpha = int(beta), int(alpha)  # as torch: integers take the whole part of a factor
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else (x if beta == 1 else x * beta) + product


@function(method=True, in_place=True, arguments="input mat1 mat2")
@in_lower_precision
def addmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha (a @ b); where beta is 0, x is not read, and where alpha is 0, the numbers of the product."""
    product = mm(a, b)
    if alpha == 0:  # even where it has NaN
        product = product.masked_fill(product.new_ones((), dtype=_dtype.bool_), 0)
    return _added(x, product, beta, alpha)


@function(method=True, in_place=True, arguments="input batch1 batch2")
@in_lower_precision
def baddbmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha bmm(a, b)."""
    return _added(x, bmm(a, b), beta, alpha)


def multi_dot(tensors: Any) -> Tensor:
    """The product of matrices, in the order that costs least."""
    chain = list(tensors)
    for i, x in enumerate(chain):
        if not isinstance(x, Tensor) or not (x.ndim == 2 or (x.ndim == 1 and i in (0, len(chain) - 1))):
            raise ValueError(f"multi_dot: takes matrices, and vectors at the ends, not {describe(x)} at place {i}")
    while len(chain) > 1:
        sizes = [chain[0].shape[0] if chain[0].ndim > 1 else 1, *(t.shape[-1] for t in chain)]
        i = max(range(1, len(chain)), key=lambda k: sizes[k])  # the widest joint goes first
        chain[i - 1 : i + 1] = [chain[i - 1] @ chain[i]]
    return chain[0]


_FEW = 1 << 12  # numbers of vectors whose components are taken where they lie


@constants(1)
def _turns() -> tuple[Tensor, Tensor]:
    """The components of a vector after each, and those after these."""
    return int64_tensor(np.array([1, 2, 0])), int64_tensor(np.array([2, 0, 1]))


def _d_cross(g: Tensor, _: Any, a: Tensor, b: Tensor, d: int) -> Any:
    return (
        unbroadcast(_cross(b, g, d), a) if a.requires_grad else None,
        unbroadcast(_cross(g, a, d), b) if b.requires_grad else None,
    )


@op(vjp=_d_cross)
def _cross(a: Tensor, b: Tensor, d: int) -> Tensor:
    return _cross_by_parts(a, b, d)


def _cross_by_parts(a: Tensor, b: Tensor, d: int) -> Tensor:
    if a.device is cpu is b.device and max(a.numel(), b.numel()) <= _FEW:
        first, second = _turns()
        ahead, behind = a.index_select(d, first), a.index_select(d, second)
        return ahead * b.index_select(d, second) - behind * b.index_select(d, first)
    a, b = (x.movedim(d, 0).contiguous() for x in (a, b))  # (3, ...): three long rows
    turned = a * b.roll(-1, 0) - b * a.roll(-1, 0)  # begins with the last component
    return turned.roll(-1, 0).movedim(0, d).contiguous()


def linalg_cross(a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product along a dim of three; broadcast."""
    d = normalize_dim(dim, a.ndim, "cross")
    if a.ndim != b.ndim or not a.ndim or a._shape[d] != 3 or b._shape[d] != 3:
        raise ValueError(f"cross: takes tensors with as many dims and 3 in dim {dim}, got {describe(a)}, {describe(b)}")
    found: Tensor = (_cross_by_parts if a.dtype.is_complex or b.dtype.is_complex else _cross)(a, b, d)
    return found


@function(method=True)
def cross(a: Tensor, b: Tensor, dim: int | None = None) -> Tensor:
    """The vector product along a dim of three: the first one, unless given, as torch.cross."""
    if dim is None and 3 in a._shape:
        dim = a._shape.index(3)
    return linalg_cross(a, b, dim=-1 if dim is None else dim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Σ conj(x) y along a dim; broadcast."""
    return (x.conj() * y).sum(dim)


def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers 0 .. N - 1 of x (..., K) → (..., K, N); N is K unless given."""
    count = x._shape[-1] if N is None else N
    if not x.ndim or count < 2:
        raise ValueError(f"vander: takes vectors and N > 1, got {describe(x)} and {count}")
    powers = expand(x.unsqueeze(-1), (*x._shape, count - 1)).cumprod(-1)
    return cat([x.new_ones((*x._shape, 1)), powers], -1)


@function(method=True)
def inner(x: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dims: (..., K), (..., K) → all other dims of both."""
    if not x.ndim or not other.ndim:
        return x * other
    if x._shape[-1] != other._shape[-1]:
        raise ValueError(f"inner: {describe(x)} and {describe(other)} differ in the last dim")
    rows, others = (t.reshape(prod(t._shape[:-1]), t._shape[-1]) for t in (x, other))
    flat = rows @ others.mT
    return flat.reshape(x._shape[:-1] + other._shape[:-1])


@function(method=True, in_place=True)
@in_lower_precision
def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha times the sum of all batch1 @ batch2: (B, N, K), (B, K, M) → (N, M); x is broadcast to that.

    Where beta is 0, x is not read.
    """
    if batch1.ndim != 3 or batch2.ndim != 3 or (batch1._shape[0], batch1._shape[2]) != batch2._shape[:2]:
        raise ValueError(f"addbmm: takes (B, N, K) and (B, K, M), got {describe(batch1)} and {describe(batch2)}")
    side_by_side = batch1.transpose(0, 1).reshape(batch1._shape[1], batch1._shape[0] * batch1._shape[2])  # (N, B K)
    below = batch2.reshape(batch2._shape[0] * batch2._shape[1], batch2._shape[2])  # (B K, M)
    x = x.expand(batch1._shape[1], batch2._shape[2])
    return addmm(x, side_by_side, below, beta=beta, alpha=alpha)


@function(method=True, in_place=True)
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha mat @ vec."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise ValueError(f"addmv: takes a matrix and a vector, not {describe(mat)} and {describe(vec)}")
    return addmm(x.unsqueeze(-1), mat, vec.unsqueeze(-1), beta=beta, alpha=alpha).squeeze(-1)


@function(method=True, in_place=True)
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha vec1 ⊗ vec2; where beta is 0, x is not read. TypeError for integers with a float factor."""
    product = outer(vec1, vec2)
    if x.dtype is product.dtype is _dtype.bool_:
        return (product & bool(alpha)) | (x & True if beta else product & False)
    if (isinstance(beta, float) or isinstance(alpha, float)) and common_dtype(x, product).category < 2:
        raise TypeError(f"addr: the factors {beta} and {alpha} must be integers, as {describe(x)} is")
    return _added(x, product, beta, alpha)

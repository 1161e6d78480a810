"""The CPU's kernels of single elements: float32 in any layout and any broadcasting, numbers beside tensors."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..launch import KERNELS, launch, launch_all
from ..op import OPS
from ..ops.base import dense
from ..shape import Shape, broadcast_shapes, dense_layout
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous, make
from .cpu import claims, rows_of

_F32 = _dtype.float32
K = KERNELS


def is_packed(x: Tensor) -> bool:
    """Whether the elements lie without gaps, in whatever order of the dims."""
    step = 1
    for stride, size in sorted((s, n) for s, n in zip(x.strides, x.shape, strict=True) if n != 1):
        if stride != step:
            return False
        step *= size
    return True


def _result_like(x: Tensor) -> tuple[Tensor, Tensor]:
    """(x, an empty result that lies as x does): x itself where it has no gaps, else a dense copy."""
    if x.is_contiguous():
        return x, empty_contiguous(x.shape)
    if is_packed(x):
        return x, make(Storage(4 * x.numel()), x.shape, x.strides, _F32)
    x = dense(x)
    return x, empty_contiguous(x.shape)


# ---- two operands


def _walk(shape: Shape, result: Shape) -> tuple[int, int] | None:
    """(period, repeat) with which a dense operand is read where it is broadcast; None where dims that it lacks lie
    between dims that it has."""
    own = [i for i, n in enumerate(shape, len(result) - len(shape)) if n != 1]
    if not own:
        return 1, 0
    first, last = own[0], own[-1]
    if shape[first - len(result) :][: last - first + 1] != result[first : last + 1]:
        return None
    return prod(result[first : last + 1]), prod(result[last + 1 :])


_plans: dict[tuple[Shape, Shape], tuple[Shape, int, Any, Any]] = {}


def _plan(a: Shape, b: Shape, name: str) -> tuple[Shape, int, Any, Any]:
    """(shape, elements, walk of a, walk of b) of the result. ValueError where they do not broadcast."""
    found = _plans.get((a, b))
    if found is None:
        shape = broadcast_shapes(a, b, op=name)
        found = shape, prod(shape), _walk(a, shape), _walk(b, shape)
        if len(_plans) > 4096:
            _plans.clear()
        _plans[a, b] = found
    return found


def _with_number(kernel: Any, a: Any, b: Any) -> Any:
    """One of the two is a number."""
    x, first = (a, True) if isinstance(a, Tensor) else (b, False)
    x, y = _result_like(x)
    count = dense_layout(x.shape)[0]
    address = x.storage.address + 4 * x.offset
    pointers = (address, 0) if first else (0, address)
    whole = count or 1
    periods = (whole, 1) if first else (1, whole)
    try:
        launch(kernel, count >> 10, y.storage.address, *pointers, count, *periods, 0, 0, b if first else a)
    except OverflowError:  # beyond float32
        return NotImplemented
    return y


def _claim_binary(name: str) -> None:
    kernel = K[name + "_f32"]

    @claims(name)
    def _(a: Tensor, b: Any) -> Any:
        if a.dtype is not _F32:
            weak = a.weak and not a.shape and isinstance(b, Tensor) and b.dtype is _F32 and bool(b.shape)
            return _with_number(kernel, a.item(), b) if weak else NotImplemented
        if type(b) is float or type(b) is int:
            return _with_number(kernel, a, b)
        if not isinstance(b, Tensor) or b.dtype is not _F32 or b.device is not a.device:
            return NotImplemented
        shape = a.shape
        if shape == b.shape and a.strides == b.strides:
            a, y = _result_like(a)
            b = b if b.strides == a.strides else dense(b)
            count = dense_layout(shape)[0]
            whole = count or 1
            launch(
                kernel, count >> 10, y.storage.address, a.storage.address + 4 * a.offset,
                b.storage.address + 4 * b.offset, count, whole, whole, 0, 0, 0.0,
            )  # fmt: skip
            return y
        shape, count, a_walk, b_walk = _plan(shape, b.shape, name)
        if not count:
            return empty_contiguous(shape)
        a, b = dense(a), dense(b)
        if a_walk is None:
            a, a_walk = dense(a.expand(shape)), (count, 0)
        if b_walk is None:
            b, b_walk = dense(b.expand(shape)), (count, 0)
        y = empty_contiguous(shape)
        launch(
            kernel, count >> 10, y.address, a.address, b.address, count, a_walk[0], b_walk[0], a_walk[1], b_walk[1], 0.0
        )  # fmt: skip
        return y


for _name in ("add", "sub", "mul", "div", "maximum", "minimum"):
    _claim_binary(_name)


@claims("neg")
def _neg(x: Tensor) -> Any:
    return _with_number(K["mul_f32"], x, -1.0) if x.dtype is _F32 else NotImplemented


@claims("relu")
def _relu(x: Tensor) -> Any:
    return _with_number(K["maximum_f32"], x, 0.0) if x.dtype is _F32 else NotImplemented


@claims("reciprocal")
def _reciprocal(x: Tensor) -> Any:
    return _with_number(K["div_f32"], 1.0, x) if x.dtype is _F32 else NotImplemented


@claims("pow")
def _pow(x: Tensor, exponent: Any) -> Any:
    if x.dtype is not _F32 or type(exponent) not in (int, float) or exponent != 2:
        return NotImplemented
    return OPS["mul"].forward(x, x)


@claims("_clamp")
def _clamp(x: Tensor, low: Any, high: Any) -> Any:
    numbers = (int, float, type(None))
    if x.dtype is not _F32 or type(low) not in numbers or type(high) not in numbers:
        return NotImplemented
    y = x if low is None else _with_number(K["maximum_f32"], x, low)
    return y if high is None or y is NotImplemented else _with_number(K["minimum_f32"], y, high)


# ---- one operand


def _claim_unary(name: str, cost: int) -> None:
    """`cost`: of an element, in multiply-adds."""
    kernel = K[name + "_f32"]

    @claims(name)
    def _(x: Tensor) -> Any:
        if x.dtype is not _F32:
            return NotImplemented
        x, y = _result_like(x)
        count = dense_layout(x.shape)[0]
        launch(kernel, count * cost >> 10, y.storage.address, x.storage.address + 4 * x.offset, count)
        return y


for _name, _cost in (("exp", 4), ("silu", 4), ("sigmoid", 4), ("tanh", 4), ("log", 4), ("sqrt", 2), ("abs", 1)):
    _claim_unary(_name, _cost)


@claims("rsqrt")
def _rsqrt(x: Tensor) -> Any:
    if x.dtype is not _F32:
        return NotImplemented
    x, y = _result_like(x)
    count = x.numel()
    at, whole = y.address, count or 1
    launch_all(
        count >> 9, (K["sqrt_f32"], at, x.address, count), (K["div_f32"], at, 0, at, count, 1, whole, 0, 0, 1.0)
    )  # fmt: skip
    return y


@claims("gelu")
def _gelu(x: Tensor, approximate: str = "none") -> Any:
    if x.dtype is not _F32 or approximate != "none":
        return NotImplemented
    x, y = _result_like(x)
    launch(K["gelu_f32"], x.numel() >> 6, y.address, x.address, x.numel())
    return y


_SILU_MUL = K["silu_mul_f32"]


@claims("silu_mul")
def _silu_mul(x: Tensor) -> Any:
    if x.dtype is not _F32 or not x.shape or x.shape[-1] % 2:
        return NotImplemented
    x, rows, columns, stride = rows_of(x)
    half = columns // 2
    y = empty_contiguous(x.shape[:-1] + (half,))
    launch(_SILU_MUL, rows * half >> 8, y.address, x.address, rows, half, half, stride)
    return y


# ---- copies


@claims("clone")
def _clone(x: Tensor) -> Any:
    from ..ops.view import dense_copy

    return NotImplemented if x.dtype.is_quantized else dense_copy(x)


_CONVERT = {
    (_dtype.float16, _F32): K["f16_to_f32"],
    (_F32, _dtype.float16): K["f32_to_f16"],
    (_dtype.bfloat16, _F32): K["bf16_to_f32"],
    (_F32, _dtype.bfloat16): K["f32_to_bf16"],
}


@claims("cast")
def _cast(x: Tensor, dtype: Any, device: Any = None) -> Any:
    kernel = _CONVERT.get((x.dtype, dtype))
    if kernel is None:
        return NotImplemented
    x = dense(x)
    y = empty_contiguous(x.shape, dtype)
    launch(kernel, x.numel() >> 9, y.address, x.address, x.numel())
    return y

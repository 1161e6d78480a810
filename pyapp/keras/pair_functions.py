"""keras.ops' functions of two tensors, number by number: pyapp's, with Keras' names for the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyapp

from ..engine import Tensor
from ..train.floats import floatx
from .arguments import as_floats, as_tensor, common_dtype, is_wide_unsigned, number_dtype

_NUMBERS = (
    "add", "arctan2", "divide", "floor_divide", "fmax", "fmin", "fmod", "gcd", "greater", "greater_equal", "hypot",
    "kron", "lcm", "ldexp", "less", "less_equal", "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor",
    "maximum", "minimum", "multiply", "nextafter", "subtract", "true_divide",
)  # fmt: skip
_BITS = {
    "bitwise_and": "bitwise_and", "bitwise_left_shift": "bitwise_left_shift", "bitwise_or": "bitwise_or",
    "bitwise_right_shift": "bitwise_right_shift", "bitwise_xor": "bitwise_xor", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
}  # fmt: skip
__all__ = [
    *_NUMBERS, *_BITS, "allclose", "cdist", "correlate", "cross", "diff", "einsum", "inner", "isclose", "isin",
    "matmul", "divide_no_nan", "dot", "equal", "heaviside", "mod", "not_equal", "outer", "power", "tensordot",
    "trapezoid", "vdot",
]  # fmt: skip


def operands(x1: Any, x2: Any, strict: bool = False) -> tuple[Any, Any]:
    """Tensors of the dtype in which both are computed. A number, which has the dtype of the other operand where that
    holds numbers of its kind, stays one behind a tensor. A tensor without dims does not widen floats, unless `strict`:
    Keras on torch differs from function to function."""
    if type(x2) in _PYTHON and type(x1) not in _PYTHON:
        first = as_tensor(x1)
        return _alike(first, x2) if first.dtype.name == "bool" and type(x2) is int else (first, x2)
    second = as_tensor(x2)
    if type(x1) in _PYTHON and type(x2) not in _PYTHON:
        return pyapp.full((), x1, dtype=number_dtype(x1, second.dtype), device=second.device), second
    first = as_tensor(x1)
    weak = not strict and (first.ndim == 0 or second.ndim == 0)
    return (first, second) if weak and not is_wide_unsigned(first.dtype, second.dtype) else _alike(first, second)


def operands_as_tensors(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """The operands; a number is a tensor, too."""
    first, second = operands(x1, x2)
    if type(second) in _PYTHON:
        second = pyapp.full((), second, dtype=number_dtype(second, first.dtype), device=first.device)
    return _alike(first, second)


_PYTHON = (bool, int, float)
# A number is a tensor of its own dtype here, as in Keras: of float16 and 2.5 the result is float32.
_OF_FLOATS = ("arctan2", "hypot", "logaddexp", "logaddexp2", "nextafter")
_STRICT = ("floor_divide", "fmax", "fmin", "maximum", "minimum")
_AS_THEY_ARE = ("kron", "ldexp")  # ldexp takes floats and whole numbers; neither takes numbers


def _two(name: str) -> Callable[..., Tensor]:
    def call(x1: Any, x2: Any) -> Tensor:
        if name in _OF_FLOATS:
            return getattr(pyapp, name)(*_floats(x1, x2))
        if name in _AS_THEY_ARE:
            return getattr(pyapp, name)(as_tensor(x1), as_tensor(x2))
        if name == "subtract":
            return pyapp.subtract(*_terms(x1, x2))
        return getattr(pyapp, name)(*(_whole(x1, x2) if name == "fmod" else operands(x1, x2, name in _STRICT)))

    call.__name__ = name
    return call


def _floats(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Both as floats of the dtype in which they are computed, that of `set_floatx` for whole numbers."""
    a, b = _alike(x1, x2)
    return (a, b) if a.dtype.is_floating_point else (a.to(floatx()), b.to(floatx()))


def _whole(x1: Any, x2: Any) -> tuple[Any, Any]:
    """The operands, with int32 in place of truth values where there is nothing else."""
    first, second = operands(x1, x2)
    truths = first.dtype.name == "bool" and (type(second) is bool or getattr(second, "dtype", None) is first.dtype)
    return (first.to("int32"), as_tensor(second).to("int32")) if truths else (first, second)


def _terms(x1: Any, x2: Any) -> tuple[Any, Any]:
    """The operands of a difference, in which truth values count as numbers beside numbers."""
    first, second = operands(x1, x2)
    truths = first.dtype.name == "bool" or type(second) is bool or getattr(second, "dtype", first.dtype).name == "bool"
    return operands_as_tensors(first, second) if truths else (first, second)


def _two_of_bits(name: str, own: str) -> Callable[..., Tensor]:
    def call(x: Any, y: Any) -> Tensor:
        return getattr(pyapp, own)(*operands(x, y))

    call.__name__ = name
    return call


globals().update({_name: _two(_name) for _name in _NUMBERS})
globals().update({_name: _two_of_bits(_name, _own) for _name, _own in _BITS.items()})


def isclose(x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Where |x1 - x2| is at most atol + rtol |x2|."""
    a, b = _alike(x1, x2)
    return pyapp.isclose(a, b, rtol, atol, equal_nan)


def allclose(x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether `isclose` holds everywhere."""
    return isclose(x1, x2, rtol, atol, equal_nan).all()


def _alike(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Both in the dtype in which they are computed."""
    a, b = as_tensor(x1), as_tensor(x2)
    if a.dtype is b.dtype:
        return a, b
    kind = common_dtype(a.dtype, b.dtype)
    return a.to(kind), b.to(kind)


def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Where an element of x1 is one of x2. `assume_unique` says that none occurs twice; the result is the same."""
    return pyapp.isin(as_tensor(x1), as_tensor(x2), invert=invert)


def matmul(x1: Any, x2: Any) -> Tensor:
    """The product of matrices, of batches of them and of vectors. Of int8 it is int32."""
    a, b = _alike(x1, x2)
    if a.dtype.name == "int8":
        a, b = a.to("int32"), b.to("int32")
    return pyapp.matmul(a, b)


def einsum(subscripts: str, *operands: Any, optimize: Any = None) -> Tensor:
    """Sums of products along the letters of the subscripts, such as "ij,jk->ik". Of int8 they are int32. `optimize` is
    accepted: the order is chosen."""
    tensors = [as_tensor(one) for one in operands]
    if tensors and all(one.dtype.name == "int8" for one in tensors):
        tensors = [one.to("int32") for one in tensors]
    return pyapp.einsum(subscripts, *tensors)


def inner(x1: Any, x2: Any) -> Tensor:
    """The sums of products along the last axis of both."""
    a, b = _alike(x1, x2)
    return pyapp.inner(a, b)


def vdot(x1: Any, x2: Any) -> Tensor:
    """The sum of the products of all elements."""
    a, b = _alike(x1, x2)
    return pyapp.vdot(a.reshape(-1), b.reshape(-1))


def cross(x1: Any, x2: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    """The cross product of vectors of 3 (or 2) elements, which lie along axisa of x1 and axisb of x2."""
    a, b = _alike(x1, x2)
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    a, b = a.movedim(axisa, -1), b.movedim(axisb, -1)
    sizes = (a.shape[-1], b.shape[-1])
    if not set(sizes) <= {2, 3}:
        raise ValueError(f"cross: takes vectors of 2 or 3 elements, got {sizes[0]} and {sizes[1]}")
    a, b = (pyapp.nn.functional.pad(x, (0, 3 - x.shape[-1])) for x in (a, b))
    found = pyapp.linalg.cross(*pyapp.broadcast_tensors(a, b), dim=-1)
    return found[..., 2] if sizes == (2, 2) else found.movedim(-1, axisc)


def cdist(x: Any, y: Any) -> Tensor:
    """The distances of all rows of x (…, N, D) from all rows of y (…, M, D): (…, N, M)."""
    return pyapp.cdist(as_floats(x), as_floats(y))


def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """The differences of neighbours along an axis, n times."""
    return pyapp.diff(as_tensor(a), n, axis)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The area under y along an axis, by trapezoids of the width dx or between the places x."""
    values = as_floats(y)
    if x is None:
        return pyapp.trapezoid(values, dx=dx, dim=axis)
    return pyapp.trapezoid(values, as_tensor(x), dim=axis)


def correlate(x1: Any, x2: Any, mode: str = "valid") -> Tensor:
    """The sums of products of x1 (N,) with x2 (M,) at each shift: those where they overlap wholly (valid), as many as
    the longer one has elements (same), or all (full)."""
    a, b = (as_floats(x) for x in (x1, x2))
    a, b = _alike(a, b)
    if mode not in ("valid", "same", "full"):
        raise ValueError(f"correlate: mode is valid, same or full, not {mode!r:.40}")
    if a.ndim != 1 or b.ndim != 1 or not a.numel() or not b.numel():
        raise ValueError(f"correlate: takes two vectors with elements, got {tuple(a.shape)} and {tuple(b.shape)}")
    turned = a.numel() < b.numel()
    long, short = (b, a) if turned else (a, b)
    n, m = long.numel(), short.numel()
    whole = pyapp.nn.functional.conv1d(long.reshape(1, 1, n), short.reshape(1, 1, m), None, 1, m - 1).reshape(-1)
    whole = whole.flip(0) if turned else whole
    if mode == "full":
        return whole
    start, size = (m - 1, n - m + 1) if mode == "valid" else ((m - 1) // 2 if not turned else m // 2, n)
    return whole.narrow(0, start, size)


def equal(x1: Any, x2: Any) -> Tensor:
    """Where the elements are equal."""
    return pyapp.eq(*operands(x1, x2))


def not_equal(x1: Any, x2: Any) -> Tensor:
    """Where the elements differ."""
    return pyapp.ne(*operands(x1, x2))


def power(x1: Any, x2: Any) -> Tensor:
    """x1 to the power of x2. Of short floats it is rounded once, whatever the exponent is."""
    base, exponent = operands(x1, x2)
    if base.dtype.is_floating_point and base.dtype.itemsize < 4 and not isinstance(exponent, Tensor):
        exponent = pyapp.full((), exponent, dtype=base.dtype, device=base.device)
    return pyapp.pow(base, exponent)


def mod(x1: Any, x2: Any) -> Tensor:
    """What is left of x1 / x2, with the sign of x2."""
    return pyapp.remainder(*_whole(x1, x2))


def divide_no_nan(x1: Any, x2: Any) -> Tensor:
    """x1 / x2, and 0 where x2 is 0."""
    a, b = _floats(*operands_as_tensors(x1, x2))
    return pyapp.where(b == 0, 0.0, a / pyapp.where(b == 0, 1.0, b))


def heaviside(x1: Any, x2: Any) -> Tensor:
    """0 below 0, 1 above, x2 at 0."""
    return pyapp.heaviside(*_floats(x1, x2))


def outer(x1: Any, x2: Any) -> Tensor:
    """The products of all pairs of elements."""
    return pyapp.outer(as_tensor(x1).reshape(-1), as_tensor(x2).reshape(-1))


def dot(x1: Any, x2: Any) -> Tensor:
    """The sum over the last dim of `x1` and the last but one of `x2`, or the last if it has one dim."""
    a, b = _alike(x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return pyapp.tensordot(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)]))


def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Tensor:
    """The sum over the last `axes` dims of x1 and the first ones of x2, or over dims of both that are listed."""
    a, b = _alike(x1, x2)
    if not isinstance(axes, int):  # a number for each, or several
        axes = tuple([one] if isinstance(one, int) else list(one) for one in axes)
    return pyapp.tensordot(a, b, axes)

"""Arithmetic, comparison, logic and rounding, element by element. Inputs are broadcast as in NumPy; results have the
element type of the inputs, or bool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import ForeignArray, array_of, axes_of, check_room, element_of, like, made_of, scalar, text


def by_numpy(function: Callable[..., Any], *inputs: Any) -> Any:
    """function(arrays …) in the element type of the first input, computed by NumPy."""
    if len(inputs) > 1:
        check_room(np.broadcast_shapes(*(tuple(x.shape) for x in inputs)), "the result", 8)
    with np.errstate(all="ignore"):
        return like(inputs[0], function(*(array_of(x) for x in inputs)))


def _unary(name: str, by_tensor: Callable[[Tensor], Tensor], by_array: Callable[[Any], Any] | None = None) -> None:
    """Declares an operator of one input. NumPy computes other types than floats where `by_array` is given."""

    def function(x: Any) -> Any:
        if isinstance(x, Tensor) and (by_array is None or x.dtype.category == 2):
            return by_tensor(x)
        return by_numpy(by_array or (lambda array: array_of(by_tensor(made_of(array)))), x)

    operator(name)(function)


for _name in "acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log round sin sinh sqrt tan tanh".split():
    _unary(_name.capitalize(), getattr(ops, _name))
_unary("Abs", ops.abs, lambda x: np.abs(x))
_unary("Neg", ops.neg, lambda x: -x)
_unary("Sign", ops.sign, lambda x: np.sign(x))
_unary("Reciprocal", ops.reciprocal, lambda x: 1 / x)


@operator("IsNaN")
def is_nan(x: Any) -> Tensor:
    return ops.isnan(x) if isinstance(x, Tensor) else made_of(np.isnan(x.array))


@operator("IsInf")
def is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if isinstance(x, ForeignArray):
        x = made_of(x.array.astype(np.float32))
    if detect_negative and detect_positive:
        return ops.isinf(x)
    if detect_positive:
        return ops.isposinf(x)
    return ops.isneginf(x) if detect_negative else ops.zeros_like(x).to("bool")


def _pair(by_tensor: Callable[..., Tensor], by_array: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """An operation of two inputs of one type: floats, int32 and int64 by the engine, else by NumPy."""

    def function(a: Any, b: Any) -> Any:
        _same_type(a, b)
        if isinstance(a, Tensor) and (a.dtype.category == 2 or a.dtype.name in ("int32", "int64")):
            return by_tensor(a, b)
        return by_numpy(by_array, a, b)

    return function


def _same_type(a: Any, b: Any) -> None:
    if element_of(a) != element_of(b):
        raise TypeError(f"its inputs have different element types, {element_of(a)} and {element_of(b)}")


def _quotient(a: Any, b: Any) -> Any:
    """Division, of integers towards zero."""
    if a.dtype.kind not in "iu":
        return a / b
    if not b.all():
        raise ZeroDivisionError("a whole number is divided by zero")
    magnitude = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -magnitude, magnitude) if a.dtype.kind == "i" else magnitude


def _divide(a: Tensor, b: Tensor) -> Tensor:
    return ops.div(a, b) if a.dtype.category == 2 else ops.div(a, b, rounding_mode="trunc")


def _placed(a: Any, b: Any, axis: int | None) -> Any:
    """b for an operator of opset 6 or before, whose dims stand at those of a from the axis on."""
    if axis is None or b.ndim == a.ndim:
        return b
    return b.reshape(*b.shape, *[1] * (a.ndim - axes_of([axis], a.ndim)[0] - b.ndim))


def _declare(name: str, function: Callable[..., Any]) -> None:
    """An operator that broadcasts as NumPy does from opset 7 on, before as its attributes say."""

    def before(a: Any, b: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
        return function(a, _placed(a, b, axis))

    operator(name, since=7)(function)
    operator(name)(before)


_declare("Add", _pair(ops.add, lambda a, b: a + b))
_declare("Sub", _pair(ops.sub, lambda a, b: a - b))
_declare("Mul", _pair(ops.mul, lambda a, b: a * b))
_declare("Div", _pair(_divide, _quotient))


@operator("Mod")
def mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    """The remainder with the sign of b, or with `fmod` of a."""
    _same_type(a, b)
    if a.dtype.category == 2:
        if fmod:
            return ops.fmod(a, b)
        found = ops.remainder(a, b)
        return ops.where(found == 0, ops.copysign(ops.zeros_like(found), b), found)  # a zero has b's sign, too
    if not array_of(b).all():
        raise ZeroDivisionError("the remainder of a division by zero")
    return by_numpy(np.fmod if fmod else np.mod, a, b)


def power(a: Any, b: Any) -> Any:
    """The power in the type of the base, whatever the type of the exponent."""
    if a.dtype.category == 2:
        if b.numel() == 1 and b.ndim <= a.ndim and not b.requires_grad:
            return ops.pow(a, scalar(b))
        return ops.pow(a, b.to(a.dtype))
    return by_numpy(lambda x, y: np.power(x.astype(np.float64) if y.dtype.kind == "f" or (y < 0).any() else x, y), a, b)


_declare("Pow", power)


def _logical(name: str, by_tensor: Callable[..., Tensor]) -> None:
    def function(a: Any, b: Any) -> Tensor:
        return by_tensor(a, b)

    _declare(name, function)


for _name in "and or xor".split():
    _logical(_name.capitalize(), getattr(ops, "logical_" + _name))
operator("Not")(lambda x: ops.logical_not(x))


def _bitwise(by_array: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def function(a: Any, b: Any) -> Any:
        _same_type(a, b)
        return by_numpy(by_array, a, b)

    return function


operator("BitwiseAnd")(_bitwise(lambda a, b: a & b))
operator("BitwiseOr")(_bitwise(lambda a, b: a | b))
operator("BitwiseXor")(_bitwise(lambda a, b: a ^ b))
operator("BitwiseNot")(lambda x: by_numpy(lambda a: ~a, x))


@operator("BitShift")
def bit_shift(a: Any, b: Any, *, direction: bytes) -> Any:
    """Bits moved left or right; by as many as the type has, or more: 0 (or the sign, right)."""
    left = text(direction) == "LEFT"

    def shifted(x: Any, y: Any) -> Any:
        bits = x.dtype.itemsize * 8
        far = y >= bits
        kept = np.where(far, 0, y).astype(x.dtype)
        moved = x << kept if left else x >> kept
        return np.where(far, 0 if left or x.dtype.kind == "u" else np.where(x < 0, -1, 0), moved)

    return by_numpy(shifted, a, b)


def _comparison(by_tensor: Callable[..., Tensor], by_array: Callable[..., Any]) -> Callable[[Any, Any], Tensor]:
    def function(a: Any, b: Any) -> Tensor:
        _same_type(a, b)
        if isinstance(a, Tensor) and element_of(a) not in ("uint16", "uint32", "uint64"):
            return by_tensor(a, b)
        check_room(np.broadcast_shapes(tuple(a.shape), tuple(b.shape)), "the result", 1)
        return made_of(np.asarray(by_array(array_of(a), array_of(b)), bool))

    return function


_declare("Equal", _comparison(ops.eq, lambda a, b: a == b))
_declare("Greater", _comparison(ops.gt, lambda a, b: a > b))
operator("GreaterOrEqual")(_comparison(ops.ge, lambda a, b: a >= b))
_declare("Less", _comparison(ops.lt, lambda a, b: a < b))
operator("LessOrEqual")(_comparison(ops.le, lambda a, b: a <= b))


def _several(by_tensor: Callable[..., Tensor], by_array: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of one or more inputs."""
    two = _pair(by_tensor, by_array)

    def function(first: Any, *further: Any) -> Any:
        return reduce(two, further, first)

    return function


operator("Max")(_several(ops.maximum, lambda a, b: np.maximum(a, b)))
operator("Min")(_several(ops.minimum, lambda a, b: np.minimum(a, b)))
operator("Sum")(_several(ops.add, lambda a, b: a + b))


@operator("Mean")
def mean(first: Tensor, *further: Tensor) -> Tensor:
    return reduce(ops.add, further, first) / (1 + len(further))


@operator("Clip", since=11)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """x between two numbers, either of which may be absent; the upper one wins."""
    if any(bound is not None and bound.numel() != 1 for bound in (low, high)):
        raise ValueError("the bounds are not numbers")
    if low is None and high is None:
        return x
    if x.dtype.category == 2:
        return ops.clamp(x, scalar(low), scalar(high))
    if element_of(x) in ("int32", "int64"):
        x = ops.maximum(x, low) if low is not None else x
        return ops.minimum(x, high) if high is not None else x
    bounds = [b for b in (low, high) if b is not None]

    def between(a: Any, *_: Any) -> Any:
        a = np.maximum(a, array_of(low)) if low is not None else a
        return np.minimum(a, array_of(high)) if high is not None else a

    return by_numpy(between, x, *bounds)


@operator("Clip")
def clip_by_attributes(x: Tensor, *, min: float = -3.4028234663852886e38, max: float = 3.4028234663852886e38) -> Tensor:
    return ops.clamp(x, min, max)


@operator("Where")
def where(condition: Tensor, a: Any, b: Any) -> Any:
    _same_type(a, b)
    if isinstance(a, Tensor) and element_of(a) not in ("uint16", "uint32", "uint64"):
        return ops.where(condition, a, b)
    return like(a, np.where(array_of(condition), array_of(a), array_of(b)))


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: list[int] = [0, 2, 3]) -> Tensor:  # noqa: B006 (the default of ONNX)
    """(x - mean) / (standard deviation + 1e-9) over the axes."""
    dims = tuple(axes)
    centred = x - x.mean(dims, keepdim=True)
    return centred / (centred.square().mean(dims, keepdim=True).sqrt() + 1e-9)


@operator("Det")
def det(x: Tensor) -> Tensor:
    """Determinants of (..., N, N)."""
    return ops.det(x)

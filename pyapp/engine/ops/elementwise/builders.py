"""Make elementwise primitives from NumPy functions: `unary`, `binary` and their parts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ....errors import UnsupportedTypeError
from ... import dtype as _dtype
from ...declare import function
from ...element_types import ROUNDS_NUMBERS, rounded
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import Op, primitive
from ...operands import common_dtype, refuse_complex, same_device, unbroadcast
from ...shape import broadcast_shapes
from ...tensor import Tensor
from ...user_errors import describe

NumpyFunction = Callable[..., Any]

# What takes complex numbers, too, as in torch; others refuse them.
_OF_COMPLEX = frozenset(
    "add sub mul div pow eq ne logical_and logical_or logical_xor logical_not "
    "neg sqrt rsqrt reciprocal abs exp log log1p expm1 exp2 log2 log10 isnan isinf isfinite "
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sinc sigmoid silu".split()
)


def no_slope(g: Tensor, _: Any, x: Tensor) -> tuple[Tensor]:
    """The gradient of steps: 0, even where g is NaN or infinite."""
    return (g.new_zeros(g.shape),)


def binary(
    name: str, compute: Callable[[], NumpyFunction], vjp: Any, out: str = "common", saves: str = "inputs",
    in_place: bool = False, synonyms: str = "",
) -> Op:  # fmt: skip
    """A broadcasting primitive of two operands; the second may be a number. It is a public function and a method,
    unless its name begins with an underscore.

    `out`: "common", "float" (integers become float32), "floats alone" (integers are refused) or "bool".
    """

    def body(a: Tensor, b: Any) -> Tensor:
        same_device(name, a, b)
        if not isinstance(b, (Tensor, int, float, complex)) and not hasattr(b, "__float__"):
            raise TypeError(f"{name}: cannot combine {describe(a)} with {type(b).__name__}")
        kind = common_dtype(a, b)
        if kind.is_complex and name not in _OF_COMPLEX:
            refuse_complex(name, a, b)
        if name == "sub":
            _refuse_bool("sub", "use logical_xor, or ~ to invert a mask", a, b)
        if name.startswith(("bitwise", "gcd", "lcm")) and kind.is_floating_point:
            raise UnsupportedTypeError(f"{name}: takes integers or bools, not {describe(a)} and {describe(b)}")
        if out == "floats alone" and not kind.is_floating_point:
            raise UnsupportedTypeError(f"{name}: takes floating-point tensors, not {describe(a)} and {describe(b)}")
        if out == "float" and not kind.has_gradient:
            kind = _dtype.Default.dtype
        if isinstance(b, Tensor):
            broadcast_shapes(a.shape, b.shape, op=name)
        elif kind is _dtype.bfloat16 and name in ROUNDS_NUMBERS:
            b = rounded(float(b), kind)
        left, right = array_of(a, kind), array_of(b, kind)
        if name in ("floor_divide", "remainder", "fmod") and not kind.is_floating_point and not right.all():
            raise RuntimeError(f"{name}: an integer is divided by zero ({describe(a)} by {describe(b)})")
        with np.errstate(all="ignore"):
            near = name == "nextafter" and kind is _dtype.bfloat16
            value = _next_bfloat16(left, right) if near else compute()(left, right)
        return tensor_of(value, _dtype.bool_ if out == "bool" else kind)

    body.__doc__ = f"`{name}` of two tensors (or a tensor and a number), broadcast; dtypes are promoted as in torch."
    return _declared(primitive(vjp=vjp, saves=saves, name=name)(body), in_place, synonyms)


def _next_bfloat16(start: Any, end: Any) -> Any:
    """nextafter of bfloat16 in float32 arrays: the neighbours are those of the first 16 bits."""
    start, end = np.broadcast_arrays(start, end)
    bits = np.ascontiguousarray(start).reshape(start.shape).view(np.uint32)  # of no dims it would be (1,)
    away = (end > start) == (start > 0)
    moved = (bits + np.where(away, 0x10000, -0x10000)).astype(np.uint32).view(np.float32)
    found = np.where(start == 0, np.copysign(np.uint32(0x10000).view(np.float32), end), moved)
    return np.where(start == end, end, np.where(np.isnan(start) | np.isnan(end), np.nan, found))


def _declared(made: Op, in_place: bool, synonyms: str) -> Op:
    made.module = sys._getframe(2).f_globals["__name__"]
    if made.name.startswith("_"):
        return made
    return function(method=True, in_place=in_place, synonyms=synonyms, module=made.module)(made)


def _refuse_bool(name: str, instead: str, *operands: Any) -> None:
    """TypeError for bools, which some ops do not accept as numbers, as in torch."""
    if any(isinstance(x, bool) or (isinstance(x, Tensor) and x.dtype is _dtype.bool_) for x in operands):
        raise UnsupportedTypeError(f"{name}: takes no bools ({', '.join(map(describe, operands))}); {instead}")


_NOT_OF_BOOLS = {"neg", "relu"}  # NumPy would accept them or report them less clearly


def unary(
    name: str, compute: Callable[[Any], Any], vjp: Any, out: str = "float", saves: str = "inputs",
    in_place: bool = False, synonyms: str = "",
) -> Op:  # fmt: skip
    """A primitive of one operand, a public function and a method.

    `out`: "float" (integers become float32), "same" or "bool".
    """

    def body(x: Tensor) -> Tensor:
        kind = _dtype.Default.dtype if out == "float" and not x.dtype.has_gradient else common_dtype(x)
        if kind.is_complex and name not in _OF_COMPLEX:
            refuse_complex(name, x)
        if name in _NOT_OF_BOOLS:
            _refuse_bool(name, "convert it first", x)
        with np.errstate(all="ignore"):
            value = compute(array_of(x, kind))
        return tensor_of(value, _dtype.bool_ if out == "bool" else kind.part if name == "abs" else kind)

    body.__doc__ = f"`{name}` of each element."
    return _declared(primitive(vjp=vjp, saves=saves, name=name)(body), in_place, synonyms)


def in_float64(function: Any) -> Any:
    """Computes in float64, so that float32 results are right to the last bits."""
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


def vjp_of_slopes(da: Any, db: Any) -> Any:
    """The vjp of a binary op from the two slopes, each a function of (y, a, b)."""

    def vjp(g: Tensor, y: Any, a: Any, b: Any) -> Any:
        return (
            unbroadcast(g * da(y, a, b), a) if a.requires_grad else None,
            unbroadcast(g * db(y, a, b), b) if isinstance(b, Tensor) and b.requires_grad else None,
        )

    return vjp

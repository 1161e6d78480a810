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


def no_slope(g: Tensor, _: Any, x: Tensor) -> tuple[Tensor]:
    """The gradient of steps: 0, even where g is NaN or infinite."""
    return (g.new_zeros(g._shape),)


def binary(
    name: str, compute: Callable[[], NumpyFunction], vjp: Any, out: str = "common", saves: str = "inputs",
    in_place: bool = True, synonyms: str = "", of_complex: bool = False, instead_of_bools: str = "",
    divides: bool = False, of_bfloat16: NumpyFunction | None = None,
) -> Op:  # fmt: skip
    """A broadcasting primitive of two operands; the second may be a number. It is a public function and a method,
    unless its name begins with an underscore.

    `out`: "common", "float" (integers become float32), "floats alone" (integers are refused), "inexact" (floats and
    complex numbers), "integers alone" or "bool". `of_complex`: it takes complex numbers, which others refuse.
    `instead_of_bools`: what to do instead where it refuses them. `divides`: an integer 0 as the second operand is an
    error. `of_bfloat16`: of bfloat16 in float32 arrays, where the function itself would be wrong.
    """

    def body(a: Tensor, b: Any) -> Tensor:
        same_device(name, a, b)
        if not isinstance(b, (Tensor, int, float, complex)) and not hasattr(b, "__float__"):
            raise TypeError(f"{name}: cannot combine {describe(a)} with {type(b).__name__}")
        kind = common_dtype(a, b)
        if kind.is_complex and not of_complex:
            refuse_complex(name, a, b)
        if instead_of_bools:
            _refuse_bool(name, instead_of_bools, a, b)
        if out == "integers alone" and kind.is_floating_point:
            raise UnsupportedTypeError(f"{name}: takes integers or bools, not {describe(a)} and {describe(b)}")
        if (out == "floats alone" and not kind.is_floating_point) or (out == "inexact" and not kind.has_gradient):
            raise UnsupportedTypeError(f"{name}: takes floating-point tensors, not {describe(a)} and {describe(b)}")
        if out == "float" and not kind.has_gradient:
            kind = _dtype.Default.dtype
        if isinstance(b, Tensor):
            broadcast_shapes(a._shape, b._shape, op=name)
        elif kind is _dtype.bfloat16 and name in ROUNDS_NUMBERS:
            b = rounded(float(b), kind)
        left, right = array_of(a, kind), array_of(b, kind)
        if divides and not kind.is_floating_point and not right.all():
            raise RuntimeError(f"{name}: an integer is divided by zero ({describe(a)} by {describe(b)})")
        function = of_bfloat16 if of_bfloat16 is not None and kind is _dtype.bfloat16 else compute()
        with np.errstate(all="ignore"):
            value = function(left, right)
        return tensor_of(value, _dtype.bool_ if out == "bool" else kind)

    body.__doc__ = f"`{name}` of two tensors (or a tensor and a number), broadcast; dtypes are promoted as in torch."
    return _declared(primitive(vjp=vjp, saves=saves, name=name)(body), in_place, synonyms)


def _declared(made: Op, in_place: bool, synonyms: str) -> Op:
    made.module = sys._getframe(2).f_globals["__name__"]
    if made.name.startswith("_"):
        return made
    return function(method=True, in_place=in_place, synonyms=synonyms, module=made.module)(made)


def _refuse_bool(name: str, instead: str, *operands: Any) -> None:
    """TypeError for bools, which some ops do not accept as numbers, as in torch."""
    if any(isinstance(x, bool) or (isinstance(x, Tensor) and x.dtype is _dtype.bool_) for x in operands):
        raise UnsupportedTypeError(f"{name}: takes no bools ({', '.join(map(describe, operands))}); {instead}")


def unary(
    name: str, compute: Callable[[Any], Any], vjp: Any, out: str = "float", saves: str = "inputs",
    in_place: bool = True, synonyms: str = "", of_complex: bool = False, instead_of_bools: str = "",
) -> Op:  # fmt: skip
    """A primitive of one operand, a public function and a method, as `binary`.

    `out`: "float" (integers become float32), "same" or "bool".
    """

    def body(x: Tensor) -> Tensor:
        kind = _dtype.Default.dtype if out == "float" and not x.dtype.has_gradient else common_dtype(x)
        if kind.is_complex and not of_complex:
            refuse_complex(name, x)
        if instead_of_bools:
            _refuse_bool(name, instead_of_bools, x)
        with np.errstate(all="ignore"):
            value = compute(array_of(x, kind))
        return tensor_of(value, _dtype.bool_ if out == "bool" else kind.part if name == "abs" else kind)

    body.__doc__ = f"`{name}` of each element."
    return _declared(primitive(vjp=vjp, saves=saves, name=name)(body), in_place, synonyms)


_BLOCK = 1 << 13  # elements of which a few intermediate arrays of float64 lie in a processor's cache


def in_blocks(function: Any, x: Any) -> Any:
    """`function` of an array in float64, which is computed in blocks of elements; in the array's own dtype."""
    if x.size <= _BLOCK:
        return function(x.astype(np.float64)).astype(x.dtype)
    flat = x.reshape(-1)
    found = np.empty_like(flat)
    for first in range(0, flat.size, _BLOCK):
        found[first : first + _BLOCK] = function(flat[first : first + _BLOCK].astype(np.float64))
    return found.reshape(x.shape)


def in_float64(function: Any) -> Any:
    """Computes in float64, so that float32 results are right to the last bits."""
    return lambda x: in_blocks(function, x)


def vjp_of_slopes(da: Any, db: Any) -> Any:
    """The vjp of a binary op from the two slopes, each a function of (y, a, b)."""

    def vjp(g: Tensor, y: Any, a: Any, b: Any) -> Any:
        return (
            unbroadcast(g * da(y, a, b), a) if a.requires_grad else None,
            unbroadcast(g * db(y, a, b), b) if isinstance(b, Tensor) and b.requires_grad else None,
        )

    return vjp

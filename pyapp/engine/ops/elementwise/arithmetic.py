"""Elementwise arithmetic: sums, products, quotients, powers, signs."""

from __future__ import annotations

import functools
from math import inf
from typing import Any

from ... import dtype as _dtype
from ...declare import function
from ...dtype import DType
from ...lazy import np
from ...numpy_arrays import tensor_of
from ...op import Op, op, read_crosswise
from ...operands import as_tensor, common_dtype, is_half, tensor_of_number, unbroadcast
from ...tensor import Tensor
from ...user_errors import describe
from ..dtype_limits import finfo
from ..element_updates import element_function, element_update
from .builders import binary, no_slope, unary, vjp_of_slopes
from .limits import limited
from .rounding import trunc
from .select import where


def _d_mul(g: Tensor, _: Any, a: Any, b: Any) -> Any:
    return (
        unbroadcast(g * b, a) if a._requires_grad else None,
        unbroadcast(g * a, b) if isinstance(b, Tensor) and b._requires_grad else None,
    )


_d_divisor = element_function(lambda g, a, b: (g * -1.0) * a / (b * b), 3)


def _d_div(g: Tensor, _: Any, a: Any, b: Any) -> Any:
    if isinstance(b, Tensor) and a._shape == b._shape == g._shape and a.dtype is b.dtype is g.dtype in _IN_PROGRAMS:
        return g / b if a._requires_grad else None, _d_divisor(g, a, b) if b._requires_grad else None
    return (
        unbroadcast(g / b, a) if a._requires_grad else None,
        unbroadcast(-g * a / (b * b), b) if isinstance(b, Tensor) and b._requires_grad else None,
    )


_d_square = element_function(lambda g, a: g * (a + a), 2)


def _d_pow(g: Tensor, _: Any, a: Tensor, b: Any) -> Any:
    grad_a = None
    if isinstance(b, (int, float)) and b == 2 and a.dtype in _IN_PROGRAMS and g.dtype is a.dtype:
        return _d_square(g, a), None
    if a._requires_grad:  # the slope of x ** 0 is 0, also for x = 0
        slope = a if isinstance(b, (int, float)) and b == 2 else a ** (b - 1)
        part = g * b * slope
        never = b == 0
        grad_a = unbroadcast(where(never, 0.0, part) if isinstance(never, Tensor) else g * 0 if never else part, a)
    if isinstance(b, Tensor) and b._requires_grad:
        rises = (b.real if b.dtype.is_complex else b) >= 0  # below, 0 ** b is infinite and falls
        flat = (a == 0).logical_and(rises)
        return grad_a, unbroadcast(g * where(flat, 0.0, a**b * where(flat, 1.0, a).log()), b)
    return grad_a, None


def _power(a: Any, b: Any) -> Any:
    """Integers to negative powers of a tensor, as torch: 1 and -1 give ±1, other numbers 0."""
    if b.ndim == 0 or b.dtype.kind != "i" or not (b < 0).any():
        return np.power(a, b)
    ones = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b % 2), 0))
    return np.where(b < 0, ones, np.power(a, np.maximum(b, 0))).astype(a.dtype)


add = binary(
    "add", lambda: np.add, lambda g, _, a, b: (unbroadcast(g, a), unbroadcast(g, b)), saves="none", of_complex=True
)
sub = binary(
    "sub",
    lambda: np.subtract,
    lambda g, _, a, b: (
        unbroadcast(g, a),
        unbroadcast(-g, b) if isinstance(b, Tensor) and b._requires_grad else None,
    ),
    saves="none",
    synonyms="subtract",
    of_complex=True,
    instead_of_bools="use logical_xor, or ~ to invert a mask",
)
mul = binary("mul", lambda: np.multiply, _d_mul, synonyms="multiply", of_complex=True)
mul.reads = read_crosswise
div = binary("div", lambda: np.divide, _d_div, out="float", synonyms="divide true_divide", of_complex=True)
div.reads = lambda edges: (1,) if edges[1] is None else (0, 1)
pow = binary("pow", lambda: _power, _d_pow, of_complex=True)


def _flat(g: Tensor, given: Any) -> Tensor | None:
    """The gradient of an argument in which the result does not move: 0, also where g is NaN."""
    return given.new_zeros(given._shape) if isinstance(given, Tensor) else None


def _read_for_divisor(edges: tuple[Any, ...]) -> tuple[int, ...]:
    """As read_crosswise, of a rest: the dividend's gradient is the result's."""
    return () if edges[1] is None else (0, 1)


floor_divide = binary(
    "floor_divide",
    lambda: np.floor_divide,
    lambda g, _, a, b: (_flat(g, a), _flat(g, b)),
    saves="none",
    divides=True,
)
remainder = binary(
    "remainder",
    lambda: np.remainder,
    lambda g, _, a, b: (unbroadcast(g, a), unbroadcast(-g * floor_divide(a, b), b)),
    divides=True,
)
remainder.reads = _read_for_divisor
neg = unary(
    "neg",
    lambda x: -x,
    lambda g, _, x: (-g,),
    out="same",
    saves="none",
    synonyms="negative",
    of_complex=True,
    instead_of_bools="convert it first",
)
sqrt = unary("sqrt", lambda x: np.sqrt(x), lambda g, y, x: (g / (y * 2),), saves="output", of_complex=True)
rsqrt = unary(
    "rsqrt", lambda x: 1 / np.sqrt(x), lambda g, y, x: (g * -0.5 * y * y * y,), saves="output", of_complex=True
)
reciprocal = unary("reciprocal", lambda x: 1 / x, lambda g, y, x: (-g * y * y,), saves="output", of_complex=True)
_d_abs_of_reals = element_function(lambda g, x: g * x.sign(), 2)


def _d_abs(g: Tensor, _: Any, x: Tensor) -> tuple[Tensor]:
    return (g * x.sgn() if x.dtype.is_complex else _d_abs_of_reals(g, x),)


abs = unary("abs", lambda x: np.abs(x), _d_abs, out="same", synonyms="absolute", of_complex=True)
# 0 for NaN, as in torch.
sign = unary("sign", lambda x: np.nan_to_num(np.sign(x)) if x.dtype != bool else x, no_slope, out="same", saves="none")


def _scaled(operation: Op) -> Any:
    def call(a: Any, b: Any, alpha: float = 1) -> Tensor:
        together = isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype is b.dtype
        if together and a.dtype is _dtype.float32:
            if alpha == 1 and alpha is not True:
                return operation(a, b)
            if a._shape != b._shape or type(alpha) not in (int, float):
                _check_alpha(operation, a, b, alpha)
                return operation(a, b * alpha)
            return _plus_scaled(a, b, alpha if operation is add else -alpha)
        if isinstance(alpha, float) and not common_dtype(a, b).has_gradient:
            raise TypeError(
                f"{operation.name}: alpha {alpha} must be an integer, as {describe(a)} and {describe(b)} are"
            )
        _check_alpha(operation, a, b, alpha)
        if type(alpha) is int and common_dtype(a, b) is _dtype.bool_:
            alpha = alpha != 0
        if alpha == 1:
            return operation(a, b)
        if not _is_half(a) and not _is_half(b):
            return operation(a, b * alpha)
        kind = common_dtype(a, b)
        if kind in _HALVES:  # torch rounds numbers to the type
            a, b, alpha = (_rounded_number(x, kind) if type(x) in (int, float) else x for x in (a, b, alpha))
            if together:
                return _plus_scaled(a, b, alpha if operation is add else -alpha)
        return _in_float32(lambda a, b: operation(a, b * alpha), a, b)

    return call


def _check_alpha(operation: Op, a: Any, b: Any, alpha: Any) -> None:
    """RuntimeError for an alpha True or False where the result is not boolean, and for a complex one where it is not
    complex, as in torch."""
    if isinstance(alpha, bool) and common_dtype(a, b) is not _dtype.bool_:
        raise RuntimeError(
            f"{operation.name}: a boolean alpha is for boolean results, not for {describe(a)} and {describe(b)}; "
            f"give alpha={int(alpha)}"
        )
    if isinstance(alpha, complex) and not common_dtype(a, b).is_complex:
        raise RuntimeError(
            f"{operation.name}: a complex alpha is for complex results, not for {describe(a)} and {describe(b)}"
        )


_HALVES = (_dtype.bfloat16, _dtype.float16)
_IN_PROGRAMS = (_dtype.float32, *_HALVES)  # what element_function takes


def _is_half(x: Any) -> bool:
    return isinstance(x, Tensor) and is_half(x)


@functools.lru_cache(256)
def _rounded_number(x: float, kind: DType) -> float:
    found: float = tensor_of(np.asarray(x, np.float64)).to(kind).item()
    return found


def _plus_share(a: Any, b: Any, share: Any) -> Any:
    return a + b * share


_plus_scaled = element_function(_plus_share, 2, 1)
_add_scaled = element_update(_plus_share, 2, 1)


def _add_scaled_in_place(x: Tensor, other: Any, *, alpha: Any) -> bool:
    return not isinstance(alpha, bool) and _add_scaled(x, other, alpha)


def _sub_scaled_in_place(x: Tensor, other: Any, *, alpha: Any) -> bool:
    return type(alpha) in (float, int) and _add_scaled(x, other, -alpha)


def _in_float32(compute: Any, *given: Any) -> Tensor:
    """A function of tensors (or numbers): in float32 and rounded once where one is of a half type, as in torch."""
    if not any(map(_is_half, given)):
        return compute(*given)
    kind = common_dtype(*given)
    wide = _dtype.float32 if kind in _HALVES else kind
    return compute(*(x.to(kind).to(wide) if isinstance(x, Tensor) else x for x in given)).to(kind)


def _rounded(a: Tensor, b: Any, rounding_mode: str | None = None) -> Tensor:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = tensor_of_number(a)
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode not in (None, "trunc"):
        raise ValueError(f"div: rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
    if rounding_mode == "trunc" and not isinstance(b, Tensor) and is_half(a):  # rounded once, at the end
        return div(a.to(_dtype.float32), b).trunc().to(a.dtype)
    quotient = div(a, b)
    return quotient if rounding_mode is None else quotient.trunc().to(common_dtype(a, b))


for _operation in (add, sub, mul, div, floor_divide):
    _operation.of_numbers = True
add.by_name, sub.by_name, div.by_name = _scaled(add), _scaled(sub), _rounded
add.by_name_in_place, sub.by_name_in_place = _add_scaled_in_place, _sub_scaled_in_place
pow.by_name = lambda x, exponent: pow(x, exponent)
signbit = unary("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0, None, out="bool", in_place=False)
fmod = binary("fmod", lambda: np.fmod, vjp_of_slopes(lambda y, a, b: 1, lambda y, a, b: -trunc(a / b)), divides=True)
fmod.reads = _read_for_divisor


def _finite_values(x: Any, low: Any, high: Any, number: Any) -> Any:
    """x between two numbers, and another one for NaN."""
    y = limited(x, low, high)
    return y.where(y > -inf, number)


_finite = element_function(_finite_values, 1, 3)


@function(method=True, in_place=True)
@op(vjp=lambda g, _, x, *rest: (where(x.isfinite(), g, 0.0),))
def nan_to_num(x: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN becomes `nan` (None: 0); infinities become the dtype's largest and smallest numbers unless given. Of complex
    numbers each part by itself.
    """
    if x.dtype.is_complex:
        found = x.clone()
        for part in (found.real, found.imag):
            part.copy_(nan_to_num(part, nan, posinf, neginf))
        return found
    if not x.dtype.is_floating_point:
        return x.clone()
    largest, number = finfo(x.dtype).max, 0.0 if nan is None else nan
    if posinf is None and neginf is None and isinstance(number, (int, float)):
        return _finite(x, -largest, largest, number)
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    return where(x.isnan(), number, where(x == inf, high, where(x == -inf, low, x)))


@function(method=True)
def positive(x: Tensor) -> Tensor:
    """x itself. TypeError for bool."""
    if x.dtype is _dtype.bool_:
        raise TypeError(f"positive: takes numbers, not {describe(x)}")
    return x


def _d_copysign(g: Tensor, y: Tensor, a: Any, b: Any) -> Any:
    turned = where(y == a, 1.0, -1.0) * where(a == 0, 0.0, 1.0)
    return unbroadcast(g * turned, a), _flat(g, b)


def _next_bfloat16(start: Any, end: Any) -> Any:
    """nextafter of bfloat16 in float32 arrays: the neighbours are those of the first 16 bits."""
    start, end = np.broadcast_arrays(start, end)
    bits = np.ascontiguousarray(start).reshape(start.shape).view(np.uint32)  # of no dims it would be (1,)
    away = (end > start) == (start > 0)
    moved = (bits + np.where(away, 0x10000, -0x10000)).astype(np.uint32).view(np.float32)
    found = np.where(start == 0, np.copysign(np.uint32(0x10000).view(np.float32), end), moved)
    return np.where(start == end, end, np.where(np.isnan(start) | np.isnan(end), np.nan, found))


copysign = binary("copysign", lambda: np.copysign, _d_copysign, out="float", saves="both")
copysign.flat = True
copysign.reads = lambda edges: (0,)
nextafter = binary("nextafter", lambda: np.nextafter, None, out="float", of_bfloat16=_next_bfloat16)
gcd = binary("gcd", lambda: np.gcd, None, out="integers alone")
lcm = binary("lcm", lambda: np.lcm, None, out="integers alone")


@function(method=True, in_place=True)
def float_power(x: Tensor, exponent: Any) -> Tensor:
    """x ** exponent in float64, or in complex128."""
    kind = "complex128" if common_dtype(x, exponent).is_complex else "float64"
    return pow(as_tensor(x, exponent).to(kind), exponent.to(kind) if isinstance(exponent, Tensor) else exponent)


def _alias(name: str, of: Any) -> Any:
    def function(*args: Any, **kwargs: Any) -> Tensor:
        return of(*args, **kwargs)

    function.__name__ = name
    function.__doc__ = f"The same as {of.__name__}."
    return function


@function(method=True, in_place=True)
@op(vjp=lambda g, _, x: (g * (x * 2),))
def square(x: Tensor) -> Tensor:
    """x²; of bools in int64."""
    return x * x if x.dtype is not _dtype.bool_ else x.to("int64")


@function()
def rsub(x: Tensor, other: Any, alpha: float = 1) -> Tensor:
    """other - alpha x."""
    return _scaled(sub)(as_tensor(other, x), x, alpha)

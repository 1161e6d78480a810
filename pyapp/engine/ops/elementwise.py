"""Elementwise primitives: arithmetic, comparisons, functions, selection, conversion. NumPy bodies; gradients beside
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import UnsupportedTypeError
from .. import dtype as _dtype
from ..autograd import STATE
from ..device import cpu
from ..dtype import as_dtype
from ..lazy import np
from ..mistakes import MISTAKES, names_itself, tell
from ..op import Op, describe, op, primitive, read_crosswise
from ..shape import broadcast_shapes
from ..tensor import Tensor, check_device
from .base import array_of, as_tensor, common_dtype, computed, same_device, tensor_of, unbroadcast

NumpyFunction = Callable[..., Any]


def _binary(
    name: str, function: Callable[[], NumpyFunction], vjp: Any, out: str = "common", saves: str = "inputs"
) -> Op:
    """A broadcasting primitive of two operands, of which the second may be a number.

    `out`: "common", "float" or "bool".
    """

    def body(a: Tensor, b: Any) -> Tensor:
        computed(name)
        same_device(name, a, b)
        if not isinstance(b, (Tensor, int, float)) and not hasattr(b, "__float__"):
            raise TypeError(f"{name}: cannot combine {describe(a)} with {type(b).__name__}")
        kind = common_dtype(a, b)
        if name == "sub":
            _refuse_bool("sub", "use logical_xor, or ~ to invert a mask", a, b)
        if name.startswith("bitwise") and kind.is_floating_point:
            raise UnsupportedTypeError(f"{name}: takes integers or bools, not {describe(a)} and {describe(b)}")
        if out == "float" and not kind.is_floating_point:
            kind = _dtype.Default.dtype
        if isinstance(b, Tensor):
            broadcast_shapes(a.shape, b.shape, op=name)
        left, right = array_of(a, kind), array_of(b, kind)
        if name in ("floor_divide", "remainder", "fmod") and not kind.is_floating_point and not right.all():
            raise RuntimeError(f"{name}: an integer is divided by zero ({describe(a)} by {describe(b)})")
        with np.errstate(all="ignore"):
            value = function()(left, right)
        return tensor_of(value, _dtype.bool_ if out == "bool" else kind)

    body.__doc__ = f"`{name}` of two tensors (or a tensor and a number), broadcast; dtypes are promoted as in torch."
    return primitive(vjp=vjp, saves=saves, name=name)(body)


def _refuse_bool(name: str, instead: str, *operands: Any) -> None:
    """As torch: bools are not numbers for every op."""
    if any(isinstance(x, bool) or (isinstance(x, Tensor) and x.dtype is _dtype.bool_) for x in operands):
        raise UnsupportedTypeError(f"{name}: takes no bools ({', '.join(map(describe, operands))}); {instead}")


def _d_mul(g: Tensor, _: Any, a: Any, b: Any) -> Any:
    return (
        unbroadcast(g * b, a) if a.requires_grad else None,
        unbroadcast(g * a, b) if isinstance(b, Tensor) and b.requires_grad else None,
    )


def _d_div(g: Tensor, _: Any, a: Any, b: Any) -> Any:
    return (
        unbroadcast(g / b, a) if a.requires_grad else None,
        unbroadcast(-g * a / (b * b), b) if isinstance(b, Tensor) and b.requires_grad else None,
    )


def _d_pow(g: Tensor, y: Tensor, a: Tensor, b: Any) -> Any:
    grad_a = None
    if a.requires_grad:  # of x ** 0 it is 0, also where x is
        part = g * b * a ** (b - 1)
        never = b == 0
        grad_a = unbroadcast(where(never, 0.0, part) if isinstance(never, Tensor) else g * 0 if never else part, a)
    if isinstance(b, Tensor) and b.requires_grad:
        return grad_a, unbroadcast(g * y * where(a == 0, 0.0, a.log()), b)
    return grad_a, None


def _power(a: Any, b: Any) -> Any:
    """As torch, integers to negative powers of a tensor: 1 and -1 keep their size, others vanish."""
    if b.ndim == 0 or b.dtype.kind != "i" or not (b < 0).any():
        return np.power(a, b)
    ones = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b % 2), 0))
    return np.where(b < 0, ones, np.power(a, np.maximum(b, 0))).astype(a.dtype)


def _d_pick(chosen: Op) -> Any:
    """max/min of two: the gradient goes to the chosen one, half to each of equals."""

    def vjp(g: Tensor, _: Any, a: Tensor, b: Any) -> Any:
        b = as_tensor(b, a)
        share = chosen(a, b).to(g.dtype) + 0.5 * (a == b).to(g.dtype)
        return unbroadcast(g * share, a), unbroadcast(g * (1 - share), b)

    return vjp


add = _binary("add", lambda: np.add, lambda g, _, a, b: (unbroadcast(g, a), unbroadcast(g, b)), saves="none")
sub = _binary(
    "sub",
    lambda: np.subtract,
    lambda g, _, a, b: (unbroadcast(g, a), unbroadcast(-g, b) if isinstance(b, Tensor) else None),
    saves="none",
)
mul = _binary("mul", lambda: np.multiply, _d_mul)
mul.reads = read_crosswise
div = _binary("div", lambda: np.divide, _d_div, out="float")
div.reads = lambda edges: (1,) if edges[1] is None else (0, 1)
pow = _binary("pow", lambda: _power, _d_pow, saves="both")
floor_divide = _binary(
    "floor_divide",
    lambda: np.floor_divide,
    lambda g, _, a, b: (unbroadcast(g * 0, a), unbroadcast(g * 0, b)),
    saves="none",
)
remainder = _binary(
    "remainder", lambda: np.remainder, lambda g, _, a, b: (unbroadcast(g, a), unbroadcast(-g * floor_divide(a, b), b))
)
eq = _binary("eq", lambda: np.equal, None, out="bool")
ne = _binary("ne", lambda: np.not_equal, None, out="bool")
lt = _binary("lt", lambda: np.less, None, out="bool")
le = _binary("le", lambda: np.less_equal, None, out="bool")
gt = _binary("gt", lambda: np.greater, None, out="bool")
ge = _binary("ge", lambda: np.greater_equal, None, out="bool")
maximum = _binary("maximum", lambda: np.maximum, _d_pick(gt))
minimum = _binary("minimum", lambda: np.minimum, _d_pick(lt))
bitwise_and = _binary("bitwise_and", lambda: np.bitwise_and, None)
bitwise_or = _binary("bitwise_or", lambda: np.bitwise_or, None)
bitwise_xor = _binary("bitwise_xor", lambda: np.bitwise_xor, None)
logical_and = _binary("logical_and", lambda: np.logical_and, None, out="bool")
logical_or = _binary("logical_or", lambda: np.logical_or, None, out="bool")


_NOT_OF_BOOLS = {"neg", "relu"}  # where NumPy would take them or say it worse


def _unary(name: str, function: Callable[[Any], Any], vjp: Any, out: str = "float", saves: str = "inputs") -> Op:
    """A primitive of one operand. `out`: "float" (integers become float32), "same" or "bool"."""

    def body(x: Tensor) -> Tensor:
        computed(name)
        kind = _dtype.Default.dtype if out == "float" and not x.dtype.is_floating_point else common_dtype(x)
        if name in _NOT_OF_BOOLS:
            _refuse_bool(name, "convert it first", x)
        with np.errstate(all="ignore"):
            value = function(array_of(x, kind))
        return tensor_of(value, _dtype.bool_ if out == "bool" else kind)

    body.__doc__ = f"`{name}` of each element."
    return primitive(vjp=vjp, saves=saves, name=name)(body)


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


neg = _unary("neg", lambda x: -x, lambda g, _, x: (-g,), out="same", saves="none")
exp = _unary("exp", lambda x: np.exp(x), lambda g, y, x: (g * y,), saves="output")
log = _unary("log", lambda x: np.log(x), lambda g, _, x: (g / x,))
log1p = _unary("log1p", lambda x: np.log1p(x), lambda g, _, x: (g / (x + 1),))
sqrt = _unary("sqrt", lambda x: np.sqrt(x), lambda g, y, x: (g / (y * 2),), saves="output")
rsqrt = _unary("rsqrt", lambda x: 1 / np.sqrt(x), lambda g, y, x: (g * -0.5 * y * y * y,), saves="output")
reciprocal = _unary("reciprocal", lambda x: 1 / x, lambda g, y, x: (-g * y * y,), saves="output")
abs = _unary("abs", lambda x: np.abs(x), lambda g, _, x: (g * x.sign(),), out="same")
sign = _unary(
    "sign",
    lambda x: np.nan_to_num(np.sign(x)) if x.dtype != bool else x,  # of NaN 0, as in torch
    lambda g, _, x: (g * 0,),
    out="same",
    saves="none",
)
sin = _unary("sin", lambda x: np.sin(x), lambda g, _, x: (g * x.cos(),))
cos = _unary("cos", lambda x: np.cos(x), lambda g, _, x: (-g * x.sin(),))
tanh = _unary("tanh", lambda x: np.tanh(x), lambda g, y, x: (g * (1 - y * y),), saves="output")
sigmoid = _unary("sigmoid", _sigmoid, lambda g, y, x: (g * y * (1 - y),), saves="output")
floor = _unary("floor", lambda x: np.floor(x), lambda g, _, x: (g * 0,), out="same", saves="none")
ceil = _unary("ceil", lambda x: np.ceil(x), lambda g, _, x: (g * 0,), out="same", saves="none")
round = _unary("round", lambda x: np.round(x), lambda g, _, x: (g * 0,), out="same", saves="none")
relu = _unary(
    "relu", lambda x: np.maximum(x, 0), lambda g, y, x: (g * (y > 0).to(g.dtype),), out="same", saves="output"
)


def _round_by_name(x: Tensor, decimals: int = 0) -> Tensor:
    scale = 10.0**decimals
    return round(x) if not decimals else round(x * scale) / scale


round.by_name = _round_by_name
isnan = _unary("isnan", lambda x: np.isnan(x), None, out="bool")
isinf = _unary("isinf", lambda x: np.isinf(x), None, out="bool")
isfinite = _unary("isfinite", lambda x: np.isfinite(x), None, out="bool")
logical_not = _unary("logical_not", lambda x: np.logical_not(x), None, out="bool")


def _scaled(operation: Op) -> Any:
    def call(a: Any, b: Any, alpha: float = 1) -> Tensor:
        if isinstance(alpha, float) and not common_dtype(a, b).is_floating_point:
            raise TypeError(f"{operation.name}: alpha {alpha} is no integer, {describe(a)} and {describe(b)} are")
        return operation(a, b if alpha == 1 else b * alpha)

    return call


def _rounded(a: Tensor, b: Any, rounding_mode: str | None = None) -> Tensor:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):  # two numbers, which torch divides, too
        a = tensor_of(np.asarray(a))
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode not in (None, "trunc"):
        raise ValueError(f"div: rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
    quotient = div(a, b)
    return quotient if rounding_mode is None else quotient.trunc().to(common_dtype(a, b))


add.by_name, sub.by_name, div.by_name = _scaled(add), _scaled(sub), _rounded
pow.by_name = lambda x, exponent: pow(x, exponent)


@primitive()
def bitwise_not(x: Tensor) -> Tensor:
    """Flips the bits of integers, or bools."""
    computed("bitwise_not")
    if x.dtype.is_floating_point:
        raise UnsupportedTypeError(f"bitwise_not: takes integers or bool, not {describe(x)}")
    return tensor_of(~array_of(x), x.dtype)


@op(vjp=lambda g, _, x: (g * (s := x.sigmoid()) * (1 + x * (1 - s)),), method=True)
def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x) (Hendrycks & Gimpel 2016, arXiv 1606.08415)."""
    return x * x.sigmoid()


@op()
def silu_mul(x: Tensor) -> Tensor:
    """silu(gate) * up for x (..., 2F) = [gate, up]: the gate of SwiGLU (Shazeer 2020, arXiv 2002.05202). Returns (...,
    F).
    """
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"silu_mul: the last dim of {describe(x)} is odd; it holds [gate, up]")
    return silu(x[..., : width // 2]) * x[..., width // 2 :]


@primitive(vjp=lambda g, _, x, dtype, *rest: (g.to(x.dtype),), saves="none", method=False)
def cast(x: Tensor, dtype: Any, device: Any = None) -> Tensor:
    """Another dtype: floats to integers truncate; to bfloat16 and float16 rounds to nearest even."""
    computed("cast")
    return tensor_of(array_of(x), dtype)


@primitive(vjp=lambda g, _, x: (g,), saves="none")
def clone(x: Tensor) -> Tensor:
    """A dense copy."""
    computed("clone")
    return _copy_bits(x) if x.dtype.is_bits else tensor_of(x.array().copy(order="C"), x.dtype)


clone.by_name = lambda x, memory_format=None: clone(x)


def _copy_bits(x: Tensor) -> Tensor:
    from ..tensor import adopt_array

    return adopt_array(x.array().copy(order="C"), x.dtype)


@primitive(
    vjp=lambda g, _, c, a, b: (None, *(unbroadcast(where(c, g, 0.0), a), unbroadcast(where(c, 0.0, g), b))),
    method=False,
)
def _where(condition: Tensor, a: Any, b: Any) -> Tensor:
    computed("where")
    kind = common_dtype(a, b)
    return tensor_of(np.where(array_of(condition).astype(bool), array_of(a, kind), array_of(b, kind)), kind)


_where.reads = lambda _: (0,)


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds, else `other`; broadcast. Of a condition alone: where it holds, by dim."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if isinstance(condition, Tensor) and condition.dtype is not _dtype.bool_ and condition.dtype is not _dtype.uint8:
        raise TypeError(f"where: the condition is a tensor of bools, not {describe(condition)}")
    same_device("where", condition, input, other)
    broadcast_shapes(*(t.shape for t in (condition, input, other) if isinstance(t, Tensor)), op="where")
    return _where(condition, input, other)


def _d_clamp(g: Tensor, _: Any, x: Tensor, low: Any, high: Any) -> Any:
    """To x inside and on the limits, else to the limit that holds it."""
    below: Any = None if low is None else lt(x, low)
    above: Any = None if high is None else gt(x, high)
    beyond = [side for side in (below, above) if side is not None]
    outside = beyond[0] if len(beyond) == 1 else logical_or(*beyond)
    g_low = g_high = None
    if isinstance(low, Tensor) and low.requires_grad:
        holds = below if high is None else logical_and(below, lt(low, high))
        g_low = unbroadcast(where(holds, g, 0.0), low)
    if isinstance(high, Tensor) and high.requires_grad:
        holds = above if low is None else logical_or(above, gt(as_tensor(low, high), high))
        g_high = unbroadcast(where(holds, g, 0.0), high)
    return unbroadcast(where(outside, 0.0, g), x), g_low, g_high


@primitive(vjp=_d_clamp, name="_clamp", method=False)
def _clamp(x: Tensor, low: Any, high: Any) -> Tensor:
    computed("clamp")
    limits = [v for v in (low, high) if v is not None]
    same_device("clamp", x, *limits)
    kind = common_dtype(x, *limits)
    broadcast_shapes(x.shape, *(v.shape for v in limits if isinstance(v, Tensor)), op="clamp")
    value = array_of(x, kind)
    if low is not None:
        value = np.maximum(value, array_of(low, kind))
    return tensor_of(value if high is None else np.minimum(value, array_of(high, kind)), kind)


def clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Limits each element to min .. max, each a number or a tensor; where min > max, to max."""
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both")
    if common_dtype(x, *(v for v in (min, max) if v is not None)) is _dtype.bool_:
        raise UnsupportedTypeError(f"clamp: takes numbers, not {describe(x)}")
    return _clamp(x, min, max)


def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask holds, else x; in x's dtype. TypeError for a mask that is not of bools."""
    if not isinstance(mask, Tensor) or mask.dtype is not _dtype.bool_:
        raise TypeError(f"masked_fill: the mask is a tensor of bools, not {describe(mask)}")
    found = where(mask, value, x)
    return found if found.dtype is x.dtype else found.to(x.dtype)


@names_itself
def to(
    x: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Another dtype and/or device: `x.to("float16")`, `x.to("cuda")`, `x.to(other)`; x itself when nothing changes.
    The order in memory (`memory_format`) stays.
    """
    try:
        flags = [value for value in args if isinstance(value, bool)]  # non_blocking, which means nothing here, and copy
        copy = flags[1] if len(flags) > 1 else copy
        for value in args:
            if isinstance(value, Tensor):
                dtype, device = value.dtype, value.device
            elif isinstance(value, bool):
                continue
            elif isinstance(value, str) and (value.split(":")[0] in ("cpu", "cuda", "webgpu")):
                device = value
            elif type(value).__name__ == "Device":
                device = value
            else:
                dtype = value
        target = x.dtype if dtype is None else as_dtype(dtype)
        place = x.device if device is None else check_device(device)
        if place != x.device:
            raise NotImplementedError(f"to: no copy between {x.device} and {place} in this build")
        if target is x.dtype:
            return x.clone() if copy else x
        return cast(x, target)
    except MISTAKES as error:
        tell(error, "to", (x, *args), {"dtype": dtype, "device": device})
        raise


@names_itself
def contiguous(x: Tensor, memory_format: Any = None) -> Tensor:
    """x itself when dense, else a dense copy, row by row in any case."""
    try:
        return x if x.is_contiguous() else x.clone()
    except MISTAKES as error:
        tell(error, "contiguous", (x,), {})
        raise


def _reflected(operation: Op) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        if isinstance(other, (Tensor, int, float)) or hasattr(other, "__float__"):
            return operation(as_tensor(other, self), self)
        return NotImplemented

    return names_itself(method)


def _accepting(operation: Op) -> Any:
    """The operator: leaves what is neither tensor nor number to the other operand."""

    def method(self: Tensor, other: Any) -> Any:
        if not STATE.enabled and operation.fast is not None and self.device is cpu:  # as Op.__call__, without its frame
            try:
                result = operation.fast(self, other)
                if result is not NotImplemented:
                    return result
            except MISTAKES as error:
                tell(error, operation.name, (self, other), {})
                raise
        if isinstance(other, (Tensor, int, float)) or hasattr(other, "__float__"):
            return operation(self, other)
        return NotImplemented

    return names_itself(method)


_OPERATORS = {
    "add": add, "sub": sub, "mul": mul, "truediv": div, "pow": pow, "floordiv": floor_divide, "mod": remainder,
    "eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge,
    "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor,
}  # fmt: skip
for _name, _op in _OPERATORS.items():
    setattr(Tensor, f"__{_name}__", _accepting(_op))
    if _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "and", "or", "xor"):
        setattr(Tensor, f"__r{_name}__", _reflected(_op))
Tensor.__neg__ = lambda self: neg(self)  # type: ignore[method-assign]
Tensor.__abs__ = lambda self: abs(self)  # type: ignore[attr-defined]
Tensor.__pos__ = lambda self: self  # type: ignore[operator]
Tensor.__invert__ = lambda self: bitwise_not(self)  # type: ignore[method-assign]
for _function in (silu, clamp, masked_fill, to, contiguous):
    setattr(Tensor, _function.__name__, _function)
Tensor.where = lambda self, condition, other: where(condition, self, other)  # type: ignore[attr-defined]


for _short, _kind in (
    ("float", "float32"),
    ("byte", "uint8"),
    ("char", "int8"),
    ("short", "int16"),
    ("double", "float64"),
    ("half", "float16"),
    ("long", "int64"),
    ("int", "int32"),
    ("bool", "bool"),
    ("bfloat16", "bfloat16"),
):
    setattr(Tensor, _short, lambda self, _kind=_kind: to(self, dtype=_kind))

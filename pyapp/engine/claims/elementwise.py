"""Functions of single elements: float32 in any layout and any broadcasting, numbers beside tensors."""

from __future__ import annotations

from functools import lru_cache
from math import inf, prod
from struct import Struct
from typing import Any

from .. import dtype as _dtype
from .. import shape as shapes
from ..device import cpu
from ..dtype import of_number
from ..element_types import CODES, ROUNDS_NUMBERS, number_slot, opcodes, padded, rounded
from ..launch import KERNELS, capturing, launch_all
from ..lazy import np
from ..native import IN_BROWSER
from ..numpy_arrays import tensor_of
from ..op import OPS, claims, claims_in_place
from ..operands import common_dtype, dense
from ..ops.element_updates import element_function
from ..ops.view import copy_strided, dense_copy
from ..shape import Shape, broadcast_shapes, dense_layout
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous, make
from .conversions import CONVERSIONS
from .layouts import in_type, is_packed, result_like, rows_of

_F32, _F16, _BF16 = _dtype.float32, _dtype.float16, _dtype.bfloat16
K = KERNELS


# ---- any dtypes and strides


_BINARY, _UNARY, _UNARY_STRIDED = K["binary"], K["unary"], K["unary_strided"]
_FLOAT_RESULT = ("div", "atan2", "copysign", "hypot")  # of integers, too


def _of_any(name: str) -> Any:
    """Two operands of any dtype that the kernel has, promoted as torch does, of any strides. `own`: the result is
    written into the first, which has no gaps, the shape and the dtype of the result, and shares no memory with another
    view of it; NotImplemented otherwise.
    """
    code, types, result = opcodes("binary")[name]
    rounds = name in ROUNDS_NUMBERS

    def compute(a: Tensor, b: Any, own: bool = False) -> Any:
        with_tensor = isinstance(b, Tensor)
        if not with_tensor and type(b) not in (int, float, bool):
            return NotImplemented
        kind = a.dtype  # the common one, in the usual cases
        if b.dtype is not kind if with_tensor else not (kind.is_floating_point and a._shape):
            if with_tensor or kind.category != 1 or type(b) is not int:  # an integer widens no integers
                kind = common_dtype(a, b)
        if name in _FLOAT_RESULT and not kind.has_gradient:
            kind = _dtype.Default.dtype
        if kind not in types or (name == "sub" and _dtype.bool_ in (a.dtype, getattr(b, "dtype", of_number(b)))):
            return NotImplemented
        number: int | None = 0
        other: Tensor | None = None
        if with_tensor:
            other = b if b.dtype is kind else in_type(b, kind)
        else:
            if rounds and (kind is _BF16 or kind is _F16):
                b = rounded(b, kind)
            number = number_slot(b, kind)
        whole, a = a, a if a.dtype is kind else in_type(a, kind)
        shape, strides, count, slots = _geometry(
            a._shape, a.strides, None if other is None else other._shape, None if other is None else other.strides, name
        )
        if slots is None and not own and a.device is not cpu:  # more dims than a record has; NumPy takes them
            a, other = dense(a.expand(shape)), None if other is None else dense(other.expand(shape))
            again = None if other is None else other._shape, None if other is None else other.strides
            shape, strides, count, slots = _geometry(a._shape, a.strides, *again, name)
        if slots is None or number is None:
            return NotImplemented
        out = _dtype.bool_ if result == "bool" else kind
        if own:
            if out is not whole.dtype or shape != whole._shape or strides != whole.strides:
                return NotImplemented
            if isinstance(b, Tensor) and (b.device is not a.device or _overlaps(a, b)):
                return NotImplemented
            y = a
        else:
            y = make(Storage(out.itemsize * count, a.device), shape, strides, out)
        _BINARY.launch(count >> 8, y, a, other, code, CODES[kind], *slots, number)
        if own:
            a._storage.version += 1
        return y

    return compute


def _overlaps(a: Tensor, b: Tensor) -> bool:
    """Whether two views may share memory, but not element by element."""
    same = (a.address, a._shape, a.strides) == (b.address, b._shape, b.strides)
    return a._storage.address == b._storage.address and not same


@lru_cache(4096)
def _geometry(
    a: Shape, a_strides: Shape, b: Shape | None, b_strides: Shape | None, name: str
) -> tuple[Shape, Shape, int, tuple[int, ...] | None]:
    """(shape, strides, elements) of the result of two operands, the second perhaps a number, and the sizes and strides
    of the record, None where it cannot hold so many dims. ValueError where they do not broadcast."""
    shape = a if b is None else broadcast_shapes(a, b, op=name)
    count, strides = dense_layout(shape)
    if shape == a and (b is None or (b == a and b_strides == a_strides)) and shapes.is_packed(a, a_strides):
        one = padded((1,))
        return shape, a_strides, count, (1, *padded((count,)), *one, *(padded(()) if b is None else one))
    if len(shape) > 6:
        return shape, strides, count, None
    steps = _repeating(a, a_strides, shape)
    other = () if b is None or b_strides is None else _repeating(b, b_strides, shape)
    sizes, whole = shape, a_strides if shape == a else b_strides if shape == b else None
    if whole is not None and (order := shapes.kept_order(shape, whole)) is not None:
        # The record's dims are those of the result in the order of its memory.
        sizes, steps = tuple(shape[d] for d in order), tuple(steps[d] for d in order)
        other, strides = tuple(other[d] for d in order) if other else (), shapes.kept_strides(shape, whole) or strides
    return shape, strides, count, (len(shape), *padded(sizes), *padded(steps), *padded(other))


def _repeating(own: Shape, strides: Shape, shape: Shape) -> Shape:
    """The strides with which a tensor is read as if it had the shape."""
    extra = len(shape) - len(own)
    return (0,) * extra + tuple(0 if n == 1 else s for n, s in zip(own, strides, strict=True))


def broadcast_strides(x: Tensor, shape: Shape) -> Shape:
    """The strides with which x is read as if it had the shape."""
    if x._shape == shape:
        return x.strides
    return _repeating(x._shape, x.strides, shape)


@lru_cache(4096)
def _in_memory_order(shape: Shape, strides: Shape) -> tuple[Shape, Shape, Shape | None]:
    """(shape, strides) with the dims in the order of a copy's memory, and the strides of that copy where the order is
    not row-major, else None."""
    order = shapes.kept_order(shape, strides)
    if order is None:
        return shape, strides, None
    return tuple(shape[d] for d in order), tuple(strides[d] for d in order), shapes.kept_strides(shape, strides)


_TWO_NUMBERS, _TWO_BITS = Struct("2d"), Struct("2q")


def _function_of_any(name: str) -> Any:
    """One operand of any dtype that the kernel has and of any strides. Integers become floats where the kernel takes
    none and gives numbers. `settings`: the function's own numbers, at most two. `own`: the result is written into x
    itself, which has no gaps and keeps its dtype; NotImplemented otherwise.
    """
    code, types, result = opcodes("unary")[name]
    whole = result == "bool" or _dtype.int32 in types
    without: tuple[int | None, ...] = (number_slot(0.0, _F32),) * 2

    def compute(x: Tensor, *settings: float, own: bool = False) -> Any:
        kind = x.dtype
        on_card = x.device is not cpu
        if not kind.has_gradient and (not whole or (on_card and result == "bool" and kind not in types)):
            # The kernels of isnan and others take no integers: each is finite as a float, too. On the CPU, NumPy does.
            kind = _dtype.Default.dtype
        if kind not in types or len(x._shape) > 6:
            return NotImplemented
        slots = without
        if settings:
            if any(type(number) not in (int, float) for number in settings):
                return NotImplemented
            slots = _TWO_BITS.unpack(_TWO_NUMBERS.pack(*(*settings, 0.0)[:2]))
        if own:
            if kind is not x.dtype or result == "bool" or not is_packed(x):
                return NotImplemented
            _UNARY.launch(x.numel() >> 6, x, x, code, CODES[kind], x.numel(), *slots)
            x._storage.version += 1
            return x
        x = in_type(x, kind)
        out = _dtype.bool_ if result == "bool" else kind
        if is_packed(x):
            y = make(Storage(out.itemsize * x.numel(), x.device), x._shape, x.strides, out)
            _UNARY.launch(x.numel() >> 6, y, x, code, CODES[kind], x.numel(), *slots)
        else:
            shape, strides, layout = _in_memory_order(x._shape, x.strides)
            y = empty_contiguous(shape, out, x.device)
            _UNARY_STRIDED.launch(
                x.numel() >> 6, y, x, code, CODES[kind], len(shape), *padded(shape), *padded(strides), *slots
            )
            if layout is not None:
                y = make(y._storage, x._shape, layout, out)
        return y

    return compute


def _claim_in_own_memory(name: str, compute: Any) -> None:
    """The op in place, by what `_function_of_any` gave."""

    @claims_in_place(name)
    def _(x: Tensor, *settings: Any) -> bool:
        return compute(x, *settings, own=True) is not NotImplemented


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


_plans: dict[tuple[Shape, Shape, Shape | None, Shape | None], tuple[Shape, int, Any, Any]] = {}


def _plan(
    a: Shape, b: Shape, name: str, a_core: Shape | None = None, b_core: Shape | None = None
) -> tuple[Shape, int, Any, Any]:
    """(shape, elements, walk of a, walk of b) of the result. ValueError where they do not broadcast. The cores are the
    shapes without what an expansion repeats."""
    found = _plans.get((a, b, a_core, b_core))
    if found is None:
        shape = broadcast_shapes(a, b, op=name)
        found = shape, prod(shape), _walk(a_core or a, shape), _walk(b_core or b, shape)
        if len(_plans) > 4096:
            _plans.clear()
        _plans[a, b, a_core, b_core] = found
    return found


def _without_repeats(x: Tensor) -> Tensor:
    """x with one element in each dim that an expansion repeats: a kernel repeats it while it reads, without a copy."""
    strides = x.strides
    if 0 not in strides:
        return x
    return make(
        x._storage, tuple([n if s else 1 for n, s in zip(x._shape, strides, strict=True)]), strides, x.dtype, x.offset
    )


_LONG = 64  # elements, from which the kernel of any strides reads a row where it lies
_FEW = 1 << 12  # elements of which it reads all where they lie: a copy costs more
_WIDE = 32  # elements of a row, from which it takes less time than a copy of an operand that is broadcast in the middle


@lru_cache(4096)
def _has_long_rows(shape: Shape, strides: Shape) -> bool:
    """Whether it is a part of every row of another tensor, as x[:, 1:] is: a kernel reads it without a copy."""
    return len(shape) > 1 and strides[-1] == 1 and shape[-1] >= _LONG and not shapes.is_packed(shape, strides)


def _with_number(kernel: Any, a: Any, b: Any, of_any: Any = None) -> Any:
    """One of the two is a number. `of_any`: what takes a few elements of any strides."""
    x, first = (a, True) if isinstance(a, Tensor) else (b, False)
    layout = count, strides = dense_layout(x._shape)
    if x.strides == strides:
        y = empty_contiguous(x._shape, _F32, x.device, layout)
    elif of_any is not None and not is_packed(x) and (count <= _FEW or _has_long_rows(x._shape, x.strides)):
        return of_any(a, b)
    else:
        x, y, count = result_like(x)
    whole = count or 1
    try:
        if first:
            kernel.launch(count >> 10, y, x, None, count, whole, 1, 0, 0, b)
        else:
            kernel.launch(count >> 10, y, None, x, count, 1, whole, 0, 0, a)
    except OverflowError:  # beyond float32
        return NotImplemented
    return y


def _order_to_keep(x: Tensor, shape: Shape) -> tuple[int, ...] | None:
    """The order in memory that the result of this shape takes from x; None where it is row-major."""
    return shapes.kept_order(shape, x.strides) if x._shape == shape else None


@lru_cache(4096)
def _turned(order: tuple[int, ...], shape: Shape, strides: Shape) -> tuple[Shape, Shape]:
    """A layout with its dims in an order, after those of size one that it lacks."""
    lacks = len(order) - len(shape)
    shape, strides = (1,) * lacks + shape, (0,) * lacks + strides
    return tuple([shape[d] for d in order]), tuple([strides[d] for d in order])


@lru_cache(4096)
def _way_back(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([order.index(d) for d in range(len(order))])


def _along(order: tuple[int, ...], compute: Any, a: Tensor, b: Tensor) -> Any:
    """What `compute` gives for operands whose dims are in the order of memory, seen in their own order."""
    y = compute(*[make(x._storage, *_turned(order, x._shape, x.strides), x.dtype, x.offset) for x in (a, b)])
    if y is NotImplemented:
        return y
    return make(y._storage, *_turned(_way_back(order), y._shape, y.strides), y.dtype, y.offset)


def _claim_binary(name: str) -> None:
    kernel = K[name + "_f32"]
    of_any = _of_any(name)

    @claims(name)
    def binary(a: Tensor, b: Any) -> Any:
        if a.dtype is not _F32:
            return of_any(a, b)
        if not isinstance(b, Tensor):
            return _with_number(kernel, a, b, of_any) if type(b) is float or type(b) is int else of_any(a, b)
        if b.dtype is not _F32:
            return of_any(a, b)
        shape = a._shape
        if shape == b._shape and a.strides == b.strides:
            layout = dense_layout(shape)
            if a.strides == layout[1]:
                count = layout[0]
                y = empty_contiguous(shape, _F32, a.device, layout)
            elif _has_long_rows(shape, a.strides):
                return of_any(a, b)
            else:
                a, y, count = result_like(a)
            b = b if b.strides == a.strides else b.clone()
            whole = count or 1
            kernel.launch(count >> 10, y, a,
                b, count, whole, whole, 0, 0, 0.0,
            )  # fmt: skip
            return y
        whole_a, whole_b = a, b  # `a` and `b` lose dims below in which they are repeated
        if shape == b._shape and not any(a.strides) and b.strides == dense_layout(shape)[1] and shape:
            # One element, repeated, beside a dense tensor: as the gradient of a sum is.
            count = dense_layout(shape)[0]
            y = empty_contiguous(shape, _F32, a.device)
            kernel.launch(count >> 10, y, a, b, count, 1, count or 1, 0, 0, 0.0)
            return y
        if 0 in a.strides or 0 in b.strides:
            b_shape, a, b = b._shape, _without_repeats(a), _without_repeats(b)
            shape, count, a_walk, b_walk = _plan(shape, b_shape, name, a._shape, b._shape)
        else:
            shape, count, a_walk, b_walk = _plan(shape, b._shape, name)
        if not count:
            return empty_contiguous(shape, _F32, a.device)
        if (count <= _FEW or shape[-1] >= _WIDE) and (a_walk is None or b_walk is None):
            return of_any(whole_a, whole_b)
        if _has_long_rows(a._shape, a.strides) or _has_long_rows(b._shape, b.strides):
            return of_any(whole_a, whole_b)
        if a.strides != dense_layout(a._shape)[1] and not a.is_contiguous():
            if (order := _order_to_keep(whole_a, shape)) is not None:
                return _along(order, binary, whole_a, whole_b)
            a = dense(a)
        if b.strides != dense_layout(b._shape)[1] and not b.is_contiguous():
            if whole_a._shape != shape and (order := _order_to_keep(whole_b, shape)) is not None:
                return _along(order, binary, whole_a, whole_b)
            b = dense(b)
        if a_walk is None:
            a, a_walk = dense(a.expand(shape)), (count, 0)
        if b_walk is None:
            b, b_walk = dense(b.expand(shape)), (count, 0)
        y = empty_contiguous(shape, _F32, a.device)
        kernel.launch(count >> 10, y, a, b, count, a_walk[0], b_walk[0], a_walk[1], b_walk[1], 0.0
        )  # fmt: skip
        return y


def _claim_binary_in_place(name: str) -> None:
    kernel, of_any = K[name + "_f32"], _of_any(name)

    @claims_in_place(name)
    def _(x: Tensor, other: Any) -> bool:
        if x.dtype is not _F32:
            return of_any(x, other, own=True) is not NotImplemented
        shape = x._shape
        count, strides = dense_layout(shape)
        if x.strides != strides and not x.is_contiguous():
            if not is_packed(x) or (
                isinstance(other, Tensor) and (other._shape != shape or other.strides != x.strides)
            ):
                return False
            strides = x.strides
        whole = count or 1
        if type(other) is float or type(other) is int:
            try:
                kernel.launch(count >> 10, x, x, None, count, whole, 1, 0, 0, other)
            except OverflowError:  # beyond float32
                return False
        elif not isinstance(other, Tensor) or other.dtype is not _F32 or other.device is not x.device:
            return False
        elif other._shape == shape and (other.strides == strides or other.is_contiguous()):
            if other.address != x.address and other._storage.address == x._storage.address:
                return False  # they may overlap
            kernel.launch(count >> 10, x, x, other, count, whole, whole, 0, 0, 0.0)
        else:
            core = _without_repeats(other)
            result, _, _, walk = _plan(shape, other._shape, name, None, core._shape)
            if result != shape or walk is None or other._storage.address == x._storage.address:
                return False
            kernel.launch(count >> 10, x, x, dense(core), count, whole, walk[0], 0, walk[1], 0.0)
        x._storage.version += 1
        return True


for _name in ("add", "sub", "mul", "div", "maximum", "minimum"):
    _claim_binary(_name)
for _name in opcodes("binary").keys() - {"add", "sub", "mul", "div", "maximum", "minimum", "pow"}:
    claims(_name)(_of_any(_name))
_power = _of_any("pow")


_negative, _rectified = (_function_of_any(name) for name in ("neg", "relu"))
_inverse = _function_of_any("reciprocal")
_MUL, _MAXIMUM, _MINIMUM = K["mul_f32"], K["maximum_f32"], K["minimum_f32"]
_LARGEST = 3.4028234663852886e38  # float32
for _name in ("add", "sub", "mul", "div"):
    _claim_binary_in_place(_name)


def _claim_with_number_in_place(name: str, kernel: Any, number: float, first: bool, of_any: Any) -> None:
    """A float32 tensor and a number, in the tensor; `first`: the tensor is the first operand."""

    @claims_in_place(name)
    def _(x: Tensor) -> bool:
        if x.dtype is not _F32 or not is_packed(x):
            return of_any(x, own=True) is not NotImplemented
        _number_in_place(kernel, x, number, first)
        return True


def _number_in_place(kernel: Any, x: Tensor, number: float, first: bool = True) -> None:
    count = x.numel()
    whole = count or 1
    if first:
        kernel.launch(count >> 10, x, x, None, count, whole, 1, 0, 0, number)
    else:
        kernel.launch(count >> 10, x, None, x, count, 1, whole, 0, 0, number)
    x._storage.version += 1


_claim_with_number_in_place("neg", _MUL, -1.0, True, _negative)
_claim_with_number_in_place("relu", _MAXIMUM, 0.0, True, _rectified)
_claim_with_number_in_place("reciprocal", K["div_f32"], 1.0, False, _inverse)


@claims("neg")
def _neg(x: Tensor) -> Any:
    if x.dtype is not _F32 or (x.numel() <= _FEW and not is_packed(x)):
        return _negative(x)
    return _with_number(_MUL, x, -1.0)


@claims("relu")
def _relu(x: Tensor) -> Any:
    return _with_number(_MAXIMUM, x, 0.0) if x.dtype is _F32 else _rectified(x)


@claims("reciprocal")
def _reciprocal(x: Tensor) -> Any:
    return _with_number(K["div_f32"], 1.0, x) if x.dtype is _F32 else _inverse(x)


_cube = element_function(lambda x: x * x * x, 1)
_PRODUCTS = (2, 3, -1, -2)  # powers that are products or their reciprocals, as in torch
_ROUNDED_TWICE = (3, -2)  # of these, those that torch rounds once in float16


@claims("pow")
def _pow(x: Tensor, exponent: Any) -> Any:
    if type(exponent) is int and exponent < 0 and x.dtype.category <= 1:
        raise ValueError("pow: Integers to negative integer powers are not allowed; convert them with .float() first")
    if type(exponent) not in (int, float):
        return _power(x, exponent)
    if exponent == 0.5 or exponent == -0.5:  # of -0 and -inf, IEEE's pow differs from the roots, which torch takes
        return OPS["sqrt" if exponent > 0 else "rsqrt"].forward(x)
    if exponent == 1 and x.dtype is _F32:
        return _with_number(_MUL, x, 1.0)
    if not x.dtype.is_floating_point or exponent not in _PRODUCTS:
        return _power(x, exponent)
    if x.dtype is _dtype.float16 and exponent in _ROUNDED_TWICE:
        return _power(x, exponent)
    if exponent == 3:
        return _cube(x) if x.dtype is _F32 else x * x * x
    product = x if exponent == -1 else OPS["mul"].forward(x, x)
    return product if exponent > 0 else _reciprocal(product)


_limited = _function_of_any("clamp")


@claims("_clamp")
def _clamp(x: Tensor, low: Any, high: Any) -> Any:
    numbers = (int, float, type(None))
    if x.dtype.category == 1 and type(low) is type(high) is int:
        return _clamp_integers(x, low, high)
    if not x.dtype.is_floating_point or type(low) not in numbers or type(high) not in numbers:
        return NotImplemented
    if x.dtype is _F32 and (low is None or high is None):
        return _with_number(_MAXIMUM, x, low) if high is None else _with_number(_MINIMUM, x, high)
    if low != low or high != high:
        return NotImplemented  # every element becomes NaN
    return _limited(x, *_limits(x, low, high))


_larger, _smaller = _of_any("maximum"), _of_any("minimum")


def _clamp_own_integers(x: Tensor, low: int | None, high: int | None) -> bool:
    """In the tensor, where its type holds the limits."""
    if not is_packed(x) or any(n is not None and number_slot(n, x.dtype) is None for n in (low, high)):
        return False
    written = [of(x, n, own=True) for of, n in ((_larger, low), (_smaller, high)) if n is not None]
    return all(y is not NotImplemented for y in written)


def _clamp_integers(x: Tensor, low: int, high: int) -> Any:
    """The second limit is applied in the result of the first."""
    code, types, _ = opcodes("binary")["minimum"]
    if x.device is cpu and x.numel() > _MOST_ROUNDED and not (IN_BROWSER or capturing()):
        slots = number_slot(low, x.dtype), number_slot(high, x.dtype)
        return NotImplemented if None in slots else tensor_of(np.clip(x.array(), *slots), x.dtype)
    y, number = _larger(x, low), number_slot(high, x.dtype)
    if y is NotImplemented or number is None or y.dtype is not x.dtype or x.dtype not in types:
        return NotImplemented
    count = y.numel()
    nothing = padded(())
    _BINARY.launch(
        count >> 8, y, y, None, code, CODES[y.dtype], 1, *padded((count,)), *padded((1,)), *nothing, number
    )  # fmt: skip
    return y


def _limits(x: Tensor, low: Any, high: Any) -> list[float]:
    """Both limits; for float32 those beyond its numbers are infinite."""
    numbers = [-inf if low is None else low, inf if high is None else high]
    if x.dtype is not _F32:
        return numbers
    return [inf if n > _LARGEST else -inf if n < -_LARGEST else n for n in numbers]


def _claim_clamp_in_place(name: str, *parameters: str) -> None:
    """clamp and its synonyms, between numbers."""

    @claims_in_place(name)
    def _(x: Tensor, *args: Any, **kwargs: Any) -> bool:
        if len(args) > len(parameters) or kwargs.keys() - parameters[len(args) :]:
            return False
        given = dict(zip(parameters, args, strict=False)) | kwargs
        low, high = given.get("min"), given.get("max")
        numbers = [n for n in (low, high) if n is not None]
        if x.dtype.category == 1 and numbers and all(type(n) is int for n in numbers):
            return _clamp_own_integers(x, low, high)
        if not x.dtype.is_floating_point or not numbers or any(type(n) not in (int, float) or n != n for n in numbers):
            return False
        if x.dtype is not _F32 or len(numbers) == 2:
            return _limited(x, *_limits(x, low, high), own=True) is not NotImplemented
        if not is_packed(x) or not -_LARGEST <= numbers[0] <= _LARGEST:
            return False
        _number_in_place(_MINIMUM if low is None else _MAXIMUM, x, numbers[0])
        return True


for _name in ("clamp", "clip"):
    _claim_clamp_in_place(_name, "min", "max")
_claim_clamp_in_place("clamp_min", "min")
_claim_clamp_in_place("clamp_max", "max")


# ---- one operand


def _has_gaps(x: Tensor) -> bool:
    """Whether its elements do not lie one after the other, in any order of the dims."""
    return x.strides != dense_layout(x._shape)[1] and not is_packed(x)


def _claim_unary(name: str, cost: int) -> None:
    """`cost`: of an element, in multiply-adds."""
    kernel = K[name + "_f32"]
    of_any = _function_of_any(name)

    @claims(name)
    def _(x: Tensor) -> Any:
        if x.dtype is not _F32 or (_has_gaps(x) and len(x._shape) <= 6):  # read where they lie
            return of_any(x)
        x, y, count = result_like(x)
        kernel.launch(count * cost >> 10, y, x, count)
        return y


def _claim_unary_in_place(name: str, cost: int) -> None:
    kernel = K[name + "_f32"]
    of_any = _function_of_any(name)

    @claims_in_place(name)
    def _(x: Tensor) -> bool:
        if x.dtype is not _F32 or not is_packed(x):
            return of_any(x, own=True) is not NotImplemented
        count = x.numel()
        kernel.launch(count * cost >> 10, x, x, count)
        x._storage.version += 1
        return True


for _name, _cost in (("exp", 4), ("silu", 4), ("sigmoid", 4), ("tanh", 4), ("log", 4), ("sqrt", 2), ("abs", 1)):
    _claim_unary(_name, _cost)
    _claim_unary_in_place(_name, _cost)


_MOST_ROUNDED = 1 << 13  # elements for which a call of NumPy costs more than it saves
_ROUNDINGS = "floor ceil round trunc frac".split()
_BY_NUMPY = ("floor", "ceil", "round")  # NumPy has instructions for these
_WITH_SETTINGS = {"leaky_relu": (0.01,), "elu": (1.0,), "softplus": (1.0, 20.0)}
for _name in opcodes("unary").keys() - {
    *"neg relu reciprocal rsqrt exp silu sigmoid tanh log sqrt abs gelu gelu_tanh clamp i0".split(),
    *_ROUNDINGS,
    *_WITH_SETTINGS,
}:
    _of_any_dtype = _function_of_any(_name)
    claims(_name)(_of_any_dtype)
    _claim_in_own_memory(_name, _of_any_dtype)


def _claim_rounding(name: str) -> None:
    of_floats = _function_of_any(name)

    @claims(name)
    def rounding(x: Tensor) -> Any:
        if x.dtype.category == 1 and name != "frac":
            return dense_copy(x)  # integers stay what they are
        if name in _BY_NUMPY and (IN_BROWSER or x.dtype is _dtype.float64):
            if x.device is cpu and x.numel() > _MOST_ROUNDED and not capturing():
                return NotImplemented  # NumPy's way is faster
        return of_floats(x) if x.dtype.is_floating_point else NotImplemented


for _name in _ROUNDINGS:
    _claim_rounding(_name)


def _claim_with_settings(name: str, defaults: tuple[float, ...]) -> None:
    of_floats = _function_of_any(name)

    @claims(name)
    def function(x: Tensor, *settings: Any) -> Any:
        if not x.dtype.is_floating_point:
            return NotImplemented
        return of_floats(x, *settings, *defaults[len(settings) :])

    @claims_in_place(name)
    def _(x: Tensor, *settings: Any) -> bool:
        return (
            x.dtype.is_floating_point
            and of_floats(x, *settings, *defaults[len(settings) :], own=True) is not NotImplemented
        )


for _name, _defaults in _WITH_SETTINGS.items():
    _claim_with_settings(_name, _defaults)
_bessel_of_order_0 = _function_of_any("i0")


@claims("_bessel")
def _bessel(x: Tensor, order: int) -> Any:
    return NotImplemented if order else _bessel_of_order_0(x)


_inverse_root = _function_of_any("rsqrt")


@claims("rsqrt")
def _rsqrt(x: Tensor) -> Any:
    if x.dtype is not _F32:
        return _inverse_root(x)
    x, y, count = result_like(x)
    whole = count or 1
    launch_all(
        count >> 9, (K["sqrt_f32"], y, x, count), (K["div_f32"], y, None, y, count, 1, whole, 0, 0, 1.0)
    )  # fmt: skip
    return y


@claims_in_place("rsqrt")
def _rsqrt_in_place(x: Tensor) -> bool:
    if x.dtype is not _F32 or not is_packed(x):
        return _inverse_root(x, own=True) is not NotImplemented
    count = x.numel()
    launch_all(
        count >> 9, (K["sqrt_f32"], x, x, count), (K["div_f32"], x, None, x, count, 1, count or 1, 0, 0, 1.0)
    )  # fmt: skip
    x._storage.version += 1
    return True


_gelu_of_any, _gelu_tanh = _function_of_any("gelu"), _function_of_any("gelu_tanh")


@claims("gelu")
def _gelu(x: Tensor, approximate: str = "none") -> Any:
    if not x.dtype.is_floating_point or approximate not in ("none", "tanh"):
        return NotImplemented
    if approximate == "tanh":
        return _gelu_tanh(x)
    if x.dtype is not _F32:
        return _gelu_of_any(x)
    x, y, count = result_like(x)
    K["gelu_f32"].launch(count >> 6, y, x, count)
    return y


_product = _of_any("mul")


@claims("glu")
def _glu(x: Tensor, dim: int = -1) -> Any:
    """By the halves where they lie, without views that autograd would follow."""
    rank = len(x._shape)
    if type(dim) is not int or not -rank <= dim < rank or x._shape[dim] % 2 or rank > 6:
        return NotImplemented
    d, half = dim % rank, x._shape[dim] // 2
    shape = (*x._shape[:d], half, *x._shape[d + 1 :])
    a, b = (make(x._storage, shape, x.strides, x.dtype, x.offset + n * x.strides[d]) for n in (0, half))
    return _product(a, OPS["sigmoid"].forward(b))


_SILU_MUL = K["silu_mul_f32"]


@claims("silu_mul")
def _silu_mul(x: Tensor) -> Any:
    if x.dtype is not _F32 or not x._shape or x._shape[-1] % 2:
        return NotImplemented
    x, rows, columns, stride = rows_of(x)
    half = columns // 2
    y = empty_contiguous(x._shape[:-1] + (half,), _F32, x.device)
    _SILU_MUL.launch(rows * half >> 8, y, x, rows, half, half, stride)
    return y


# ---- gradients


@claims("silu_mul_backward")
def _silu_mul_backward(g: Tensor, x: Tensor) -> Any:
    if not (x.dtype is g.dtype is _F32):
        return NotImplemented
    x, g = dense(x), dense(g)
    half = g._shape[-1]
    grad_x = empty_contiguous(x._shape, _F32, x.device)
    K["silu_mul_backward_f32"].launch(
        g.numel() >> 7,
        grad_x,
        x,
        g,
        g.numel() // max(half, 1),
        half,
    )
    return (grad_x,)


_SLOPES, _SLOPE_CODES = K["activation_backward"], opcodes("activation_backward")


def _activation_gradient(name: str, g: Tensor, x: Tensor) -> Any:
    """(g * the derivative of the activation at x,)"""
    code, types = _SLOPE_CODES[name][:2]
    if x.dtype is not g.dtype or x.dtype not in types:
        return NotImplemented
    if g.strides != x.strides or not is_packed(x):
        x, g = dense(x), dense(g)
    count = x.numel()
    grad = make(Storage(x.dtype.itemsize * count, x.device), x._shape, x.strides, x.dtype)
    _SLOPES.launch(count >> 6, grad, x, g, code, CODES[x.dtype], count)
    return (grad,)


@claims("gelu_backward")
def _gelu_backward(g: Tensor, x: Tensor, approximate: str = "none") -> Any:
    name = {"none": "gelu", "tanh": "gelu_tanh"}.get(approximate)
    return NotImplemented if name is None else _activation_gradient(name, g, x)


@claims("silu_backward")
def _silu_backward(g: Tensor, x: Tensor) -> Any:
    return _activation_gradient("silu", g, x)


# ---- copies


@claims("contiguous")
def _row_major(x: Tensor) -> Any:
    if 0 in x._shape and not x.dtype.is_quantized:  # of any rank
        return empty_contiguous(x._shape, x.dtype, x.device)
    return dense_copy(x)


@claims("clone")
def _clone(x: Tensor) -> Any:
    shape, strides = x._shape, x.strides
    layout = count, dense_strides = dense_layout(shape)
    if x.dtype.is_quantized or not count:
        return _row_major(x)
    kept = None if strides == dense_strides else shapes.kept_strides(shape, strides)
    if kept is None:
        y = empty_contiguous(shape, x.dtype, x.device, layout)
        return y if copy_strided(y, x) else NotImplemented
    if kept is strides:  # in the order of the memory
        y = dense_copy(make(x._storage, (count,), (1,), x.dtype, x.offset))
        return make(y._storage, shape, kept, x.dtype)
    y = make(Storage(x.dtype.itemsize * count, x.device), shape, kept, x.dtype)
    return y if copy_strided(y, x) else NotImplemented


def _cast_any(x: Tensor, dtype: Any) -> Any:
    if x.dtype not in CODES or dtype not in CODES:
        return NotImplemented
    whole = x._shape
    shape, strides, layout = _in_memory_order(whole, x.strides)
    if len(shape) > 6:
        x = dense(x)
        shape, strides, layout = (x.numel(),), (1,), None
    y = empty_contiguous(whole if layout is None else shape, dtype, x.device)
    K["cast"].launch(x.numel() >> 8, y, x, CODES[dtype], CODES[x.dtype], len(shape), *padded(shape), *padded(strides))
    return y if layout is None else make(y._storage, whole, layout, dtype)


@claims("cast")
def _cast(x: Tensor, dtype: Any, device: Any = None) -> Any:
    kernel = CONVERSIONS.get((x.dtype, dtype))
    if not x.is_contiguous():
        if not is_packed(x) or x.dtype not in CODES or dtype not in CODES:
            return _cast_any(x, dtype)
        y = _cast(make(x._storage, (x.numel(),), (1,), x.dtype, x.offset), dtype)  # in the order of the memory
        return make(y._storage, x._shape, x.strides, dtype)
    if kernel is None:
        return _cast_any(x, dtype)
    y = empty_contiguous(x._shape, dtype, x.device)
    kernel.launch(x.numel() >> 9, y, x, x.numel())
    return y

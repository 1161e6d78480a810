"""Reductions, and running sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from .. import dtype as _dtype
from ..device import cpu
from ..dtype import DType, as_dtype
from ..element_types import CODES, opcodes
from ..launch import KERNELS as K
from ..launch import launch_all
from ..native import IN_BROWSER
from ..op import OPS, claims
from ..operands import check_extreme, check_place, dense, is_half
from ..shape import Shape, dense_layout, is_packed, normalize_dim, normalize_dims, reduced_dims
from ..tensor import Tensor, empty_contiguous, make
from .layouts import in_type

_F32 = _dtype.float32


_REDUCE = K["reduce"]
_OPCODES = opcodes("reduce")
_WIDE = 64  # columns of rows whose peak a kernel of its own finds
_MOST_REPEATED = (1 << 17, 1 << 13)  # elements of matrices, and of more dims, that the kernel reads as soon as fewer
_MOST_OF_ONE = 1 << 9  # of more dims whose elements are all the same one
_MOST_APART = 1 << 14  # elements that lie apart, which the kernel of var reads twice


def _reduce(name: str, x: Tensor, dims: Sequence[int], keepdim: bool, dtype: DType, correction: float = 0.0) -> Any:
    """Over dims of a tensor of any strides, into a dtype that the kernel gives; NotImplemented where it does not take
    the dtypes."""
    code, types, _ = _OPCODES[name]
    if x.dtype not in types:
        return NotImplemented
    if 0 in x.strides and name == "sum" and x.numel() > _most_repeated(x) and _repeats_beside(x, dims):
        return _sum_of_one(x, dims, keepdim, dtype)
    result, order, slots = _plan(x._shape, x.strides, tuple(dims), keepdim)
    if order is not None:
        if name == "sum" and x.dtype is _F32 is dtype and dims and dims[-1] - dims[0] >= len(dims):
            return _sum_in_steps(x, tuple(dims), result)
        x = dense(x.permute(order))
    y = empty_contiguous(result, dtype, x.device)
    _REDUCE.launch(x.numel() >> 9, y, x, code, CODES[dtype], CODES[x.dtype], *slots, correction)
    return y


def _most_repeated(x: Tensor) -> int:
    if len(x._shape) < 3:
        return _MOST_REPEATED[0]
    return _MOST_REPEATED[1] if any(x.strides) else _MOST_OF_ONE


def _repeats_beside(x: Tensor, dims: Sequence[int]) -> bool:
    """Whether x, as an expanded tensor, has the same elements all along a dim that is not among these."""
    for d, step in enumerate(x.strides):  # without a generator: each sum of an expanded tensor asks
        if not step and x._shape[d] > 1 and d not in dims:
            return True
    return False


def _sum_of_one(x: Tensor, dims: Sequence[int], keepdim: bool, dtype: DType) -> Tensor:
    """The sum of one of the repetitions, repeated."""
    sizes = tuple([n if step or d in dims else 1 for d, (n, step) in enumerate(zip(x._shape, x.strides, strict=True))])
    y = _reduce("sum", make(x._storage, sizes, x.strides, x.dtype, x.offset), dims, True, dtype)
    whole = y.expand(tuple([1 if d in dims else n for d, n in enumerate(x._shape)]))
    return dense(whole if keepdim else whole.squeeze(tuple(dims)))


def _sum_in_steps(x: Tensor, dims: tuple[int, ...], result: Shape) -> Tensor:
    """Over the last dims that are neighbours, then over the others: only the small result of the first step is copied
    where its elements must become neighbours."""
    last = len(dims) - 1
    while dims[last - 1] == dims[last] - 1:
        last -= 1
    y: Tensor = _sum(_sum(x, list(dims[last:]), True), list(dims[:last]), True)
    return y if y._shape == result else make(y._storage, result, dense_layout(result)[1], _F32)


@lru_cache(4096)
def _plan(
    shape: Shape, strides: Shape, dims: tuple[int, ...], keepdim: bool
) -> tuple[Shape, tuple[int, ...] | None, tuple[int, ...]]:
    """(shape of the result; the order of dims in which the tensor must be dense, None where it may stay as it is; the
    sizes and strides of the record)."""
    kept = tuple(1 if d in dims else n for d, n in enumerate(shape))
    result = kept if keepdim else tuple(n for d, n in enumerate(shape) if d not in dims)
    middle = prod([shape[d] for d in dims])
    if len(dims) == len(shape) > 1 and is_packed(shape, strides):  # in the order of the memory
        return result, None, (1, middle, 1, 1, 1, 1)
    if dims and len(dims) == dims[-1] - dims[0] + 1:  # neighbours: the middle of three dims
        first, last = dims[0], dims[-1] + 1
        parts = [merged(shape[a:b], strides[a:b]) for a, b in ((0, first), (first, last), (last, len(shape)))]
        known = [part for part in parts if part is not None]
        if len(known) == 3:
            (outer, near), (_, far), (inner, _) = known
            if inner == 1 and abs(near) < abs(far):  # rows that lie nearer to each other than their elements
                known = [(1, 0), known[1], (outer, near)]
            return result, None, tuple([size for size, _ in known] + [step for _, step in known])
        order, inner = tuple(range(len(shape))), prod(shape[last:])
    else:
        order, inner = (*(d for d in range(len(shape)) if d not in dims), *dims), 1
    return result, order, (prod(result) // max(inner, 1), middle, inner, middle * inner, inner, 1)


def merged(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """(size, stride) of dims as one, or None where they cannot be one."""
    size, step = 1, 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if size == 1:
            step = stride
        elif stride != step * size:
            return None
        size *= n
    return size, step


def _sum_of_any(x: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Any:
    target = as_dtype(dtype) if dtype is not None else _dtype.int64 if not x.dtype.has_gradient else x.dtype
    if target not in CODES or x.dtype not in CODES:
        return NotImplemented
    if target.is_floating_point and not x.dtype.is_floating_point:
        x = in_type(x, target)
    elif x.dtype.is_floating_point and not target.is_floating_point:
        x = in_type(x, target)
    kind = target if target.is_floating_point else _dtype.int64
    y = _reduce("sum", x, sorted(reduced_dims(dim, len(x._shape), "sum")), keepdim, kind)
    return y if y is NotImplemented or kind is target else in_type(y, target)


_EXTREMES: dict[bool, Any] = {}  # by whether it is the largest


def _claim_extreme(name: str) -> None:
    @claims("a" + name)
    def extreme(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        dims = sorted(reduced_dims(dim, len(x._shape), "a" + name))
        check_extreme("a" + name, x, dim, dims)
        return _reduce(name, x, dims, keepdim, x.dtype)

    _EXTREMES[name == "max"] = extreme

    @claims("arg" + name)
    def place(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        rank = len(x._shape)
        dims = list(range(rank)) if dim is None else [normalize_dim(dim, rank, "arg" + name)] if rank else []
        check_place("arg" + name, x, dim)
        x = x if dim is not None else dense(x)
        if name == "max" and x.dtype is _F32:
            result, order, (rows, columns, inner, row_step, step, _) = _plan(x._shape, x.strides, tuple(dims), keepdim)
            if order is None and inner == step == 1 and columns >= _WIDE:
                places = empty_contiguous(result, _dtype.int32, x.device)
                K["argmax_f32"].launch(x.numel() >> 10, places, x, rows, columns, row_step)
                return in_type(places, _dtype.int64)
        return _reduce("arg" + name, x, dims, keepdim, _dtype.int64)


for _name in ("max", "min"):
    _claim_extreme(_name)


@claims("found_extreme")
def _found_extreme(x: Tensor, largest: bool, dim: Any = None, keepdim: bool = False) -> Any:
    return _EXTREMES[largest](x, dim, keepdim)


def _claim_quantifier(name: str) -> None:
    @claims(name)
    def _(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if is_half(x):
            x = in_type(x, _F32)  # whose kernel ends at the first element that decides
        y = _reduce(name, x, sorted(normalize_dims(dim, len(x._shape), name)), keepdim, _dtype.bool_)
        return in_type(y, _dtype.uint8) if y is not NotImplemented and x.dtype is _dtype.uint8 else y


for _name in ("any", "all"):
    _claim_quantifier(_name)


@claims("_prod")
def _prod(x: Tensor, dim: int, keepdim: bool) -> Any:
    kind = x.dtype if x.dtype.is_floating_point else _dtype.int64
    return _reduce("prod", x, [normalize_dim(dim, len(x._shape), "prod")] if x._shape else [], keepdim, kind)


@claims("sum_squares")
def _sum_squares(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    return _reduce("sum_squares", x, reduced_dims(dim, len(x._shape), "sum_squares"), keepdim, x.dtype)


@claims("_euclidean")
def _euclidean(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Of 16-bit floats, read where they lie."""
    if not is_half(x) or x.device is not cpu or IN_BROWSER:
        return NotImplemented
    y = _reduce("sum_squares", x, reduced_dims(dim, len(x._shape), "norm"), keepdim, _F32)
    return y if y is NotImplemented else in_type(OPS["sqrt"].forward(y), x.dtype)


@claims("var")
def _var(x: Tensor, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    if isinstance(dim, bool):  # torch's older form: var(unbiased)
        dim, correction = None, int(dim)
    rank = len(x._shape)
    dims = sorted(reduced_dims(dim, rank, "var"))
    if type(correction) not in (int, float) or prod([x._shape[d] for d in dims]) <= correction:
        return NotImplemented  # the definition is infinite, or NaN
    if dims and dims[-1] < rank - 1 and x.numel() > _MOST_APART:
        return NotImplemented
    return _reduce("var", x, dims, keepdim, x.dtype, correction)


claims("_variance")(_var)


# ---- running sums and products


def _claim_scan(name: str) -> None:
    code, types, _ = opcodes("scan")[name]

    @claims(name)
    def scan(x: Tensor, dim: int) -> Any:
        if x.dtype not in types:
            return NotImplemented
        d = normalize_dim(dim, len(x._shape), name)
        x = dense(x)
        y = empty_contiguous(x._shape, x.dtype if x.dtype.is_floating_point else _dtype.int64, x.device)
        length = x._shape[d] if x._shape else 1
        inner = prod(x._shape[d + 1 :])
        K["scan"].launch(
            x.numel() >> 8, y, None, x, code, CODES[x.dtype], prod(x._shape[:d]), length, inner,
            length * inner, inner, 1,
        )  # fmt: skip
        return y


@claims("_running_places")
def _running_places(x: Tensor, dim: int, name: str) -> Any:
    code, types, _ = opcodes("scan")[name]
    if x.dtype not in types:
        return NotImplemented
    x = dense(x)
    values, places = (empty_contiguous(x._shape, kind, x.device) for kind in (x.dtype, _dtype.int64))
    length, inner = x._shape[dim], prod(x._shape[dim + 1 :])
    K["scan"].launch(
        x.numel() >> 8, values, places, x, code, CODES[x.dtype], prod(x._shape[:dim]), length, inner,
        length * inner, inner, 1,
    )  # fmt: skip
    return places


_claim_scan("cumsum")
_claim_scan("cumprod")
_claim_scan("logcumsumexp")


_SUMS: dict[Any, Any] = {}  # by (shape, dim, keepdim)


@claims("sum")
def _sum(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if dtype is not None or x.dtype is not _F32 or not (x.strides == dense_layout(x._shape)[1] or x.is_contiguous()):
        return _sum_of_any(x, dim, keepdim, dtype)
    key = x._shape, tuple(dim) if dim.__class__ is list else dim, keepdim
    try:
        plan = _SUMS.get(key)
    except TypeError:  # dims that are not hashable, such as an array or a nested list
        return _sum_of_any(x, dim, keepdim, dtype)
    if plan is None:
        if len(_SUMS) > 4096:
            _SUMS.clear()
        plan = _SUMS[key] = _sum_plan(x._shape, dim, keepdim)
    kernel, work, rows, columns, shape = plan
    if kernel is None:
        return _sum_of_any(x, dim, keepdim, dtype)
    y = empty_contiguous(shape, _F32, x.device)
    kernel.launch(work, y, x, rows, columns, columns)
    return y


_DIV = K["div_f32"]


@claims("mean")
@claims("_mean")
def _mean(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Of a dense float32 tensor, where one kernel sums: the sums, divided where they lie."""
    if dtype is not None or x.dtype is not _F32 or not x.is_contiguous() or x.device is not cpu:
        return NotImplemented
    key = x._shape, tuple(dim) if dim.__class__ is list else dim, keepdim
    try:
        plan = _SUMS.get(key)
    except TypeError:
        return NotImplemented
    if plan is None or plan[0] is None:
        return NotImplemented  # `sum` plans it
    kernel, work, rows, columns, shape = plan
    y = empty_contiguous(shape, _F32, cpu)
    count = y.numel()
    launch_all(
        work, (kernel, y, x, rows, columns, columns),
        (_DIV, y, y, None, count, count, 1, 0, 0, float(rows * columns // count)),
    )  # fmt: skip
    return y


def _sum_plan(shape: Shape, dim: Any, keepdim: bool) -> tuple[Any, int, int, int, Shape]:
    """(kernel, work, rows, columns, shape of the result) for the first or the last dims of a dense tensor; no kernel
    for others."""
    dims = sorted(reduced_dims(dim, len(shape), "sum"))
    total, count = prod(shape), prod(shape[d] for d in dims)
    kept = tuple(1 if d in dims else n for d, n in enumerate(shape))
    result = kept if keepdim else tuple(n for d, n in enumerate(shape) if d not in dims)
    if total and dims and dims[-1] - dims[0] == len(dims) - 1:
        if dims[-1] == len(shape) - 1:
            return K["sum_rows_f32"], total >> 10, total // count, count, result
        if dims[0] == 0:
            return K["sum_columns_f32"], total >> 10, count, total // count, result
    return None, 0, 0, 0, result

"""Reductions over dims: sums, means, variances, extremes, any and all."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..autograd import STATE
from ..declare import function, method
from ..dtype import as_dtype
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import op, primitive
from ..operands import check_extreme, check_place, is_half, refuse_complex
from ..return_types import found, printed_as
from ..shape import normalize_dim, normalize_dims, reduced_dims
from ..tensor import Tensor, make
from ..user_errors import describe
from .element_updates import element_function
from .elementwise.arithmetic import div
from .elementwise.compare import maximum, minimum
from .elementwise.select import where
from .view import _expand


def _spread(gradient: Tensor, x: Tensor, dims: Any, keepdim: bool) -> Tensor:
    """The gradient of a reduction, shaped so that it broadcasts over x."""
    if not gradient._shape:
        return gradient
    found = reduced_dims(dims, x.ndim, "backward")
    if not keepdim:
        gradient = gradient.reshape(tuple(1 if i in found else size for i, size in enumerate(x._shape)))
    return gradient


def _d_sum(gradient: Tensor, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    whole = _expand(_spread(gradient, x, dim, keepdim), x._shape)
    return whole if whole.dtype is x.dtype else whole.to(x.dtype)


def _accumulator(x: Tensor) -> Any:
    """The dtype of sums: int64 for integers and bools; float32 for 16-bit floats."""
    return _dtype.int64 if not x.dtype.has_gradient else x.dtype


@function(method=True)
@primitive(vjp=lambda g, _, x, dim=None, keepdim=False, dtype=None: (_d_sum(g, x, dim, keepdim),), saves="none")
def sum(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Sum over dims (all of them by default)."""
    kind = as_dtype(dtype) if dtype is not None else _accumulator(x)
    array = array_of(x, _dtype.float32 if x.dtype is _dtype.float16 else None)
    return tensor_of(
        array.sum(
            axis=reduced_dims(dim, x.ndim, "sum"), keepdims=keepdim, dtype="int64" if kind is _dtype.int64 else None
        ),
        kind,
    )


def _sum_by_name(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None, axis: Any = None) -> Tensor:
    return sum(x, dim if axis is None else axis, keepdim, dtype)


sum.by_name = _sum_by_name


@function(method=True)
@op()
def mean(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Mean over dims. TypeError for integers, unless a floating dtype is given."""
    if dtype is not None:
        x = x.to(dtype)
    if not x.dtype.has_gradient:
        raise TypeError(f"mean: takes floating-point tensors, not {describe(x)}")
    if is_half(x):  # whose sum may overflow
        return mean(x.to(_dtype.float32), dim, keepdim).to(x.dtype)
    compute: Any = _mean.call if STATE.enabled and x.requires_grad else _mean.definition
    return compute(x, dim, keepdim)


def _d_mean(g: Tensor, _: Any, x: Tensor, dim: Any, keepdim: bool) -> tuple[Tensor]:
    return (_d_sum(g / _count(x, dim), x, dim, keepdim),)


def _count(x: Tensor, dim: Any) -> float:
    shape = x._shape
    count = prod(shape if dim is None else [shape[d] for d in reduced_dims(dim, len(shape), "mean")])
    return count or float("nan")


@op(vjp=_d_mean, saves="none", name="_mean")
def _mean(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """The mean of floats or complex numbers."""
    return div.call(sum.call(x, dim, keepdim), _count(x, dim))


@function(method=True)
@op()
def var(x: Tensor, dim: Any = None, correction: int | None = 1, keepdim: bool = False) -> Tensor:
    """Variance over dims, divided by n - correction (None: 1)."""
    if isinstance(dim, bool):  # torch's older form: var(unbiased)
        dim, correction = None, int(dim)
    correction = 1 if correction is None else correction
    if type(correction) not in (int, float):  # a number of NumPy's would wrap, and a tensor broadcast
        correction = correction.item() if hasattr(correction, "item") else index(correction)
    if is_half(x):
        return var(x.to(_dtype.float32), dim, correction, keepdim).to(x.dtype)
    if x.dtype.is_complex:  # both parts vary independently
        return var(x.real, dim, correction, keepdim) + var(x.imag, dim, correction, keepdim)
    left = prod(x._shape[d] for d in reduced_dims(dim, x.ndim, "var")) - correction
    if left <= 0 or not x.dtype.has_gradient:
        return _variance.definition(x, dim, correction, keepdim)  # type: ignore[misc]
    return _variance(x, dim, correction, keepdim)


@op(name="_variance")
def _variance(x: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    """var of float32 and float64."""
    left = prod(x._shape[d] for d in reduced_dims(dim, x.ndim, "var")) - correction
    if left <= 0:
        return _unbounded(x - mean(x, dim, True).detach(), dim, keepdim)
    centred = x - mean(x, dim, True)
    return sum(centred * centred, dim, keepdim) / left


@_variance.gradient
def _d_variance(g: Tensor, _: Any, x: Tensor, dim: Any, correction: float, keepdim: bool) -> tuple[Any, ...]:
    left = prod(x._shape[d] for d in reduced_dims(dim, x.ndim, "var")) - correction
    return ((x - mean(x, dim, True)) * (_spread(g, x, dim, keepdim) * (2 / left)),)


@op(
    vjp=lambda g, _, centred, dim, keepdim: (
        _spread(g, centred, dim, keepdim) * where(centred == 0, float("nan"), float("inf")),
    ),
    name="_unbounded",
)
def _unbounded(centred: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """The variance of no more numbers than the correction: infinite, or NaN of what does not differ."""
    squares = sum(centred * centred, dim, keepdim)
    return squares / (squares * 0)


def _mean_by_name(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None, axis: Any = None) -> Tensor:
    return mean(x, dim if axis is None else axis, keepdim, dtype)


def _var_by_name(
    x: Tensor, dim: Any = None, correction: int | None = 1, keepdim: bool = False, unbiased: bool | None = None
) -> Tensor:
    return var(x, dim, correction if unbiased is None else int(unbiased), keepdim)


mean.by_name, var.by_name = _mean_by_name, _var_by_name


@function(method=True)
def std(
    x: Tensor, dim: Any = None, correction: int | None = 1, keepdim: bool = False, *, unbiased: bool | None = None
) -> Tensor:
    """Standard deviation over dims."""
    if is_half(x):  # whose variance may overflow
        return std(x.to(_dtype.float32), dim, correction, keepdim, unbiased=unbiased).to(x.dtype)
    return _root(var(x, dim, correction if unbiased is None else int(unbiased), keepdim))


def _d_root(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    """The gradient at a variance of 0 is 0, as in torch."""
    return (_root_slope(g, y),)


_root_slope = element_function(lambda g, y: (g / (y * 2.0).where(y != 0, 1.0)).where(y != 0, 0.0), 2)


@op(vjp=_d_root, saves="output", name="_root")
def _root(x: Tensor) -> Tensor:
    return x.sqrt()


def _d_extreme(g: Tensor, y: Tensor, x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Equal elements share the gradient, as torch.amax."""
    hit = (x == _spread(y, x, dim, keepdim)).to(g.dtype)
    return (_spread(g, x, dim, keepdim) * hit / sum(hit, dim, True),)


def _extreme(name: str) -> Any:
    def body(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        axes = reduced_dims(dim, x.ndim, name)
        check_extreme(name, x, dim, axes)
        refuse_complex(name, x)
        return tensor_of(getattr(array_of(x), name[1:])(axis=axes, keepdims=keepdim), x.dtype)

    body.__doc__ = f"`{name}` over dims; NaN wins."
    return primitive(vjp=_d_extreme, saves="both", name=name)(body)


def _where_extreme(beside: Any) -> Any:
    """1 where x is the extreme y or NaN, else 0; `beside`: whether an element is beside the extreme."""

    def hit(x: Any, y: Any) -> Any:
        known = y.where(y.abs() < -1.0, 1.0).where(y.abs() > -1.0, 0.0)  # 1, or 0 if y is NaN
        return (known * 0.0).where(beside(x, y), known).where(x.abs() > -1.0, 1.0)

    return element_function(hit, 2)


_where_largest, _where_smallest = _where_extreme(lambda x, y: x < y), _where_extreme(lambda x, y: x > y)


def _d_found_extreme(
    g: Tensor, y: Tensor, x: Tensor, largest: bool, dim: Any = None, keepdim: bool = False
) -> tuple[Tensor, ...]:
    """Equal elements share the gradient, as those that are NaN do, as in torch."""
    if not y._shape and g.dtype is x.dtype is _dtype.float32:
        hit = (_where_largest if largest else _where_smallest)(x, y)
        return (hit * (g / sum(hit)),)
    hit = ((x == _spread(y, x, dim, keepdim)) | (x != x)).to(g.dtype)
    return (_spread(g, x, dim, keepdim) * (hit / sum(hit, dim, True)),)


@op(vjp=_d_found_extreme, saves="both")
def found_extreme(x: Tensor, largest: bool, dim: Any = None, keepdim: bool = False) -> Tensor:
    """amax or amin, where NaN has a gradient."""
    return (amax if largest else amin)(x, dim, keepdim)


amax = function(method=True)(_extreme("amax"))
amin = function(method=True)(_extreme("amin"))


def _arg(name: str) -> Any:
    def body(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        check_place(name, x, dim)
        refuse_complex(name, x)
        if x.dtype is _dtype.bool_:
            raise TypeError(f"{name}: takes numbers, not {describe(x)}")
        return _index_of_extreme(name, x, dim, keepdim)

    body.__doc__ = f"Index (int64) of the {'largest' if name == 'argmax' else 'smallest'} element, the first of equals."
    return primitive(vjp=None, name=name)(body)


def _index_of_extreme(name: str, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    array, function = array_of(x), np.argmax if name == "argmax" else np.argmin
    if dim is None:
        found = np.asarray(function(array.reshape(-1)))
        return tensor_of(found.reshape((1,) * x.ndim) if keepdim else found, _dtype.int64)
    return tensor_of(function(array, axis=normalize_dim(dim, x.ndim, name), keepdims=keepdim), _dtype.int64)


argmax = function(method=True)(_arg("argmax"))
argmin = function(method=True)(_arg("argmin"))


def _squeezed(x: Tensor, dim: int) -> Tensor:
    """A new dense tensor without its dim of size one."""
    if x._requires_grad or STATE.traced or type(x) is not Tensor or not x._shape:
        return x.squeeze(dim)
    d = normalize_dim(dim, len(x._shape), "squeeze")
    shape, strides = x._shape[:d] + x._shape[d + 1 :], x.strides[:d] + x.strides[d + 1 :]
    return make(x._storage, shape, strides, x.dtype, x.offset)


def _max_or_min(whole: Any, index: Any) -> Any:
    kind = found("max" if whole is amax else "min")

    def method(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Tensor):
            return (maximum if whole is amax else minimum)(x, dim)
        if dim is None:
            return found_extreme(x, whole is amax)
        if x.dtype is _dtype.bool_:  # argmax takes numbers only
            indices = index(x.to(_dtype.uint8), dim, True)
        else:
            indices = index(x, dim, True)
        values = x.gather(dim, indices)
        return kind(values, indices) if keepdim else kind(_squeezed(values, dim), _squeezed(indices, dim))

    return method


max = function("max", method=True)(_max_or_min(amax, argmax))
min = function("min", method=True)(_max_or_min(amin, argmin))


def _quantifier(name: str) -> Any:
    def body(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        axes = normalize_dims(dim, x.ndim, name)
        found = getattr(array_of(x), name)(axis=axes, keepdims=keepdim)
        return tensor_of(found, _dtype.uint8 if x.dtype is _dtype.uint8 else _dtype.bool_)

    body.__doc__ = f"Whether {name} element is non-zero: bool, of uint8 in uint8 as torch has it."
    return primitive(name=name)(body)


any = function(method=True)(_quantifier("any"))
all = function(method=True)(_quantifier("all"))


@function(method=True)
def count_nonzero(x: Tensor, dim: Any = None) -> Tensor:
    """The number of elements that are not zero (int64)."""
    return sum(x != 0, dim)


_zero_for_nan = element_function(lambda x: x.where(x.abs() > -1.0, 0.0), 1)
_at_numbers = element_function(lambda g, x: g.where(x.abs() > -1.0, 0.0), 2)


@op(vjp=lambda g, _, x: (_at_numbers(g, x),), name="_without_nan")
def _without_nan(x: Tensor) -> Tensor:
    return _zero_for_nan(x)


@function(method=True)
def nansum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum that takes NaN as zero, in the dtype given."""
    known = x
    if x.dtype.has_gradient:
        known = where(x.isnan(), 0.0, x) if x.dtype.is_complex else _without_nan(x)
    return sum(known, dim, keepdim) if dtype is None else sum(known.to(dtype), dim, keepdim, dtype)


@function(method=True)
def nanmean(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean of the elements that are not NaN. TypeError for integers, unless a floating dtype is given."""
    if dtype is not None:
        x = x.to(dtype)
    if not x.dtype.is_floating_point:
        raise TypeError(f"nanmean: takes floating-point tensors, not {describe(x)}")
    return nansum(x, dim, keepdim) / sum(x.isnan().logical_not(), dim, keepdim)


@printed_as("aminmax")
class Extremes(NamedTuple):
    """The smallest and the largest."""

    min: Tensor
    max: Tensor


@function(method=True)
def aminmax(x: Tensor, dim: Any = None, keepdim: bool = False) -> Extremes:
    """(smallest, largest) over dims."""
    return Extremes(amin(x, dim, keepdim), amax(x, dim, keepdim))


@function()
def var_mean(
    x: Tensor, dim: Any = None, correction: int | None = 1, keepdim: bool = False, *, unbiased: bool | None = None
) -> tuple[Tensor, Tensor]:
    """(variance, mean) over dims."""
    if isinstance(dim, bool):  # torch's older form: var_mean(x, unbiased)
        dim, correction = None, int(dim)
    normalize_dims(dim, x.ndim, "var_mean")
    return x.var(dim, correction if unbiased is None else int(unbiased), keepdim), x.mean(dim, keepdim)


@function()
def std_mean(
    x: Tensor, dim: Any = None, correction: int | None = 1, keepdim: bool = False, *, unbiased: bool | None = None
) -> tuple[Tensor, Tensor]:
    """(std, mean) over dims."""
    if isinstance(dim, bool):  # torch's older form: std_mean(x, unbiased)
        dim, correction = None, int(dim)
    return x.std(dim, correction if unbiased is None else int(unbiased), keepdim), x.mean(dim, keepdim)


@method("sum_to_size")
def _sum_to_size(x: Tensor, *size: Any) -> Tensor:
    """Sums over the dims along which `size` would be broadcast to x's shape."""
    target = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    extra = x.ndim - len(target)
    kept = (1,) * extra + tuple(target)
    if extra < 0 or not {1} >= {n for n, m in zip(kept, x._shape, strict=True) if n != m}:
        raise RuntimeError(f"sum_to_size: {target} is not broadcast to {describe(x)}")
    dims = [d for d, (n, m) in enumerate(zip(kept, x._shape, strict=True)) if n != m or d < extra]
    return x.sum(dims, True).reshape(target) if dims else x

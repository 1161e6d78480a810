"""Reductions, sorting and scans."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..dtype import as_dtype
from ..lazy import np
from ..op import describe, op, primitive
from ..shape import normalize_dim, normalize_dims, reduced_dims
from ..tensor import Tensor
from .base import array_of, computed, tensor_of
from .elementwise import where


def _spread(gradient: Tensor, x: Tensor, dims: Any, keepdim: bool) -> Tensor:
    """The gradient of a reduction, shaped so that it broadcasts over x."""
    found = reduced_dims(dims, x.ndim, "backward")
    if not keepdim:
        gradient = gradient.reshape(tuple(1 if i in found else size for i, size in enumerate(x.shape)))
    return gradient


def _accumulator(x: Tensor) -> Any:
    """Sums of integers and bools are int64; half types add up in float32."""
    return _dtype.int64 if not x.dtype.is_floating_point else x.dtype


@primitive(
    vjp=lambda g, _, x, dim=None, keepdim=False, dtype=None: (_spread(g, x, dim, keepdim).expand(x.shape).to(x.dtype),),
    saves="none",
)
def sum(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Sum over dims (all of them by default)."""
    computed("sum")
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


@op(method=True)
def mean(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Mean over dims. TypeError for integers, unless a floating dtype is given."""
    if dtype is not None:
        x = x.to(dtype)
    if not x.dtype.is_floating_point:
        raise TypeError(f"mean: takes floating-point tensors, not {describe(x)}")
    count = prod(x.shape[d] for d in reduced_dims(dim, x.ndim, "mean"))
    return sum(x, dim, keepdim) / (count if count else float("nan"))


@op(method=True)
def var(x: Tensor, dim: Any = None, correction: int = 1, keepdim: bool = False) -> Tensor:
    """Variance over dims, divided by n - correction."""
    if isinstance(dim, bool):  # torch's older form: var(unbiased)
        dim, correction = None, int(dim)
    count = prod(x.shape[d] for d in reduced_dims(dim, x.ndim, "var"))
    centred = x - mean(x, dim, True)
    left = count - correction
    if left > 0:
        return sum(centred * centred, dim, keepdim) / left
    squares = sum(centred * centred, dim, keepdim)
    return squares / (squares * 0)  # infinite, or NaN of what does not differ


def _mean_by_name(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None, axis: Any = None) -> Tensor:
    return mean(x, dim if axis is None else axis, keepdim, dtype)


def _var_by_name(
    x: Tensor, dim: Any = None, correction: int = 1, keepdim: bool = False, unbiased: bool | None = None
) -> Tensor:
    return var(x, dim, correction if unbiased is None else int(unbiased), keepdim)


mean.by_name, var.by_name = _mean_by_name, _var_by_name


def std(
    x: Tensor, dim: Any = None, correction: int = 1, keepdim: bool = False, *, unbiased: bool | None = None
) -> Tensor:
    """Standard deviation over dims."""
    return var(x, dim, correction if unbiased is None else int(unbiased), keepdim).sqrt()


def _d_extreme(g: Tensor, y: Tensor, x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Shared by equals, as torch.amax."""
    hit = (x == _spread(y, x, dim, keepdim)).to(g.dtype)
    return (_spread(g, x, dim, keepdim) * hit / sum(hit, dim, True),)


def _extreme(name: str) -> Any:
    def body(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        computed(name)
        axes = reduced_dims(dim, x.ndim, name)
        if 0 in [x.shape[d] for d in axes]:
            raise (ValueError if dim is None else IndexError)(
                f"{name}: {describe(x)} has no elements along dim {dim if dim is not None else list(axes)}"
            )
        return tensor_of(getattr(array_of(x), name[1:])(axis=axes, keepdims=keepdim), x.dtype)

    body.__doc__ = f"`{name}` over dims; NaN wins."
    return primitive(vjp=_d_extreme, saves="both", name=name)(body)


amax = _extreme("amax")
amin = _extreme("amin")


def _arg(name: str) -> Any:
    def body(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        computed(name)
        if (x.shape[normalize_dim(dim, x.ndim, name)] if dim is not None and x.ndim else x.numel()) == 0:
            raise IndexError(f"{name}: {describe(x)} has no elements" + ("" if dim is None else f" along dim {dim}"))
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


argmax = _arg("argmax")
argmin = _arg("argmin")


def _max_or_min(whole: Any, index: Any) -> Any:
    def method(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Tensor):
            from .elementwise import maximum, minimum

            return (maximum if whole is amax else minimum)(x, dim)
        if dim is None:
            return whole(x)
        if x.dtype is _dtype.bool_:  # argmax takes numbers only
            indices = index(x.to(_dtype.uint8), dim, True)
        else:
            indices = index(x, dim, True)
        values = x.gather(dim, indices)
        return Found(values, indices) if keepdim else Found(values.squeeze(dim), indices.squeeze(dim))

    return method


max = _max_or_min(amax, argmax)
min = _max_or_min(amin, argmin)


def _quantifier(name: str) -> Any:
    def body(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        computed(name)
        axes = normalize_dims(dim, x.ndim, name)
        found = getattr(array_of(x), name)(axis=axes, keepdims=keepdim)
        return tensor_of(found, _dtype.uint8 if x.dtype is _dtype.uint8 else _dtype.bool_)

    body.__doc__ = f"Whether {name} element is non-zero: bool, of uint8 in uint8 as torch has it."
    return primitive(name=name)(body)


any = _quantifier("any")
all = _quantifier("all")


@primitive(vjp=lambda g, _, x, dim: (g.flip(dim).cumsum(dim).flip(dim),), saves="none")
def cumsum(x: Tensor, dim: int) -> Tensor:
    """Running sum along a dim; of integers in int64."""
    computed("cumsum")
    kind = _accumulator(x)  # named: on wasm32 NumPy would add int32 in 32 bits
    axis = normalize_dim(dim, x.ndim, "cumsum")
    array = array_of(x, None if x.dtype.is_floating_point else kind)
    return tensor_of(np.cumsum(array, axis=axis) if x.ndim else array.copy(), kind)


def _cumsum_by_name(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    return cumsum(x if dtype is None else x.to(dtype), dim)


cumsum.by_name = _cumsum_by_name


@primitive(vjp=None)
def argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Indices (int64) that sort along a dim; equals keep their order."""
    computed("argsort")
    if not x.ndim:
        normalize_dim(dim, 0, "argsort")
        return tensor_of(np.zeros((), np.int64))
    array = array_of(x)
    axis = normalize_dim(dim, x.ndim, "argsort")
    if descending:  # a stable descending order: sort the mirrored array, and mirror back
        size = array.shape[axis]
        order = size - 1 - np.flip(np.argsort(np.flip(array, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(array, axis=axis, kind="stable")
    return tensor_of(order, _dtype.int64)


argsort.by_name = lambda x, dim=-1, descending=False, stable=False: argsort(x, dim, descending)


class Found(NamedTuple):
    """Values, and the places along a dim (int64) where they stand."""

    values: Tensor
    indices: Tensor


def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Found:
    """(values, indices) in order along a dim; equals keep their order, whether `stable` or not."""
    indices = argsort(x, dim, descending)
    return Found(x.gather(dim, indices), indices)


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Found:
    """(values, indices) of the k largest along a dim, in descending order."""
    d = normalize_dim(dim, x.ndim, "topk")
    size = x.shape[d] if x.ndim else 1
    if not 0 <= k <= size:
        raise ValueError(f"topk: k = {k} is not between 0 and {size}")
    indices = argsort(x, dim, largest)
    indices = indices.narrow(dim, 0, k) if x.ndim else indices
    return Found(x.gather(dim, indices), indices)


@op(method=True)
def logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over dims, stable."""
    if not x.dtype.is_floating_point:
        x = x.to(_dtype.float32)
    if not x.numel():  # log of no sum
        return x.sum(dim, keepdim).log()
    top = amax(x, dim, True).detach()
    top = where(top.isfinite(), top, 0.0)
    total = (x - top).exp().sum(dim, keepdim).log()
    return total + (top if keepdim else top.reshape(total.shape))


for _function in (std, max, min, sort, topk):
    setattr(Tensor, {std: "std", max: "max", min: "min", sort: "sort", topk: "topk"}[_function], _function)

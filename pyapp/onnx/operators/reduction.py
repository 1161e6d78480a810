"""Reductions over axes, and running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import array_of, axes_of, element_of, ints, like, scalar

_FLOATS = ("float32", "float64", "float16", "bfloat16")


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of whole numbers by NumPy, in their own type."""
    return lambda x, dims, keep: like(x, function(array_of(x), dims, keep))


def _zero_safe(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    """log(Σ exp x); -inf of nothing."""
    return ops.logsumexp(x, dims, keep) if all(x.shape[d] for d in dims) else x.sum(dims, keep).log()


_REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "ReduceSum": (lambda x, d, k: x.sum(d, k), lambda a, d, k: a.sum(d, keepdims=k)),
    "ReduceMean": (lambda x, d, k: x.mean(d, k), lambda a, d, k: a.mean(d, keepdims=k)),
    "ReduceProd": (lambda x, d, k: _product(x, d, k), lambda a, d, k: a.prod(d, keepdims=k)),
    "ReduceL1": (lambda x, d, k: x.abs().sum(d, k), lambda a, d, k: np.abs(a).sum(d, keepdims=k)),
    "ReduceL2": (lambda x, d, k: _length(x, d, k), lambda a, d, k: np.sqrt(np.square(a).sum(d, keepdims=k))),
    "ReduceSumSquare": (lambda x, d, k: x.square().sum(d, k), lambda a, d, k: np.square(a).sum(d, keepdims=k)),
    "ReduceLogSum": (lambda x, d, k: x.sum(d, k).log(), lambda a, d, k: np.log(a.sum(d, keepdims=k))),
    "ReduceLogSumExp": (_zero_safe, lambda a, d, k: np.log(np.exp(a).sum(d, keepdims=k))),
    "ReduceMax": (lambda x, d, k: _extreme(x, d, k, True), lambda a, d, k: _extreme_of(a, d, k, True)),
    "ReduceMin": (lambda x, d, k: _extreme(x, d, k, False), lambda a, d, k: _extreme_of(a, d, k, False)),
}


def _length(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    return x.square().sum(dims, keep).sqrt()


def _product(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    for at in sorted(dims, reverse=True):
        x = x.prod(at, keep)
    return x


def _extreme(x: Tensor, dims: tuple[int, ...], keep: bool, largest: bool) -> Any:
    if not all(x.shape[d] for d in dims):
        return like(x, _extreme_of(array_of(x), dims, keep, largest))
    return (ops.amax if largest else ops.amin)(x, dims, keep)


def _extreme_of(a: Any, dims: tuple[int, ...], keep: bool, largest: bool) -> Any:
    """The least or greatest element; of no elements, the greatest or least value of the type."""
    if a.dtype.kind == "b":
        return (a.any if largest else a.all)(dims, keepdims=keep)
    limit = (
        (-np.inf if largest else np.inf)
        if a.dtype.kind == "f"
        else getattr(np.iinfo(a.dtype), "min" if largest else "max")
    )
    return (a.max if largest else a.min)(dims, keepdims=keep, initial=limit)


def _reduce(name: str, x: Any, axes: list[int] | None, keepdims: int) -> Any:
    by_tensor, by_array = _REDUCTIONS[name]
    dims = tuple(dict.fromkeys(axes_of(axes if axes is not None else range(x.ndim), x.ndim)))
    if not dims and x.ndim == 0:
        x, single = x.reshape(1), True
        dims = (0,)
        keepdims = 0
    else:
        single = False
    found = (
        by_tensor(x, dims, bool(keepdims)) if element_of(x) in _FLOATS else _whole(by_array)(x, dims, bool(keepdims))
    )
    return found.reshape(()) if single else found


def _declare(name: str, since: int) -> None:
    """From opset `since` on the axes are an input, before an attribute."""

    def by_input(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        given = None if axes is None else ints(axes)
        if not given:
            if noop_with_empty_axes:
                return _without_axes(name, x)
            given = None
        return _reduce(name, x, given, keepdims)

    def by_attribute(x: Any, *, axes: list[int] | None = None, keepdims: int = 1) -> Any:
        return _reduce(name, x, axes or None, keepdims)

    operator(name, since=since, reads=(1,))(by_input)
    operator(name)(by_attribute)


def _without_axes(name: str, x: Any) -> Any:
    """No axis is reduced: each element is."""
    if name in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceLogSumExp"):
        return x
    if name == "ReduceSumSquare":
        return x * x
    return ops.log(x) if name == "ReduceLogSum" else ops.abs(x)


for _name in _REDUCTIONS:
    _declare(_name, 13 if _name == "ReduceSum" else 18)


def _running(x: Any, axis: Tensor, exclusive: int, reverse: int, by_tensor: Any, by_array: Any, first: int) -> Any:
    """Sums or products of the elements so far; `exclusive`: of those before."""
    at = axes_of([int(scalar(axis))], x.ndim)[0]
    floats = element_of(x) in _FLOATS

    def flipped(y: Any) -> Any:
        return y.flip(at) if floats else np.flip(y, at)

    y = x if floats else array_of(x)
    y = flipped(y) if reverse else y
    y = by_tensor(y, at) if floats else by_array(y, at, dtype=y.dtype)
    if exclusive and x.shape[at]:
        head = (slice(None),) * at
        start = (y[(*head, slice(0, 1))] * 0 + first) if not floats else ops.full_like(y[(*head, slice(0, 1))], first)
        parts = [start, y[(*head, slice(0, x.shape[at] - 1))]]
        y = ops.cat(parts, at) if floats else np.concatenate(parts, at)
    y = flipped(y) if reverse else y
    return y if floats else like(x, y)


@operator("CumSum", reads=(1,))
def cum_sum(x: Any, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(x, axis, exclusive, reverse, ops.cumsum, np.cumsum, 0)


@operator("CumProd", reads=(1,))
def cum_prod(x: Any, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Any:
    return _running(x, axis, exclusive, reverse, ops.cumprod, np.cumprod, 1)

"""Tensors that are made: constants, ranges, random numbers, one-hot vectors."""

from __future__ import annotations

from math import ceil
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import (
    ForeignArray,
    array_of,
    axes_of,
    check_room,
    element_name,
    element_of,
    from_stored,
    ints,
    made_of,
    scalar,
)


@operator("Constant")
def constant(
    *, value: Any = None, sparse_value: Any = None, value_float: float | None = None, value_floats: Any = None,
    value_int: int | None = None, value_ints: Any = None, value_string: bytes | None = None, value_strings: Any = None,
    device: Any = None,
) -> Any:  # fmt: skip
    if value is not None or sparse_value is not None:
        return from_stored(value if value is not None else sparse_value, device)
    if value_float is not None or value_floats is not None:
        return made_of(np.array(value_float if value_floats is None else value_floats, np.float32), device=device)
    if value_int is not None or value_ints is not None:
        return made_of(np.array(value_int if value_ints is None else value_ints, np.int64), device=device)
    texts = np.array(value_string.decode() if value_string is not None else [t.decode() for t in value_strings], object)
    return ForeignArray("string", texts)


@operator("ConstantOfShape", reads=(0,))
def constant_of_shape(shape: Tensor, *, value: Any = None, device: Any = None) -> Any:
    sizes = tuple(ints(shape))
    check_room(sizes, "ConstantOfShape", 8)
    if value is None:
        return made_of(np.zeros(sizes, np.float32), device=device)
    one = from_stored(value)
    return made_of(np.full(sizes, array_of(one).reshape(-1)[0]), element_of(one), device)


@operator("EyeLike", shape_only=False)
def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    if x.ndim != 2:
        raise ValueError(f"x has the shape {tuple(x.shape)}, expected a matrix")
    rows, columns = x.shape
    check_room((rows, columns), "EyeLike", 8)
    element = element_of(x) if dtype is None else element_name(dtype)
    return made_of(np.eye(rows, columns, max(-rows, min(k, columns))), element, x.device)


@operator("Range", reads=(0, 1, 2))
def range_(start: Tensor, limit: Tensor, delta: Tensor, *, stash_type: int = 1) -> Any:
    first, last, step = scalar(start), scalar(limit), scalar(delta)
    if step == 0:
        raise ValueError("the step of a range is 0")
    element = element_of(start)
    count = max(0, ceil((last - first) / step))
    check_room((count,), "Range", 8)
    if start.dtype.category == 1:
        return made_of(first + step * np.arange(count), element, start.device)
    wide = "float64" if element == "float64" else "float32"
    found = np.asarray(first, wide) + np.arange(count).astype(wide) * np.asarray(step, wide)
    return made_of(found, element, start.device)


@operator("OneHot", reads=(1,))
def one_hot(indices: Tensor, depth: Tensor, values: Any, *, axis: int = -1) -> Any:
    """values[1] where the new axis is the index, values[0] elsewhere; negative indices count from the end."""
    count = int(scalar(depth))
    check_room((*indices.shape, count), "OneHot", 8)
    at = axes_of([axis], indices.ndim + 1)[0]
    wanted = np.expand_dims(array_of(indices).astype(np.int64), at)
    numbers = np.arange(count).reshape([-1 if d == at else 1 for d in range(indices.ndim + 1)])
    off, on = array_of(values).reshape(-1)
    hit = np.where(wanted < 0, wanted + count, wanted) == numbers
    return made_of(np.where(hit, on, off), element_of(values), indices.device)


def _generator(seed: float | None) -> Any:
    """Numbers of the seed that the node has, else of NumPy's global state."""
    if seed is None:
        return np.random
    return np.random.RandomState(int(np.float32(seed).view(np.uint32)))


@operator("RandomNormal", changes=True)
def random_normal(
    *, shape: list[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None,
    device: Any = None,
) -> Any:  # fmt: skip
    check_room(shape, "RandomNormal", 8)
    return made_of(_generator(seed).normal(mean, scale, shape), element_name(dtype), device)


@operator("RandomUniform", changes=True)
def random_uniform(
    *, shape: list[int], dtype: int = 1, low: float = 0.0, high: float = 1.0, seed: float | None = None,
    device: Any = None,
) -> Any:  # fmt: skip
    check_room(shape, "RandomUniform", 8)
    return made_of(_generator(seed).uniform(low, high, shape), element_name(dtype), device)


@operator("RandomNormalLike", changes=True)
def random_normal_like(
    x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    element = element_of(x) if dtype is None else element_name(dtype)
    return made_of(_generator(seed).normal(mean, scale, x.shape), element, x.device)


@operator("RandomUniformLike", changes=True)
def random_uniform_like(
    x: Any, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Any:
    element = element_of(x) if dtype is None else element_name(dtype)
    return made_of(_generator(seed).uniform(low, high, x.shape), element, x.device)


@operator("Bernoulli", changes=True)
def bernoulli(x: Any, *, dtype: int | None = None, seed: float | None = None) -> Any:
    """1 with the probability that x says, else 0."""
    element = element_of(x) if dtype is None else element_name(dtype)
    return made_of(_generator(seed).uniform(size=x.shape) < array_of(x), element, x.device)


@operator("Multinomial", changes=True)
def multinomial(x: Any, *, sample_size: int = 1, dtype: int = 6, seed: float | None = None) -> Any:
    """Classes drawn for each row of unnormalised log-probabilities (N, C) → (N, sample_size)."""
    check_room((x.shape[0], sample_size, x.shape[1]), "Multinomial", 1)
    chances = np.cumsum(array_of(ops.softmax(x.to("float32"), 1)), 1)
    drawn = _generator(seed).uniform(size=(x.shape[0], sample_size))
    found = (drawn[:, :, None] >= chances[:, None, :-1]).sum(-1)
    return made_of(found, element_name(dtype), x.device)

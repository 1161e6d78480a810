"""Arguments of the functions of keras.ops: tensors of lists and numbers, axes, channels that come first."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from ..engine import DType, Tensor, as_dtype, ops
from ..engine.lazy import np
from ..engine.ops.promotion import promote_types
from ..train.batches import is_array
from ..train.floats import floatx
from .settings import SETTINGS

__all__ = [
    "as_floats", "as_tensor", "axes_of", "channels_last", "common_dtype", "is_channels_first",
    "is_wide_unsigned", "number_dtype", "sum_dtype",
]  # fmt: skip


def as_tensor(x: Any, dtype: Any = None) -> Tensor:
    """A tensor. Whole numbers that are not an array are int32, as in Keras, or int64 where they are too large for that;
    floats that are none have the dtype of `set_floatx`."""
    found = ops.as_tensor(x)
    if found.dtype.name == "float32" and not is_array(x) and not _has_arrays(x) and floatx() != "float32":
        found = ops.as_tensor(np.asarray(x, "float64")).to(floatx())
    if dtype is not None:
        return found.to(as_dtype(dtype))
    if found.dtype.name != "int64" or is_array(x) or _has_arrays(x):
        return found
    small = found.to("int32")
    return small if bool((small == found).all()) else found


def _has_arrays(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and any(is_array(one) or _has_arrays(one) for one in x)


def as_floats(x: Any) -> Tensor:
    """Floats as they are, whole numbers and truth values in the dtype of `set_floatx`."""
    values = as_tensor(x)
    return values if values.dtype.is_floating_point else values.to(floatx())


_WIDE_UNSIGNED = ("uint16", "uint32", "uint64")


def is_wide_unsigned(first: DType, second: DType) -> bool:
    """Whether one of two dtypes is an unsigned one of more than a byte, which pyapp's own functions do not mix."""
    return first.name in _WIDE_UNSIGNED or second.name in _WIDE_UNSIGNED


def common_dtype(first: DType, second: DType) -> DType:
    """The dtype of a result of tensors of two dtypes, whatever their dims are. Large unsigned numbers with other whole
    numbers are what holds both, and float32 where nothing does (the lattice of Keras and JAX)."""
    whole = not (first.is_floating_point or second.is_floating_point or first.is_complex or second.is_complex)
    if first is second or not whole or not is_wide_unsigned(first, second):
        return promote_types(first, second)
    if "bool" in (first.name, second.name):
        return second if first.name == "bool" else first
    unsigned = [kind for kind in (first, second) if kind.name.startswith("uint")]
    if len(unsigned) == 2:
        return max(unsigned, key=lambda kind: kind.itemsize)
    signed = second if unsigned[0] is first else first
    bits = 8 * max(signed.itemsize, 2 * unsigned[0].itemsize)
    return as_dtype(f"int{bits}" if bits <= 64 else "float32")


def number_dtype(number: bool | int | float | type, other: DType) -> DType:
    """The dtype that a Python number has beside a tensor of another: that one where it holds numbers of this kind."""
    kind = number if isinstance(number, type) else type(number)
    if kind is float and not (other.is_floating_point or other.is_complex):
        return as_dtype(floatx())
    return as_dtype("int32") if kind is int and other.name == "bool" else other


def axes_of(axis: Any, x: Tensor) -> list[int]:
    """The axes, counted from the first: one, several, or all of them for None."""
    given = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return [dim_of(k, x.ndim) for k in given]


def dim_of(axis: Any, dims: int) -> int:
    """An axis, counted from the first of `dims`; of a number alone, 0. IndexError where there is no such axis."""
    try:
        place = index(axis)
    except TypeError:
        raise TypeError(f"an axis is an integer, not {axis!r:.40}") from None
    most = max(dims, 1)
    if not -most <= place < most:
        raise IndexError(f"there is no axis {place}: there are {dims} dims")
    return place % most


def sum_dtype(x: Tensor) -> Any:
    """The dtype of sums and products: short whole numbers and truth values are added up in int32."""
    return as_dtype("int32") if x.dtype.name in ("bool", "int8", "int16", "uint8") else x.dtype


def is_channels_first(name: str, data_format: str | None) -> bool:
    """Whether the channels come first. ValueError unless it is channels_first, channels_last or None."""
    if data_format not in (None, "channels_first", "channels_last"):
        raise ValueError(f"{name}: data_format is channels_first or channels_last, not {data_format!r:.40}")
    return data_format == "channels_first"


def layer_is_channels_first(name: str, data_format: str | None) -> bool:
    """is_channels_first, where None means what `keras.config.set_image_data_format` set."""
    return is_channels_first(name, SETTINGS.data_format if data_format is None else data_format)


def share_of(name: str, value: Any) -> float:
    """A number from 0 to 1. ValueError otherwise, with the name of the layer and argument."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{name} is a number from 0 to 1, not {value!r:.40}")
    return value


def positive_integer(name: str, value: Any) -> int:
    """A whole number from 1 on. ValueError otherwise, with the name of the layer and argument."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is a positive integer, not {value!r:.40}")
    return value


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of several words, in lower case. ValueError otherwise, with the name of the layer and argument."""
    if not isinstance(value, str) or value.lower() not in allowed:
        raise ValueError(f"{name} is {' or '.join(allowed)}, not {value!r:.40}")
    return value.lower()


def channels_last(axis: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For a function of tensors with channels at the end: with `data_format="channels_first"` its first argument has
    them at `axis`, and so has its result."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        first = next(iter(signature.parameters))

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            if not is_channels_first(function.__name__, given.pop("data_format", None)):
                return function(**given)
            given[first] = as_tensor(given[first]).movedim(axis, -1)
            return function(**given).movedim(-1, axis)

        return call

    return decorate

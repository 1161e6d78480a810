"""Functions of tensors by the names of keras.ops. What is not here comes from pyapp, by NumPy's names for arguments
(`axis`, `keepdims`). Each takes symbolic tensors too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyapp

from ..engine import Tensor, as_dtype
from . import activations
from .core import Function, KerasTensor, flatten, record, unique_name


def convert_to_tensor(x: Any, dtype: Any = None) -> Tensor:
    found = pyapp.as_tensor(x)
    return found if dtype is None else found.to(as_dtype(dtype))


def convert_to_numpy(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, Tensor) else x


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Tensor:
    """start, start + step, … below stop; one number is the stop. int32 for whole numbers, float32 otherwise."""
    first, last = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(value, int) for value in (first, last, step or 1))
    return pyapp.arange(first, last, step or 1, dtype=as_dtype(dtype or ("int32" if whole else "float32")))


def size(x: Any) -> int:
    return int(pyapp.as_tensor(x).numel())


def shape(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape)


def cast(x: Any, dtype: Any) -> Tensor:
    return pyapp.as_tensor(x).to(as_dtype(dtype))


def stop_gradient(x: Tensor) -> Tensor:
    return x.detach()


def max(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    return pyapp.amax(x, () if axis is None else axis, keepdim=keepdims)


def min(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    return pyapp.amin(x, () if axis is None else axis, keepdim=keepdims)


def concatenate(xs: Any, axis: int = 0) -> Tensor:
    return pyapp.cat(list(xs), axis)


def stack(x: Any, axis: int = 0) -> Tensor:
    return pyapp.stack(list(x), axis)


def expand_dims(x: Tensor, axis: int) -> Tensor:
    return x.unsqueeze(axis)


def transpose(x: Tensor, axes: Any = None) -> Tensor:
    return x.permute(*(range(x.ndim - 1, -1, -1) if axes is None else axes))


def reshape(x: Tensor, newshape: Any) -> Tensor:
    return x.reshape(tuple(newshape))


def repeat(x: Tensor, repeats: Any, axis: int | None = None) -> Tensor:
    return x.repeat_interleave(repeats, axis)


def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Tensor:
    ids = pyapp.as_tensor(x).to("int64")
    found = (ids.unsqueeze(-1) == pyapp.arange(num_classes)).to(as_dtype(dtype or "float32"))
    return found if axis == -1 else found.movedim(-1, axis)


def split(x: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(pyapp.tensor_split(x, indices_or_sections, axis))


def take(x: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    ids = pyapp.as_tensor(indices).to("int64")
    if axis is None:
        return x.reshape(-1)[ids]
    found = x.index_select(axis, ids.reshape(-1))
    axis %= x.ndim
    return found.reshape(*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])


def rsqrt(x: Tensor) -> Tensor:
    return pyapp.rsqrt(x)


def __getattr__(name: str) -> Any:
    """pyapp's function, or the activation, of that name."""
    found = vars(activations).get(name) or getattr(pyapp, name, None)
    if name[:1] == "_" or not callable(found):
        raise AttributeError(f"keras.ops has no function {name!r}")
    made = globals()[name] = _for_symbols(found, name)
    return made


def _for_symbols(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function, assigned=("__doc__",), updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(leaf, KerasTensor) for leaf in flatten([list(args), kwargs])):
            return record(Function(function, name=unique_name(name)), args, kwargs)
        return function(*args, **kwargs)

    call.__name__ = name
    return call


for _name, _value in list(globals().items()):
    if (
        callable(_value)
        and getattr(_value, "__module__", "") == __name__
        and _name[0] != "_"
        and not isinstance(_value, type)
    ):
        globals()[_name] = _for_symbols(_value, _name)

"""Functions of tensors by the names of keras.ops. What is not here comes from pyapp, by NumPy's names for arguments
(`axis`, `keepdims`). Each takes symbolic tensors too.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import pyapp

from ..engine import Tensor, as_dtype
from ..train.batches import is_array
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


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the squared distances from the mean."""
    return pyapp.var(pyapp.as_tensor(x), axis, correction=0, keepdim=keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The root of `var`."""
    return pyapp.std(pyapp.as_tensor(x), axis, correction=0, keepdim=keepdims)


def sort(x: Tensor, axis: int = -1) -> Tensor:
    return pyapp.sort(x, axis)[0]


def pad(x: Tensor, pad_width: Any, mode: str = "constant", constant_values: float | None = None) -> Tensor:
    """`pad_width`: a number, a pair, or a pair for each dim."""
    if isinstance(pad_width, int):
        pad_width = (pad_width, pad_width)
    pairs = [pad_width] * x.ndim if isinstance(pad_width[0], int) else list(pad_width)
    pairs = [pairs[0]] * x.ndim if len(pairs) == 1 else pairs
    widths = [int(n) for pair in reversed(pairs) for n in pair]
    kinds = {"symmetric": None, "constant": "constant", "reflect": "reflect"}
    if kinds.get(mode) is None:
        raise ValueError(f"pad: mode is constant or reflect, not {mode!r:.40}")
    if mode == "constant":
        return pyapp.nn.functional.pad(x, widths, value=constant_values or 0.0)
    return pyapp.nn.functional.pad(x, widths, mode=mode)


def roll(x: Tensor, shift: Any, axis: Any = None) -> Tensor:
    return pyapp.roll(x, shift, axis)


def flip(x: Tensor, axis: Any = None) -> Tensor:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return pyapp.flip(x, tuple(axes))


def dot(x1: Tensor, x2: Tensor) -> Tensor:
    """The sum over the last dim of `x1` and the last but one of `x2`, or the last if it has one dim."""
    if x1.ndim == 0 or x2.ndim == 0:
        return x1 * x2
    return pyapp.tensordot(x1, x2, ([x1.ndim - 1], [builtins.max(x2.ndim - 2, 0)]))


def scatter(indices: Any, values: Any, shape: Any) -> Tensor:
    """Zeros of a shape, to which values are added at the places `indices` (N, dims)."""
    places, given = pyapp.as_tensor(indices).to("int64"), pyapp.as_tensor(values)
    found = pyapp.zeros(*shape, dtype=given.dtype)
    return found.index_put(tuple(places.unbind(-1)), given, accumulate=True)


def meshgrid(*x: Any, indexing: str = "xy") -> list[Tensor]:
    return list(pyapp.meshgrid(*(pyapp.as_tensor(one) for one in x), indexing=indexing))


def top_k(x: Tensor, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    values, places = pyapp.topk(x, k, -1)
    return values, places.to("int32")


def take_along_axis(x: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    ids = pyapp.as_tensor(indices).to("int64")
    return x.reshape(-1).gather(0, ids.reshape(-1)) if axis is None else x.gather(axis, ids)


def unstack(x: Tensor, num: int | None = None, axis: int = 0) -> list[Tensor]:
    return list(x.unbind(axis))


def segment_sum(data: Tensor, segment_ids: Any, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    ids = pyapp.as_tensor(segment_ids).to("int64")
    count = int(ids.max().item()) + 1 if num_segments is None else num_segments
    return pyapp.zeros(count, *data.shape[1:], dtype=data.dtype).index_add(0, ids, data)


def slice(inputs: Tensor, start_indices: Any, shape: Any) -> Tensor:
    for axis, (start, size) in enumerate(zip(start_indices, shape, strict=True)):
        inputs = inputs.narrow(axis, int(start), int(size))
    return inputs


def average(x: Tensor, axis: Any = None, weights: Any = None) -> Tensor:
    if weights is None:
        return x.mean() if axis is None else x.mean(axis)
    weights = pyapp.as_tensor(weights).to(x.dtype)
    if axis is not None and weights.ndim == 1 < x.ndim:
        weights = weights.reshape(*(-1 if k == axis % x.ndim else 1 for k in range(x.ndim)))
    total, count = x * weights, weights.expand(x.shape)
    return total.sum() / count.sum() if axis is None else total.sum(axis) / count.sum(axis)


def copy(x: Tensor) -> Tensor:
    return x.clone()


def array(x: Any, dtype: Any = None) -> Tensor:
    return convert_to_tensor(x, dtype)


def append(x1: Tensor, x2: Tensor, axis: int | None = None) -> Tensor:
    return pyapp.cat([x1.reshape(-1), x2.reshape(-1)]) if axis is None else pyapp.cat([x1, x2], axis)


def identity(n: int, dtype: Any = None) -> Tensor:
    return pyapp.eye(n, dtype=as_dtype(dtype or "float32"))


def ndim(x: Any) -> int:
    return int(pyapp.as_tensor(x).ndim)


def power(x1: Any, x2: Any) -> Tensor:
    return pyapp.pow(x1, x2)


def mod(x1: Any, x2: Any) -> Tensor:
    return pyapp.remainder(x1, x2)


def moments(x: Tensor, axes: Any, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    mean = x.mean(axes, True)
    variance = (x - mean).square().mean(axes, keepdims)
    return (mean if keepdims else x.mean(axes)), variance


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
        if builtins.any(isinstance(leaf, KerasTensor) for leaf in flatten([list(args), kwargs])):
            return record(Function(function, name=unique_name(name)), args, kwargs)
        return function(*(pyapp.as_tensor(one) if is_array(one) else one for one in args), **kwargs)

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

"""Functions of tensors by the names of keras.ops. What is not here comes from pyapp, by NumPy's names for arguments
(`axis`, `keepdims`). Each takes symbolic tensors too.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import pyapp

from ..engine import Tensor, as_dtype
from ..train.batches import is_array
from . import activations, control_flow, image_functions, nn_functions
from .core import Function, KerasTensor, flatten, record, unique_name


def convert_to_tensor(x: Any, dtype: Any = None) -> Tensor:
    found = pyapp.as_tensor(x)
    return found if dtype is None else found.to(as_dtype(dtype))


def convert_to_numpy(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, Tensor) else x


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Tensor:
    """start, start + step, … below stop; one number is the stop. int32 for whole numbers, float32 otherwise."""
    first, last = (0, start) if stop is None else (start, stop)
    whole = builtins.all(isinstance(value, int) for value in (first, last, step or 1))
    return pyapp.arange(first, last, step or 1, dtype=as_dtype(dtype or ("int32" if whole else "float32")))


def size(x: Any) -> int:
    return int(pyapp.as_tensor(x).numel())


def shape(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape)


def dtype(x: Any) -> str:
    """The name of the dtype, such as "float32"."""
    return pyapp.as_tensor(x).dtype.name


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


def expand_dims(x: Tensor, axis: Any) -> Tensor:
    axes = [axis] if isinstance(axis, int) else list(axis)
    for place in sorted(k % (x.ndim + len(axes)) for k in axes):
        x = x.unsqueeze(place)
    return x


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
    ids = pyapp.where(ids < 0, ids + x.shape[axis], ids)
    found = x.index_select(axis, ids.reshape(-1))
    axis %= x.ndim
    return found.reshape(*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the squared distances from the mean."""
    return pyapp.var(_floats(x), axis, correction=0, keepdim=keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The root of `var`."""
    return pyapp.std(_floats(x), axis, correction=0, keepdim=keepdims)


def sort(x: Tensor, axis: int = -1) -> Tensor:
    return pyapp.sort(x, axis)[0]


def argsort(x: Tensor, axis: int | None = -1) -> Tensor:
    """The places of the sorted elements, int32; of all of them if the axis is None."""
    return (pyapp.argsort(x.reshape(-1)) if axis is None else pyapp.argsort(x, axis, stable=True)).to("int32")


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest element, int32."""
    return _place(pyapp.argmax, x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest element, int32."""
    return _place(pyapp.argmin, x, axis, keepdims)


def _place(find: Any, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    values = pyapp.as_tensor(x)
    values = values.to("uint8") if values.dtype is pyapp.bool else values
    found = find(values.reshape(-1), 0) if axis is None else find(values, axis, keepdims)
    return (found.reshape((1,) * values.ndim) if axis is None and keepdims else found).to("int32")


def pad(x: Tensor, pad_width: Any, mode: str = "constant", constant_values: float | None = None) -> Tensor:
    """`pad_width`: a number, a pair, or a pair for each dim."""
    if isinstance(pad_width, int):
        pad_width = (pad_width, pad_width)
    pairs = [pad_width] * x.ndim if isinstance(pad_width[0], int) else list(pad_width)
    pairs = [pairs[0]] * x.ndim if len(pairs) == 1 else pairs
    widths = [int(n) for pair in reversed(pairs) for n in pair]
    if mode not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"pad: mode is constant, reflect or symmetric, not {mode!r:.40}")
    if mode == "symmetric":
        for axis, (before, after) in enumerate(pairs):
            start, end = x.narrow(axis, 0, before), x.narrow(axis, x.shape[axis] - after, after)
            x = pyapp.cat([start.flip(axis), x, end.flip(axis)], axis)
        return x
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
    x = _floats(x)
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


def equal(x1: Any, x2: Any) -> Tensor:
    """Where the elements are equal."""
    return pyapp.eq(pyapp.as_tensor(x1), x2)


def not_equal(x1: Any, x2: Any) -> Tensor:
    return pyapp.ne(pyapp.as_tensor(x1), x2)


def divide_no_nan(x1: Any, x2: Any) -> Tensor:
    """x1 / x2, and 0 where x2 is 0."""
    a, b = pyapp.as_tensor(x1), pyapp.as_tensor(x2)
    return pyapp.where(b == 0, 0.0, a / pyapp.where(b == 0, 1.0, b))


def round(x: Tensor, decimals: int = 0) -> Tensor:
    return pyapp.round(x, decimals=decimals) if decimals else pyapp.round(x)


def clip(x: Any, x_min: Any, x_max: Any) -> Tensor:
    return pyapp.clamp(pyapp.as_tensor(x), x_min, x_max)


def real(x: Tensor) -> Tensor:
    return x


def imag(x: Tensor) -> Tensor:
    return pyapp.zeros_like(x)


def heaviside(x1: Tensor, x2: Any) -> Tensor:
    return pyapp.heaviside(x1, pyapp.as_tensor(x2).to(x1.dtype))


def cbrt(x: Tensor) -> Tensor:
    return x.sign() * x.abs() ** (1 / 3)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean; of whole numbers in float32."""
    values = _floats(x)
    return values.mean(tuple(builtins.range(values.ndim)) if axis is None else axis, keepdims)


def _floats(x: Any) -> Tensor:
    """Floats as they are, whole numbers and truth values in float32."""
    values = pyapp.as_tensor(x)
    return values if values.dtype.is_floating_point else values.float()


def prod(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    for place in sorted((k % x.ndim for k in _axes(axis, x)), reverse=True):
        x = pyapp.prod(x, place, keepdim=keepdims)
    return x


def _axes(axis: Any, x: Tensor) -> list[int]:
    return list(builtins.range(x.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)


def cumsum(x: Tensor, axis: int | None = None, dtype: Any = None) -> Tensor:
    found = pyapp.cumsum(x.reshape(-1), 0) if axis is None else pyapp.cumsum(x, axis)
    return found if dtype is None else found.to(as_dtype(dtype))


def cumprod(x: Tensor, axis: int | None = None, dtype: Any = None) -> Tensor:
    found = pyapp.cumprod(x.reshape(-1), 0) if axis is None else pyapp.cumprod(x, axis)
    return found if dtype is None else found.to(as_dtype(dtype))


def median(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle value, or the mean of the two in the middle."""
    return quantile(x, 0.5, axis, keepdims=keepdims)


def nanmedian(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`median` of what is a number."""
    return pyapp.nanquantile(_floats(x), 0.5, axis, keepdim=keepdims)


def quantile(x: Tensor, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    x = _floats(x)
    shares = pyapp.as_tensor(q).to(x.dtype)
    if isinstance(axis, (tuple, list)):
        places = [k % x.ndim for k in axis]
        kept = [k for k in builtins.range(x.ndim) if k not in places]
        found = quantile(x.permute(*kept, *places).reshape(*(x.shape[k] for k in kept), -1), q, -1, method)
        shape = [1 if k in places else x.shape[k] for k in builtins.range(x.ndim)]
        return found.reshape(*shares.shape, *shape) if keepdims else found
    return pyapp.quantile(x, shares, axis, keepdim=keepdims, interpolation=method)


def percentile(x: Tensor, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    return quantile(x, _floats(q) / 100, axis, method, keepdims)


def logsumexp(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    return pyapp.logsumexp(x, tuple(_axes(axis, x)), keepdim=keepdims)


def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors, or of matrices for two axes."""
    return pyapp.linalg.norm(x, ord, tuple(axis) if isinstance(axis, list) else axis, keepdims)


def ptp(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def nanmax(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    return max(pyapp.where(x.isnan(), float("-inf"), x), axis, keepdims)


def nanmin(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    return min(pyapp.where(x.isnan(), float("inf"), x), axis, keepdims)


def digitize(x: Tensor, bins: Any) -> Tensor:
    """The number of the range between `bins` in which each element lies."""
    return pyapp.searchsorted(pyapp.as_tensor(bins).to(x.dtype), x.contiguous(), right=True).to("int32")


def segment_max(data: Tensor, segment_ids: Any, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    ids = pyapp.as_tensor(segment_ids).to("int64")
    count = int(ids.max().item()) + 1 if num_segments is None else num_segments
    first = pyapp.full((count, *data.shape[1:]), float("-inf"), dtype=data.dtype)
    places = ids.reshape(-1, *(1,) * (data.ndim - 1)).expand(data.shape)
    return first.scatter_reduce(0, places, data, "amax")


def in_top_k(targets: Any, predictions: Tensor, k: int) -> Tensor:
    """Whether the score of the target is one of the k highest."""
    ids = pyapp.as_tensor(targets).to("int64")
    return (predictions > predictions.gather(-1, ids.unsqueeze(-1))).sum(-1) < k


def array_split(x: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(pyapp.tensor_split(x, indices_or_sections, axis))


def tril(x: Tensor, k: int = 0) -> Tensor:
    return pyapp.tril(x, k)


def triu(x: Tensor, k: int = 0) -> Tensor:
    return pyapp.triu(x, k)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    return pyapp.tril(pyapp.ones(N, N if M is None else M, dtype=as_dtype(dtype or "float32")), k)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    rows, columns = pyapp.arange(N).unsqueeze(-1), pyapp.arange(N if M is None else M)
    return (columns - rows == k).to(as_dtype(dtype or "float32"))


def multi_hot(inputs: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Tensor:
    found = one_hot(inputs, num_classes, dtype=dtype)
    return found.amax(-2) if found.ndim > 1 else found


def slice_update(inputs: Tensor, start_indices: Any, updates: Tensor) -> Tensor:
    """A copy with `updates` from these places on."""
    found = inputs.clone()
    where = tuple(
        builtins.slice(int(start), int(start) + size) for start, size in zip(start_indices, updates.shape, strict=True)
    )
    found[where] = updates.to(inputs.dtype)
    return found


def scatter_update(inputs: Tensor, indices: Any, updates: Any, reduction: Any = None) -> Tensor:
    """A copy with the values at the places `indices` (N, dims)."""
    if reduction not in (None, "add"):
        raise NotImplementedError(f"scatter_update: reduction is None or 'add', not {reduction!r}")
    places = tuple(pyapp.as_tensor(indices).to("int64").unbind(-1))
    return inputs.index_put(places, pyapp.as_tensor(updates).to(inputs.dtype), accumulate=reduction == "add")


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """The choice of the first condition that holds."""
    found = pyapp.as_tensor(default)
    for condition, choice in builtins.reversed(list(builtins.zip(condlist, choicelist, strict=True))):
        found = pyapp.where(pyapp.as_tensor(condition), pyapp.as_tensor(choice), found)
    return found


def tensordot(x1: Tensor, x2: Tensor, axes: Any = 2) -> Tensor:
    return pyapp.tensordot(x1, x2, axes)


def outer(x1: Any, x2: Any) -> Tensor:
    """The products of all pairs of elements."""
    return pyapp.outer(pyapp.as_tensor(x1).reshape(-1), pyapp.as_tensor(x2).reshape(-1))


def inv(x: Tensor) -> Tensor:
    return pyapp.linalg.inv(x)


def det(x: Tensor) -> Tensor:
    return pyapp.linalg.det(x)


def cholesky(x: Tensor) -> Tensor:
    return pyapp.linalg.cholesky(x)


def solve(a: Tensor, b: Tensor) -> Tensor:
    return pyapp.linalg.solve(a, b)


def svd(x: Tensor, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return pyapp.linalg.svd(x, full_matrices=full_matrices) if compute_uv else pyapp.linalg.svdvals(x)


def eigh(x: Tensor) -> Any:
    return pyapp.linalg.eigh(x)


def lstsq(a: Tensor, b: Tensor, rcond: Any = None) -> Tensor:
    return pyapp.linalg.lstsq(a, b)[0]


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    """`num` numbers from start to stop, without the last one if not `endpoint`."""
    first, last = (pyapp.as_tensor(value).float() for value in (start, stop))
    count = builtins.max(num - 1 if endpoint else num, 1)
    steps = pyapp.arange(num, dtype=as_dtype("float32")).reshape(-1, *(1,) * (last - first).ndim)
    found = (first + steps * ((last - first) / count)).to(as_dtype(dtype or "float32")).movedim(0, axis)
    return (found, (last - first) / count) if retstep else found


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    if x1 is None and x2 is None:
        return nonzero(condition)
    return pyapp.where(pyapp.as_tensor(condition).to("bool"), x1, x2)


def nonzero(x: Tensor) -> Any:
    """The places of what is not 0: a tensor for each dim."""
    return tuple(place.to("int32") for place in pyapp.nonzero(x).unbind(-1))


def saturate_cast(x: Tensor, dtype: Any) -> Tensor:
    """Another dtype, whose limits are kept."""
    kind = as_dtype(dtype)
    limits: Any = pyapp.finfo(kind) if kind.is_floating_point else pyapp.iinfo(kind)
    return x.clamp(limits.min, limits.max).to(kind)


def zeros(shape: Any, dtype: Any = None) -> Tensor:
    return pyapp.zeros(shape, dtype=as_dtype(dtype or "float32"))


def ones(shape: Any, dtype: Any = None) -> Tensor:
    return pyapp.ones(shape, dtype=as_dtype(dtype or "float32"))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    return pyapp.full(shape, fill_value, dtype=as_dtype(dtype or "float32"))


def is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


@functools.cache  # not a name of this module: it could hide a function of Python's
def __getattr__(name: str) -> Any:
    """pyapp's function, or the activation, of that name; `linalg`, `nn` and `numpy` have all names of this module."""
    if name in ("linalg", "nn", "numpy"):
        return sys.modules[__name__]
    found = vars(activations).get(name) or getattr(pyapp, name, None)
    if name[:1] == "_" or not callable(found):
        raise AttributeError(f"keras.ops has no function {name!r}")
    return _for_symbols(found, name)


def _tensors(value: Any) -> Any:
    """An array, or the arrays of a list, as tensors."""
    if isinstance(value, (list, tuple)) and builtins.any(is_array(one) for one in value):
        return [_tensors(one) for one in value]
    return pyapp.as_tensor(value) if is_array(value) else value


def _for_symbols(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    others = function is getattr(pyapp, name, None)  # its first arguments have other names than Keras'

    @functools.wraps(function, assigned=("__doc__",), updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if others:
            args = (*args, *(kwargs.pop(key) for key in ("x", "x1", "x2", "xs") if key in kwargs))
        if builtins.any(isinstance(leaf, KerasTensor) for leaf in flatten([list(args), kwargs])):
            return record(Function(function, name=unique_name(name)), args, kwargs)
        return function(*(_tensors(one) for one in args), **{key: _tensors(one) for key, one in kwargs.items()})

    call.__name__ = name
    return call


image = types.SimpleNamespace(
    **{_name: _for_symbols(getattr(image_functions, _name), _name) for _name in image_functions.__all__}
)
for _module in (control_flow, nn_functions):
    for _name in _module.__all__:
        globals()[_name] = _for_symbols(getattr(_module, _name), _name)
for _name, _value in list(globals().items()):
    if (
        callable(_value)
        and getattr(_value, "__module__", "") == __name__
        and _name[0] != "_"
        and not isinstance(_value, type)
    ):
        globals()[_name] = _for_symbols(_value, _name)

"""Functions of tensors by the names of keras.ops: here what makes tensors, changes their shape or their dtype; the
others are in the modules of `_PARTS`. What is in neither comes from pyapp, by NumPy's names for arguments (`axis`,
`keepdims`). Each takes symbolic tensors too.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyapp

from ..engine import Tensor, as_dtype
from ..engine.autograd_function import Function as AutogradFunction
from ..train.batches import is_array
from ..train.floats import floatx
from ..train.names import unique_name
from . import (
    activations,
    control_flow,
    image_functions,
    image_warps,
    linalg_functions,
    nan_functions,
    nn_functions,
    pair_functions,
    placing_functions,
    reducing_functions,
    shaping_functions,
    spectral_functions,
)
from .arguments import as_floats, as_tensor, axes_of, dim_of
from .importable import importable
from .operations import Function
from .pair_functions import operands
from .structures import flatten
from .symbolic_tensors import KerasTensor, record

_PARTS = (
    control_flow, linalg_functions, nan_functions, nn_functions, pair_functions, placing_functions, reducing_functions,
    shaping_functions, spectral_functions,
)  # fmt: skip


def convert_to_tensor(x: Any, dtype: Any = None, sparse: bool | None = None, ragged: bool | None = None) -> Tensor:
    """A tensor of an array, a number or lists; whole numbers are int32."""
    if sparse or ragged:
        raise NotImplementedError("convert_to_tensor: there are no sparse and no ragged tensors")
    return as_tensor(x, dtype)


def array(x: Any, dtype: Any = None) -> Tensor:
    """A tensor with the values of an array, a number or lists; whole numbers are int32."""
    return as_tensor(x, dtype)


def convert_to_numpy(x: Any) -> Any:
    """A NumPy array with a copy of the values."""
    return x.detach().numpy().copy() if isinstance(x, Tensor) else x  # a weight may change later


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Tensor:
    """start, start + step, … below stop; one number is the stop. int32 for whole numbers, float32 otherwise."""
    first, last = (0, start) if stop is None else (start, stop)
    whole = builtins.all(isinstance(value, int) for value in (first, last, step or 1))
    return pyapp.arange(first, last, step or 1, dtype=as_dtype(dtype or ("int32" if whole else floatx())))


def size(x: Any) -> int | None:
    """How many numbers there are; None for a symbolic tensor with sizes that are not known."""
    if isinstance(x, KerasTensor):
        return None if None in x.shape else math.prod(n for n in x.shape if n is not None)
    return int(as_tensor(x).numel())


def shape(x: Any) -> tuple[Any, ...]:
    """The sizes; None for those of a symbolic tensor that are not known."""
    return tuple(x.shape if hasattr(x, "shape") else as_tensor(x).shape)


def dtype(x: Any) -> str:
    """The name of the dtype, such as "float32"."""
    return x.dtype if isinstance(x, KerasTensor) else as_tensor(x).dtype.name


def cast(x: Any, dtype: Any) -> Tensor:
    """The values in another dtype."""
    return as_tensor(x).to(as_dtype(dtype))


def stop_gradient(variable: Any) -> Tensor:
    """The values, through which no gradient flows."""
    return as_tensor(variable).detach()


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a gradient of its own: f gives its result and a function that takes the gradient of the result,
    as `upstream`, and gives those of the arguments."""

    class Own(AutogradFunction):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            result, ctx.gradient = f(*args)
            return result

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> Any:
            return ctx.gradient(upstream=upstream[0] if len(upstream) == 1 else upstream)

    return functools.wraps(f)(lambda *args: Own.apply(*(_tensors(one) for one in args)))


def concatenate(xs: Any, axis: int = 0) -> Tensor:
    """Tensors joined along an axis that they have."""
    return pyapp.cat([as_tensor(x) for x in xs], axis)


def stack(x: Any, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    return pyapp.stack([as_tensor(one) for one in x], axis)


def expand_dims(x: Any, axis: Any) -> Tensor:
    """x with dims of size 1 at the places `axis` of the result."""
    x = as_tensor(x)
    axes = [axis] if isinstance(axis, int) else list(axis)
    for place in sorted(k % (x.ndim + len(axes)) for k in axes):
        x = x.unsqueeze(place)
    return x


def squeeze(x: Any, axis: Any = None) -> Tensor:
    """x without dims of size 1: all of them, or those of the axes."""
    x = as_tensor(x)
    if axis is None:
        return x.squeeze()
    for place in sorted(axes_of(axis, x), reverse=True):
        if x.shape[place] != 1:
            raise ValueError(f"squeeze: the axis {place} of {tuple(x.shape)} has not the size 1")
        x = x.squeeze(place)
    return x


def transpose(x: Any, axes: Any = None) -> Tensor:
    """The dims in the order of `axes`; reversed for None."""
    x = as_tensor(x)
    return x.permute(*(range(x.ndim - 1, -1, -1) if axes is None else axes))


def reshape(x: Any, newshape: Any) -> Tensor:
    """The same elements in another shape, one of whose sizes may be -1."""
    return as_tensor(x).reshape((newshape,) if isinstance(newshape, int) else tuple(newshape))


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element as often as `repeats` says, along an axis; of all as a vector for None."""
    counts = repeats if isinstance(repeats, int) else as_tensor(repeats).to("int64")
    return as_tensor(x).repeat_interleave(counts, axis)


def split(x: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along an axis: as many as a number says, or cut at indices."""
    return list(pyapp.tensor_split(x, indices_or_sections, axis))


def take(x: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    """The entries at `indices` along an axis, negative ones from the end; of all elements as a vector for None."""
    x, ids = as_tensor(x), as_tensor(indices).to("int64")
    if axis is None:
        return x.reshape(-1)[ids]
    ids = pyapp.where(ids < 0, ids + x.shape[axis], ids)
    found = x.index_select(axis, ids.reshape(-1))
    axis %= x.ndim
    return found.reshape(*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: float | None = None) -> Tensor:
    """`pad_width`: a number, a pair, or a pair for each dim."""
    x = as_tensor(x)
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
    """Elements moved along an axis or several; what leaves at the end comes in at the beginning."""
    return pyapp.roll(as_tensor(x), shift, axis)


def flip(x: Tensor, axis: Any = None) -> Tensor:
    """The order along an axis, several, or all (None) reversed."""
    x = as_tensor(x)
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return pyapp.flip(x, tuple(axes))


def meshgrid(*x: Any, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid over vectors, a tensor for each; `indexing` is xy or ij."""
    return list(pyapp.meshgrid(*(as_tensor(one) for one in x), indexing=indexing))


def take_along_axis(x: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    """x at indices along an axis; the other dims of both are broadcast, as NumPy does it."""
    x, ids = as_tensor(x), as_tensor(indices).to("int64")
    if axis is None:
        x, ids, axis = x.reshape(-1), ids.reshape(-1), 0
    at = dim_of(axis, x.ndim)
    if ids.ndim != x.ndim:
        raise ValueError(
            f"take_along_axis: x has {x.ndim} dims, the indices {ids.ndim}; they have to have the same number"
        )
    ids = pyapp.where(ids < 0, ids + x.shape[at], ids)
    others = pyapp.broadcast_shapes(*((*value.shape[:at], 1, *value.shape[at + 1 :]) for value in (x, ids)))
    wide, long = ([*others[:at], size, *others[at + 1 :]] for size in (x.shape[at], ids.shape[at]))
    return x.broadcast_to(wide).gather(at, ids.broadcast_to(long))


def unstack(x: Tensor, num: int | None = None, axis: int = 0) -> list[Tensor]:
    """The entries along an axis, without it."""
    return list(as_tensor(x).unbind(axis))


def copy(x: Tensor) -> Tensor:
    """The same values in other memory."""
    return as_tensor(x).clone()


def append(x1: Tensor, x2: Tensor, axis: int | None = None) -> Tensor:
    """x2 after x1 along an axis; both as vectors for None."""
    x1, x2 = as_tensor(x1), as_tensor(x2)
    return pyapp.cat([x1.reshape(-1), x2.reshape(-1)]) if axis is None else pyapp.cat([x1, x2], axis)


def identity(n: int, dtype: Any = None) -> Tensor:
    """The matrix (n, n) with 1 on its diagonal."""
    return pyapp.eye(n, dtype=as_dtype(dtype or floatx()))


def ndim(x: Any) -> int:
    """The number of dims."""
    return int(x.ndim if isinstance(x, KerasTensor) else as_tensor(x).ndim)


def round(x: Tensor, decimals: int = 0) -> Tensor:
    """Rounded to so many decimals, halves to even; whole numbers stay whole."""
    x = as_tensor(x)
    if decimals and not x.dtype.is_floating_point:
        return x if decimals > 0 else pyapp.round(x.to("float64"), decimals=decimals).to(x.dtype)
    return pyapp.round(x, decimals=decimals) if decimals else pyapp.round(x)


def clip(x: Any, x_min: Any, x_max: Any) -> Tensor:
    """The elements, with those below x_min and above x_max replaced by these. Truth values become int32."""
    values = as_tensor(x)
    return pyapp.clamp(values.to("int32") if values.dtype.name == "bool" else values, x_min, x_max)


def real(x: Any) -> Tensor:
    """The real parts of complex numbers; real numbers as they are."""
    return as_tensor(x).real


def imag(x: Any) -> Tensor:
    """The imaginary parts of complex numbers; of real ones 0."""
    values = as_tensor(x)
    return values.imag if values.dtype.is_complex else pyapp.zeros_like(values)


def array_split(x: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along an axis whose sizes differ by 1 at the most."""
    return list(pyapp.tensor_split(x, indices_or_sections, axis))


def tril(x: Tensor, k: int = 0) -> Tensor:
    """The lower triangle of matrices (..., M, N), up to the k-th diagonal; 0 above it."""
    return pyapp.tril(as_tensor(x), k)


def triu(x: Tensor, k: int = 0) -> Tensor:
    """The upper triangle of matrices (..., M, N), from the k-th diagonal on; 0 below it."""
    return pyapp.triu(as_tensor(x), k)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """(N, M) with 1 up to the k-th diagonal, 0 above it."""
    return pyapp.tril(pyapp.ones(N, N if M is None else M, dtype=as_dtype(dtype or floatx())), k)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """(N, M) with 1 on the k-th diagonal, else 0."""
    rows, columns = pyapp.arange(N).unsqueeze(-1), pyapp.arange(N if M is None else M)
    return (columns - rows == k).to(as_dtype(dtype or floatx()))


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    """`num` numbers from start to stop, without the last one if not `endpoint`."""
    first, last = operands(start, stop, strict=True)
    if not first.dtype.is_floating_point:
        first = first.to(floatx())
    last = as_tensor(last).to(first.dtype)
    dtype = dtype or first.dtype
    count = builtins.max(num - 1 if endpoint else num, 1)
    steps = pyapp.arange(num, dtype=as_dtype(floatx())).reshape(-1, *(1,) * (last - first).ndim)
    found = (first + steps * ((last - first) / count)).to(as_dtype(dtype)).movedim(0, axis)
    return (found, (last - first) / count) if retstep else found


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """x1 where the condition holds, else x2; the places where it holds without both."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    return pyapp.where(as_tensor(condition).to("bool"), *operands(x1, x2))


def nonzero(x: Tensor) -> Any:
    """The places of what is not 0: a tensor for each dim."""
    return tuple(place.to("int32") for place in pyapp.nonzero(as_tensor(x)).unbind(-1))


def saturate_cast(x: Tensor, dtype: Any) -> Tensor:
    """Another dtype, whose limits are kept."""
    kind = as_dtype(dtype)
    limits: Any = pyapp.finfo(kind) if kind.is_floating_point else pyapp.iinfo(kind)
    return x.clamp(limits.min, limits.max).to(kind)


def _of_shape(make: Any, shape: Any, dtype: Any, *value: Any) -> Tensor:
    sizes = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    return make(sizes, *value, dtype=as_dtype(dtype or floatx()))


def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """0 everywhere; float32 unless `dtype` says otherwise."""
    return _of_shape(pyapp.zeros, shape, dtype)


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """1 everywhere; float32 unless `dtype` says otherwise."""
    return _of_shape(pyapp.ones, shape, dtype)


def empty(shape: Any, dtype: Any = None) -> Tensor:
    """Memory that has not been written."""
    return _of_shape(pyapp.empty, shape, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """`fill_value` everywhere, a number or an array that broadcasts."""
    if isinstance(fill_value, (bool, int, float)):
        return _of_shape(pyapp.full, shape, dtype, fill_value)
    return as_tensor(fill_value, dtype or floatx()).expand(tuple(shape)).clone()


def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """0 in the shape and the dtype of x."""
    return pyapp.zeros_like(as_tensor(x), dtype=None if dtype is None else as_dtype(dtype))


def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """1 in the shape and the dtype of x."""
    return pyapp.ones_like(as_tensor(x), dtype=None if dtype is None else as_dtype(dtype))


def empty_like(x: Any, dtype: Any = None) -> Tensor:
    """Memory that has not been written, in the shape and the dtype of x."""
    return pyapp.empty_like(as_tensor(x), dtype=None if dtype is None else as_dtype(dtype))


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """`fill_value` in the shape and the dtype of x."""
    values = as_tensor(x)
    with values.device:
        return full(values.shape, fill_value, values.dtype if dtype is None else dtype)


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10, dtype: Any = None, axis: int = 0
) -> Tensor:
    """`base` to the powers of `linspace`."""
    powers = linspace(start, stop, num, endpoint, axis=axis)
    return pyapp.pow(float(base), powers).to(as_dtype(dtype or floatx()))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    """`num` numbers from start to stop, each the same multiple of the one before."""
    first, last = (as_floats(value) for value in (start, stop))
    if bool(((first == 0) | (last == 0) | (first.sign() != last.sign())).any()):
        raise ValueError("geomspace: start and stop have the same sign and are not 0")
    powers = linspace(first.abs().log(), last.abs().log(), num, endpoint, axis=axis).exp()
    return (powers * first.sign()).to(as_dtype(dtype or floatx()))


def bitwise_invert(x: Any) -> Tensor:
    """The bits of whole numbers, or truth values, turned."""
    return pyapp.bitwise_not(as_tensor(x))


def conjugate(x: Any) -> Tensor:
    """Complex numbers with the other sign of their imaginary parts; real numbers as they are."""
    return as_tensor(x).conj()


def angle(x: Any) -> Tensor:
    """The angle of complex numbers; of real ones 0, and pi where they are below 0."""
    values = as_tensor(x)
    return pyapp.angle(values if values.dtype.is_complex else as_floats(values))


def fabs(x: Any) -> Tensor:
    """The absolute values, as floats."""
    return as_floats(x).abs()


def floor(x: Any) -> Tensor:
    """The next whole number below, as floats."""
    return as_floats(x).floor()


def ceil(x: Any) -> Tensor:
    """The next whole number above, as floats."""
    return as_floats(x).ceil()


def cbrt(x: Any) -> Tensor:
    """The cube root, as floats."""
    values = as_floats(x)
    return values.sign() * values.abs() ** (1 / 3)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """The choice of the first condition that holds."""
    found: Any = default
    for condition, choice in builtins.reversed(list(builtins.zip(condlist, choicelist, strict=True))):
        found = where(condition, choice, found)
    return found


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor with values."""
    return isinstance(x, Tensor)


@functools.cache  # not a name of this module: it could hide a function of Python's
def _found(name: str) -> Any:
    """pyapp's function, or the activation, of that name; `linalg`, `nn` and `numpy` have all names of this module."""
    if name in ("linalg", "nn", "numpy"):
        return sys.modules[__name__]
    found = vars(activations).get(name) or getattr(pyapp, name, None)
    if name[:1] == "_" or not callable(found):
        raise AttributeError(f"keras.ops has no function {name!r}")
    return _for_symbols(found, name)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:
    __getattr__ = _found


def _tensors(value: Any) -> Any:
    """An array, or the arrays of a list, as tensors."""
    if isinstance(value, (list, tuple)) and builtins.any(is_array(one) for one in value):
        return [_tensors(one) for one in value]
    return as_tensor(value) if is_array(value) else value


def _for_symbols(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    others = function is getattr(pyapp, name, None)  # its first arguments have other names than Keras'

    @functools.wraps(function, assigned=("__doc__",), updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if others:
            args = (*args, *(kwargs.pop(key) for key in ("x", "x1", "x2", "xs") if key in kwargs))
            if args and isinstance(args[0], (bool, int, float, list, tuple)):
                args = (as_tensor(args[0]), *args[1:])
        if builtins.any(isinstance(leaf, KerasTensor) for leaf in flatten([list(args), kwargs])):
            return record(Function(function, name=unique_name(name), operation=name), args, kwargs)
        return function(*(_tensors(one) for one in args), **{key: _tensors(one) for key, one in kwargs.items()})

    call.__name__ = name
    return call


def _public(*modules: Any) -> dict[str, Any]:
    """Their functions, by name, for symbolic tensors too."""
    return {name: _for_symbols(getattr(module, name), name) for module in modules for name in module.__all__}


image = types.SimpleNamespace(**_public(image_functions, image_warps))
for _name, _value in list(globals().items()):
    if (
        callable(_value)
        and getattr(_value, "__module__", "") == __name__
        and _name[0] != "_"
        and _name not in ("shape", "ndim", "size", "dtype", "is_tensor")  # what a symbolic tensor says at once
        and not isinstance(_value, type)
    ):
        globals()[_name] = _for_symbols(_value, _name)
globals().update(_public(*_PARTS))
_whole = sys.modules[__name__]
importable(__name__, image=image, linalg=_whole, nn=_whole, numpy=_whole)

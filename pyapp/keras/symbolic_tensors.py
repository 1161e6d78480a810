"""Symbolic tensors: a `KerasTensor` stands for a batch that is not there yet. A layer that is called with one is built,
and the call becomes a `Call` that a functional model runs later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.budget import Budget, OverBudget, current, half_of_memory, within
from ..engine.device import get_default_device
from ..engine.dtype import as_dtype
from ..engine.lazy import np
from ..engine.storage import default_pool, release_memory
from ..train.floats import floatx
from ..train.names import unique_name
from .call_state import STATE, training_mode
from .masking import mask_of, set_mask
from .structures import flatten, map_structure, unflatten

Shape = tuple[int | None, ...]
KEPT = 32 << 20  # bytes of free blocks that may stay after a layer has run with zeros
_PROBES = (2, 3)  # two sizes for unknown dims: where the results differ, the result's dim is unknown too


class KerasTensor:
    """A batch that is not there yet: its shape, with None where a size is unknown, its dtype, and its call. Texts have
    the dtype "string"; their batches are NumPy arrays. None is the dtype of `set_floatx`.

    function_layer: makes a layer of a function, for operators. The module of layers sets it.
    """

    function_layer: Callable[..., Any]

    def __init__(
        self, shape: Iterable[int | None], dtype: Any = None, name: str | None = None, sparse: bool = False,
        ragged: bool = False,
    ) -> None:  # fmt: skip
        if sparse or ragged:
            raise NotImplementedError("KerasTensor: there are no sparse and no ragged tensors: leave the argument out")
        self.shape: Shape = tuple(shape)
        self.dtype = "string" if isinstance(dtype, str) and dtype == "string" else as_dtype(dtype or floatx()).name
        self.name = name or unique_name("keras_tensor")
        self.call: Call | None = None  # None for an input of a model
        self.mask_dims = 0  # how many dims the mask has that comes with it; 0: there is none
        self.index = 0  # which of the call's outputs

    sparse = ragged = False
    optional = False  # of an input of a model: whether None may stand in its place

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape}, dtype={self.dtype}, sparse=False, ragged=False, name={self.name}>"

    def _apply(self, name: str, function: Callable[..., Any], *others: Any, reverse: bool = False) -> KerasTensor:
        operands = (*others, self) if reverse else (self, *others)
        return record(self.function_layer(function, name=unique_name(name), operation=name), operands, {})

    def __add__(self, other: Any) -> KerasTensor:
        return self._apply("add", lambda x, y: x + y, other)

    def __radd__(self, other: Any) -> KerasTensor:
        return self._apply("add", lambda x, y: x + y, other, reverse=True)

    def __sub__(self, other: Any) -> KerasTensor:
        return self._apply("subtract", lambda x, y: x - y, other)

    def __rsub__(self, other: Any) -> KerasTensor:
        return self._apply("subtract", lambda x, y: x - y, other, reverse=True)

    def __mul__(self, other: Any) -> KerasTensor:
        return self._apply("multiply", lambda x, y: x * y, other)

    def __rmul__(self, other: Any) -> KerasTensor:
        return self._apply("multiply", lambda x, y: x * y, other, reverse=True)

    def __truediv__(self, other: Any) -> KerasTensor:
        return self._apply("true_divide", lambda x, y: x / y, other)

    def __rtruediv__(self, other: Any) -> KerasTensor:
        return self._apply("true_divide", lambda x, y: x / y, other, reverse=True)

    def __matmul__(self, other: Any) -> KerasTensor:
        return self._apply("matmul", lambda x, y: x @ y, other)

    def __pow__(self, other: Any) -> KerasTensor:
        return self._apply("power", lambda x, y: x**y, other)

    def __rpow__(self, other: Any) -> KerasTensor:
        return self._apply("power", lambda x, y: x**y, other, reverse=True)

    def __floordiv__(self, other: Any) -> KerasTensor:
        return self._apply("floor_divide", lambda x, y: x // y, other)

    def __rfloordiv__(self, other: Any) -> KerasTensor:
        return self._apply("floor_divide", lambda x, y: x // y, other, reverse=True)

    def __mod__(self, other: Any) -> KerasTensor:
        return self._apply("mod", lambda x, y: x % y, other)

    def __rmod__(self, other: Any) -> KerasTensor:
        return self._apply("mod", lambda x, y: x % y, other, reverse=True)

    def __lt__(self, other: Any) -> KerasTensor:
        return self._apply("less", lambda x, y: x < y, other)

    def __le__(self, other: Any) -> KerasTensor:
        return self._apply("less_equal", lambda x, y: x <= y, other)

    def __gt__(self, other: Any) -> KerasTensor:
        return self._apply("greater", lambda x, y: x > y, other)

    def __ge__(self, other: Any) -> KerasTensor:
        return self._apply("greater_equal", lambda x, y: x >= y, other)

    def __and__(self, other: Any) -> KerasTensor:
        return self._apply("logical_and", lambda x, y: x & y, other)

    def __or__(self, other: Any) -> KerasTensor:
        return self._apply("logical_or", lambda x, y: x | y, other)

    def __xor__(self, other: Any) -> KerasTensor:
        return self._apply("logical_xor", lambda x, y: x ^ y, other)

    def __invert__(self) -> KerasTensor:
        return self._apply("logical_not", lambda x: ~x)

    def __abs__(self) -> KerasTensor:
        return self._apply("absolute", lambda x: x.abs())

    def __neg__(self) -> KerasTensor:
        return self._apply("negative", lambda x: -x)

    def __getitem__(self, key: Any) -> KerasTensor:
        return self._apply("get_item", lambda x, key: x[key], key)

    def reshape(self, newshape: Any) -> KerasTensor:
        """The same numbers in another shape, that of the batch included."""
        return self._apply("reshape", lambda x, newshape: x.reshape(tuple(newshape)), tuple(newshape))

    def squeeze(self, axis: Any = None) -> KerasTensor:
        """Without the axes (all, for None) whose size is 1."""
        return self._apply("squeeze", lambda x, axis: x.squeeze() if axis is None else x.squeeze(axis), axis)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("a KerasTensor has no value yet: it cannot be an array; use keras.ops or a layer")

    def __float__(self) -> float:
        raise ValueError("a KerasTensor has no value yet: it is no number; use keras.ops or a layer")

    __int__ = __index__ = __float__

    def __bool__(self) -> bool:
        raise TypeError("a KerasTensor has no value yet: a functional model cannot branch on it")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a KerasTensor has no value yet: it cannot be iterated over")


class InputSpec:
    """What a layer takes: the dtype, the shape (None: any size), the number of dims, or sizes of some axes. A layer
    with `input_spec` refuses other inputs."""

    def __init__(
        self, dtype: Any = None, shape: Any = None, ndim: int | None = None, max_ndim: int | None = None,
        min_ndim: int | None = None, axes: Mapping[int, int | None] | None = None,
        allow_last_axis_squeeze: bool = False, name: str | None = None, optional: bool = False,
    ) -> None:  # fmt: skip
        self.dtype = None if dtype is None else as_dtype(dtype).name
        self.shape: Shape | None = None if shape is None else tuple(shape)
        self.ndim = len(self.shape) if self.shape is not None else ndim
        self.max_ndim, self.min_ndim, self.axes = max_ndim, min_ndim, dict(axes or {})
        self.allow_last_axis_squeeze, self.name, self.optional = allow_last_axis_squeeze, name, optional

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, as Keras writes them."""
        names = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes", "optional")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> InputSpec:
        return cls(**config)

    def check(self, x: Any) -> None:
        """ValueError unless the tensor fits."""
        shape = tuple(x.shape)
        wanted = self.shape
        if self.allow_last_axis_squeeze and wanted is not None and len(wanted) - 1 == len(shape) and wanted[-1] == 1:
            wanted = wanted[:-1]
        elif self.ndim is not None and len(shape) != self.ndim:
            raise ValueError(f"takes inputs of {self.ndim} dims, got {shape}")
        if self.max_ndim is not None and len(shape) > self.max_ndim:
            raise ValueError(f"takes inputs of at most {self.max_ndim} dims, got {shape}")
        if self.min_ndim is not None and len(shape) < self.min_ndim:
            raise ValueError(f"takes inputs of at least {self.min_ndim} dims, got {shape}")
        if self.dtype is not None and x.dtype.name != self.dtype:
            raise ValueError(f"takes inputs of the dtype {self.dtype}, got {x.dtype.name}")
        sizes = {**dict(enumerate(wanted or ())), **self.axes}
        for axis, size in sizes.items():
            if size is not None and shape[axis] != size:
                raise ValueError(f"takes inputs whose axis {axis} has the size {size}, got {shape}")


class Call:
    """A layer called with symbolic tensors."""

    def __init__(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> None:
        self.layer, self.args, self.kwargs, self.outputs = layer, args, kwargs, outputs
        for index, output in enumerate(flatten(outputs)):
            output.call, output.index = self, index

    @property
    def inputs(self) -> list[KerasTensor]:
        """The symbolic tensors among the arguments."""
        return [leaf for leaf in flatten([list(self.args), self.kwargs]) if isinstance(leaf, KerasTensor)]

    def run(self, values: Mapping[int, Any], training: bool | None) -> Any:
        """The layer's output for the values of symbolic tensors, by their ids."""

        def value(leaf: Any) -> Any:
            if isinstance(leaf, Tensor):  # a constant
                return leaf.to(get_default_device())
            return values[id(leaf)] if isinstance(leaf, KerasTensor) else leaf

        args, kwargs = map_structure(value, self.args), map_structure(value, self.kwargs)
        with training_mode(training):
            return self.layer(*args, **kwargs)


def record(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a layer with symbolic tensors; returns its symbolic outputs."""
    outputs = infer(layer, args, kwargs)
    layer._symbolic_calls.append(Call(layer, args, kwargs, outputs))
    return outputs


def infer(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Symbolic outputs with the shapes that the layer gives. It runs with zeros, in evaluation mode.

    MemoryError before it takes more than half of the machine's memory, for its weights and on the way: files say sizes.
    """
    known = layer.symbolic_outputs(*args, **kwargs)
    if known is not None:
        return known
    leaves = [leaf for leaf in flatten([list(args), kwargs]) if isinstance(leaf, KerasTensor)]
    try:
        with within(current() or Budget(half_of_memory())):
            found = _found(layer, args, kwargs, leaves)
    except OverBudget as error:
        shapes = ", ".join(str(leaf.shape) for leaf in leaves)
        raise OverBudget(
            f"layer {layer.name} ({type(layer).__name__}) with inputs of shape {shapes}: {error}"
        ) from None
    finally:
        if default_pool.cached > KEPT:  # what the zeros took is larger than what most programs need again
            release_memory()
    layer.clear_losses()
    flat = [flatten(outputs) for outputs in found]
    symbols = [
        KerasTensor(
            [n if all(other.shape[k] == n for other in same) else None for k, n in enumerate(same[0].shape)],
            same[0].dtype,
        )
        for same in zip(*flat, strict=True)
    ]
    for symbol, leaf in zip(symbols, flat[0], strict=True):
        mask = mask_of(leaf)
        symbol.mask_dims = 0 if mask is None else mask.ndim
    return unflatten(found[0], iter(symbols))


def _found(layer: Any, args: Any, kwargs: Any, leaves: list[KerasTensor]) -> list[Any]:
    """The outputs for zeros, of such sizes as the layer takes."""
    try:
        return _with_zeros(layer, args, kwargs, leaves, layer.probe_scale)
    except _UNFIT:
        shorter = _with_others(layer, args, kwargs, leaves) if any(None in leaf.shape[1:] for leaf in leaves) else None
        if shorter is None:
            raise
        return shorter


# operations that zeros do not fit
_OF_REGULAR_MATRICES = {"cholesky", "cholesky_inverse", "inv", "lu_factor", "solve", "solve_triangular"}
_UNFIT = (ValueError, TypeError, IndexError, RuntimeError)


def _with_others(layer: Any, args: Any, kwargs: Any, leaves: list[KerasTensor]) -> list[Any] | None:
    """The outputs for shorter zeros, for a table of positions that has few, or for those of a model's own input; None
    where none fit."""
    for scale in (1, 0):
        try:
            return _with_zeros(layer, args, kwargs, leaves, scale)
        except _UNFIT:
            continue
    return None


def _with_zeros(
    layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[KerasTensor], scale: int
) -> list[Any]:
    """The outputs for zeros in place of symbolic tensors: of one size for their unknown dims, and of another if there
    are any. `scale` multiplies the sizes that are not the batch's; with 0 they are those of the model's input."""
    found = []
    fixed = getattr(layer, "input_shape", ()) if not scale else ()
    for size in _PROBES if any(None in leaf.shape for leaf in leaves) else _PROBES[:1]:

        def zeros(leaf: Any, size: int = size) -> Any:
            if not isinstance(leaf, KerasTensor):
                return leaf
            sizes = [(size if place == 0 else size * scale) if n is None else n for place, n in enumerate(leaf.shape)]
            if len(leaves) == 1 and not scale:  # those that a model has for its only input
                sizes = [known or size if n is None else n for n, known in zip(leaf.shape, fixed, strict=True)]
            if leaf.dtype == "string":
                return np.full(sizes, "")
            found = ops.zeros(sizes, dtype=leaf.dtype)
            if len(sizes) > 1 and getattr(layer, "operation", None) in _OF_REGULAR_MATRICES:
                found.diagonal(0, -2, -1).fill_(1)
            return set_mask(found, ops.ones(sizes[: leaf.mask_dims], dtype="bool")) if leaf.mask_dims else found

        given, named = map_structure(zeros, args), map_structure(zeros, kwargs)
        named.pop("training", None)
        before, STATE.symbolic = STATE.symbolic, (layer, list(args))
        try:
            with no_grad(), training_mode(False):
                found.append(layer(*given, **named))
        finally:
            STATE.symbolic = before
    return found


def Input(
    shape: Any = None,
    batch_size: int | None = None,
    dtype: Any = None,
    batch_shape: Any = None,
    name: str | None = None,
    optional: bool = False,
    sparse: bool = False,
    ragged: bool = False,
    tensor: Any = None,
) -> KerasTensor:
    """A symbolic input of a model: `shape` is that of one example. For an `optional` one the model may be given None,
    which its layers get. `tensor` is one that there is already, which is given back."""
    if sparse or ragged:
        raise NotImplementedError("Input: there are no sparse and no ragged tensors")
    if tensor is not None:
        return tensor
    if (shape is None) == (batch_shape is None):
        raise ValueError("Input: takes shape, that of one example, or batch_shape")
    sizes = tuple(batch_shape) if shape is None else (batch_size, *((shape,) if isinstance(shape, int) else shape))
    for size in sizes:
        if size is not None and (isinstance(size, bool) or not isinstance(size, Integral) or size < 0):
            raise ValueError(f"Input: cannot convert {sizes!r:.80} to a shape: {size!r} is no size")
    found = KerasTensor(sizes, dtype, name or unique_name("input_layer"))
    found.optional = optional
    return found

"""Tensors with a mask, by torch.masked's names.

    x = pyapp.masked.masked_tensor(data, mask)    # True in the mask: the element counts
    x.amax(1)                                     # of what counts; masked where nothing does
    (x * 2).to_tensor(0.0)

A MaskedTensor is no Tensor, but functions, operators and methods take it. Those of elements compute all of them and
keep the mask, which must be the same in all masked arguments. Those of shapes treat data and mask alike. Reductions and
softmax leave out what the mask does not select, and so do gradients. Others raise a NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..engine import ops
from ..engine.dtype import bool_
from ..engine.ops._index import FUNCTION_MODULES, METHOD_MODULES
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from . import reductions

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

# What functions do is told by the modules of ops that hold them.
_ELEMENT_MODULES = ("activation", "operators", "rectifiers", "shrinking")
_SHAPE_MODULES = "diagonals index reordering repeating selection splitting stacking view".split()
_NOT_SHAPES = (
    "__delitem__ __setitem__ _accumulate argwhere as_strided block_diag broadcast_tensors copy_ diag_embed diagflat "
    "fill_ fill_diagonal_ masked_select nonzero nonzero_static trace tril tril_indices triu triu_indices unravel_index "
    "zero_"
).split()
_NOT_ELEMENTS = "allclose equal frexp glu silu_mul".split()
_ALIKE = "detach dropout".split()
_REDUCTIONS = "all amax amin argmax argmin logsumexp mean median norm prod std sum var".split()
_ALONG_DIM = "cumprod cumsum log_softmax normalize softmax softmin".split()


class UnsupportedError(NotImplementedError, TypeError):
    """What masked tensors do not have; torch raises a TypeError."""


class MaskedTensor:
    """Data and a mask of its shape, True where the element counts."""

    is_nested = is_sparse = is_quantized = False

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        if not isinstance(data, Tensor) or not isinstance(mask, Tensor):
            raise TypeError(f"MaskedTensor: data and mask must be tensors, got {describe(data)} and {describe(mask)}")
        if mask.dtype is not bool_:
            raise TypeError(f"MaskedTensor: mask must have dtype bool, got {describe(mask)}")
        if data.shape != mask.shape:
            raise ValueError(
                f"MaskedTensor: data.size() must equal mask.size(), got {describe(data)} and {describe(mask)}"
            )
        self._data, self._mask = data, mask
        if requires_grad:
            data.requires_grad_()

    # -- what it is

    shape = property(lambda self: self._data.shape)
    dtype = property(lambda self: self._data.dtype)
    device = property(lambda self: self._data.device)
    layout = property(lambda self: self._data.layout)
    ndim = property(lambda self: self._data.ndim)
    requires_grad = property(lambda self: self._data.requires_grad)
    is_leaf = property(lambda self: self._data.is_leaf)
    grad_fn = property(lambda self: self._data.grad_fn)

    @property
    def grad(self) -> MaskedTensor | None:
        """The gradient of the data, with the same mask."""
        found = self._data.grad
        return None if found is None else MaskedTensor(found, self._mask)

    def requires_grad_(self, requires_grad: bool = True) -> MaskedTensor:
        """Lets the data keep its gradient."""
        self._data.requires_grad_(requires_grad)
        return self

    def backward(self, gradient: Any = None, **settings: Any) -> None:
        """Gradients of the data; None for `gradient` where there is one element."""
        given = gradient.to_tensor(0) if isinstance(gradient, MaskedTensor) else gradient
        self._data.backward(given, **settings)

    def get_data(self) -> Tensor:
        """All elements, those that do not count as well."""
        return self._data

    def get_mask(self) -> Tensor:
        """The mask (bool)."""
        return self._mask

    def to_tensor(self, value: Any) -> Tensor:
        """A tensor with `value` where elements do not count."""
        return ops.where(self._mask, self._data, self._data.new_full((), value))

    def to_dense(self) -> MaskedTensor:
        """Itself: the data is dense."""
        return self

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it."""
        return self._data.size() if dim is None else self._data.size(dim)

    def dim(self) -> int:
        """The number of dims."""
        return self._data.ndim

    def stride(self, dim: int | None = None) -> Any:
        """The strides of the data."""
        return self._data.stride() if dim is None else self._data.stride(dim)

    def numel(self) -> int:
        """The number of elements, those that do not count as well."""
        return self._data.numel()

    def is_contiguous(self, **settings: Any) -> bool:
        """Whether the data is row-major."""
        return self._data.is_contiguous(**settings)

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return bool(self.dtype.is_floating_point)

    def item(self) -> Any:
        """The only element, whether it counts or not, as torch."""
        return self._data.item()

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._data)

    def __float__(self) -> float:
        return float(self._data)

    def __int__(self) -> int:
        return int(self._data)

    def __repr__(self) -> str:
        if not self.ndim:
            counts = bool(self._mask)
            return f"MaskedTensor({_shown(self.item()) if counts else '--'}, {counts})"
        text = "\n".join(
            f"  {line}" for line in _table(self._data.tolist(), self._mask.tolist(), self.ndim).split("\n")
        )
        return f"MaskedTensor(\n{text}\n)"

    # -- functions

    def __getitem__(self, index: Any) -> Any:
        return _apply("__getitem__", Tensor.__getitem__, (self, index), {})

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A function of masked tensors."""
        return _apply(func.__name__, func, args, dict(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        found = getattr(Tensor, name, None)
        if name.startswith("_") or found is None:
            raise AttributeError(f"'MaskedTensor' object has no attribute {name!r}")
        if not callable(found):  # T, mT …
            return _of_shape(name, lambda x: getattr(x, name), [self], {})
        return lambda *args, **kwargs: _apply(name, found, (self, *args), kwargs)


def _operator(name: str) -> Any:
    def call(self: MaskedTensor, *args: Any) -> Any:
        return _apply(name, getattr(Tensor, name), (self, *args), {})

    call.__name__ = name
    return call


for _name in (name for name, module in METHOD_MODULES.items() if module == "operators"):
    setattr(MaskedTensor, _name, _operator(_name))
MaskedTensor.__hash__ = object.__hash__  # type: ignore[method-assign]


def _shown(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _table(values: Any, mask: Any, dims: int) -> str:
    """Rows of elements, "--" for those that do not count, as torch writes them."""
    if dims > 1:
        parts = [_table(v, m, dims - 1) for v, m in zip(values, mask, strict=True)]
        return "[\n" + ",\n".join("\n".join(f"  {line}" for line in part.split("\n")) for part in parts) + "\n]"
    texts = [_shown(value) for value in values]
    width = max((len(text) if counts else 8 for text, counts in zip(texts, mask, strict=True)), default=0)
    return "[" + ", ".join(t if counts else "--".rjust(width) for t, counts in zip(texts, mask, strict=True)) + "]"


def _module_of(name: str) -> str:
    return METHOD_MODULES.get(name) or FUNCTION_MODULES.get(name) or ""  # pyapp.half is a dtype


def _apply(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    module = _module_of(name)
    if name in _REDUCTIONS:
        return _reduced(name, *args, **kwargs)
    if name in _ALONG_DIM:
        x = args[0]
        return MaskedTensor(getattr(reductions, name)(x._data, *args[1:], mask=x._mask, **kwargs), x._mask)
    if name in _ALIKE or (
        name not in _NOT_ELEMENTS and (module.startswith("elementwise") or module in _ELEMENT_MODULES)
    ):
        return _of_elements(name, function, args, kwargs)
    if module in _SHAPE_MODULES and name not in _NOT_SHAPES and (name[-1] != "_" or name[0] == "_"):
        return _of_shape(name, function, args, kwargs)
    raise UnsupportedError(f"{name}: there is no such function of masked tensors; give x.to_tensor(value) to it")


def _map(value: Any, part: Callable[[MaskedTensor], Any]) -> Any:
    if isinstance(value, MaskedTensor):
        return part(value)
    return type(value)(_map(one, part) for one in value) if type(value) in (tuple, list) else value


def _data_of(value: Any) -> Any:
    return _map(value, lambda x: x._data)


def _of_parts(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], part: Callable[[Any], Any]
) -> Any:
    """The function of a part of each argument."""
    return function(*map(part, args), **{key: part(value) for key, value in kwargs.items()})


def _masked_in(values: Any) -> Iterator[MaskedTensor]:
    for value in values:
        if isinstance(value, MaskedTensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _masked_in(value)


def _of_elements(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A function of elements: of all data, with the mask that all have."""
    first, *others = _masked_in([*args, *kwargs.values()])
    for other in others:
        same = other._mask is first._mask or (other.shape == first.shape and bool((other._mask == first._mask).all()))
        if not same:
            raise ValueError(f"{name}: Input masks must match: the masked tensors have different masks")
    made = _of_parts(function, args, kwargs, _data_of)
    if made is first._data and args and args[0] is first:  # in place
        return first
    if not isinstance(made, Tensor):
        raise UnsupportedError(f"{name}: there is no such function of masked tensors")
    return MaskedTensor(made, first._mask.to(made.device).expand(made.shape))


def _of_shape(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A function of shapes: of the data, and of the mask. Tensors beside masked ones count with all elements."""
    joins = _module_of(name) == "stacking"

    def mask_of(value: Any) -> Any:
        if joins and isinstance(value, Tensor):
            return ops.ones(value.shape, dtype=bool_, device=value.device)
        if joins and type(value) in (tuple, list):
            return type(value)(mask_of(one) for one in value)
        return _map(value, lambda x: x._mask)

    data = _of_parts(function, args, kwargs, _data_of)
    mask = _of_parts(function, args, kwargs, mask_of)
    if isinstance(data, Tensor):
        return MaskedTensor(data, mask)
    return tuple(MaskedTensor(*pair) for pair in zip(data, mask, strict=True))


def _reduced(name: str, x: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    """A reduction of what counts; masked where nothing does."""
    if name == "norm":
        order = args[0] if args else kwargs.pop("p", kwargs.pop("ord", 2.0))
        args = (2.0 if order in (None, "fro") else float(order), *args[1:])
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        keepdim = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
    else:
        dim = args[0] if args else kwargs.get("dim")
        keepdim = kwargs.get("keepdim", args[1] if len(args) > 1 else False)
    if isinstance(dim, bool):  # of var and std, whose first argument may be `unbiased`
        raise TypeError(f"{name}: give dim, unbiased and keepdim by name for masked tensors")
    settings = {key: value for key, value in kwargs.items() if key not in ("dim", "keepdim")}
    if name == "norm":
        made = reductions.norm(x._data, args[0], dim, keepdim=keepdim, mask=x._mask, **settings)
    elif name == "all":
        whole = ops.where(x._mask, x._data.to(bool_), True)
        made = whole.all() if dim is None else whole.all(dim, keepdim)
    elif dim is None and name == "median":
        made = reductions.median(x._data.reshape(-1), 0, mask=x._mask.reshape(-1), **settings)
    else:
        made = getattr(reductions, name)(x._data, dim, keepdim=keepdim, mask=x._mask, **settings)
    dims = tuple(range(x.ndim)) if dim is None or dim == () else dim
    mask = x._mask.any(dims, keepdim) if x.ndim else x._mask
    return MaskedTensor(made, mask.reshape(made.shape))


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A MaskedTensor of copies of data and mask (bool, of the same shape): a leaf of its own."""
    if isinstance(data, Tensor) and isinstance(mask, Tensor):
        return MaskedTensor(data.detach().clone(), mask.detach().clone(), requires_grad)
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A MaskedTensor of the data itself, which gets gradients where the mask is True, and 0 elsewhere."""
    made = MaskedTensor(data, mask)
    if data.requires_grad:
        made._data = ops.where(mask, data, data.detach())
    return made


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether it is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)

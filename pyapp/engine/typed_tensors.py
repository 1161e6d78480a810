"""torch's older constructors: Tensor(2, 3), FloatTensor([1.0]), LongTensor(4); and the sizes that `size()` gives."""

from __future__ import annotations

import math
from typing import Any

from .dtype import Default, DType, as_dtype
from .lazy import np
from .ops.create import tensor
from .shape import as_shape
from .storage import Storage
from .tensor import Tensor, empty_contiguous


class _Sizes(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, tuple) and all(type(size) is int for size in value)


class Size(tuple[int, ...], metaclass=_Sizes):
    """A shape as torch.Size: a tuple that can count. `tensor.shape` is a plain tuple, which passes for one."""

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self)

    def __getitem__(self, at: Any) -> Any:
        found = tuple.__getitem__(self, at)
        return Size(found) if isinstance(at, slice) else found

    def __repr__(self) -> str:
        return f"pyapp.Size({list(self)})"


def construct(made: Tensor, args: tuple[Any, ...], kind: DType) -> None:
    """Fills in what Tensor(*args) is: uninitialised of given sizes, or from data, in the dtype `kind`.

    TypeError for a number alone that is no size.
    """
    if not args:
        source = empty_contiguous((0,), kind)
    elif len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype is not kind:
            raise TypeError(f"{_name(kind)}: got a tensor of {args[0].dtype}; convert it with .to({kind.name})")
        source = args[0].detach()
    elif len(args) == 1 and isinstance(args[0], Storage):
        raise TypeError(f"{_name(kind)}: takes sizes or data, not a storage")
    elif len(args) == 1 and isinstance(args[0], (list, tuple, range, np.ndarray)) and type(args[0]) is not Size:
        source = tensor(list(args[0]) if isinstance(args[0], range) else args[0], dtype=kind)
    else:
        source = empty_contiguous(as_shape(args), kind)
    made.storage, made.offset = source.storage, source.offset
    made.shape, made.strides, made.dtype = source.shape, source.strides, source.dtype


class _Typed(type):
    """The class of FloatTensor and its like: calls make plain tensors, isinstance() asks for the dtype."""

    kind: DType

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        made = Tensor.__new__(Tensor)
        construct(made, args, cls.kind)
        return made if device is None else made.to(device)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.kind


def _name(kind: DType) -> str:
    found = {dtype: name for name, dtype in _DTYPES.items()}.get(kind.name)
    return "Tensor" if kind is Default.dtype or found is None else found


_DTYPES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
    "BoolTensor": "bool",
}  # fmt: skip


def _typed(name: str, dtype: str) -> Any:
    made = _Typed(name, (), {"__doc__": f"Tensors of {dtype}; {name}(...) makes one of sizes or of data.",
                             "__module__": __name__})  # fmt: skip
    made.kind = as_dtype(dtype)
    return made


globals().update({_made: _typed(_made, _of) for _made, _of in _DTYPES.items()})

"""torch's older constructors: Tensor(2, 3), FloatTensor([1.0]), LongTensor(4); and the sizes that `size()` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .dtype import TYPED, DType, as_dtype
from .ops.create import construct
from .tensor import Tensor


class _Typed(type):
    """The class of FloatTensor and its like: calls make plain tensors, isinstance() asks for the dtype."""

    kind: DType

    @property
    def dtype(cls) -> DType:
        return cls.kind

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        made = construct(args, cls.kind)
        return made if device is None else made.to(device)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.kind


class TypedOf(_Typed):
    """As FloatTensor and its like, of tensors that `make` makes of the arguments and the dtype, and `holds` knows."""

    make: Callable[[tuple[Any, ...], DType], Tensor]
    holds: Callable[[Tensor], bool]

    def __call__(cls, *args: Any, **_: Any) -> Tensor:
        return cls.make(args, cls.kind)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.kind and cls.holds(value)


def typed_of(module: str, make: Callable[..., Tensor], holds: Callable[..., bool], what: str) -> dict[str, Any]:
    """FloatTensor, LongTensor and so on of a module, by name; `what`: words of their docstrings."""
    found: dict[str, Any] = {}
    for name, dtype in TYPED.items():
        body = {"__doc__": f"{what} of {dtype}, as torch's older programs make them.", "__module__": module}
        one = found[name] = TypedOf(name, (), body)
        one.kind, one.make, one.holds = as_dtype(dtype), make, holds
    return found


def _typed(name: str, dtype: str) -> Any:
    made = _Typed(name, (), {"__doc__": f"Tensors of {dtype}; {name}(...) makes one of sizes or of data.",
                             "__module__": __name__})  # fmt: skip
    made.kind = as_dtype(dtype)
    return made


globals().update({_made: _typed(_made, _of) for _made, _of in TYPED.items()})
__top_level__ = [*TYPED]

"""Parameters and buffers, by torch.nn.parameter's names; and the creation of layers' parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..engine import Tensor, as_dtype
from ..engine.dtype import Default
from ..engine.ops import empty, zeros
from ..engine.thread_local import ThreadLocal
from ..errors import ArgumentTypeError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Buffer", "Parameter", "UninitializedParameter"]


class _IsParameter(type):
    def __instancecheck__(cls, value: object) -> bool:
        if cls is Parameter:
            return isinstance(value, Tensor) and value.is_parameter
        return super().__instancecheck__(value)


class Parameter(Tensor, metaclass=_IsParameter):
    """`Parameter(tensor)` marks a tensor as trainable; assigned to a Module it becomes one of its parameters."""

    is_parameter = True
    plain_results = True  # of operations: they are no parameters

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        found: Any = empty(0) if data is None else data.detach()
        if cls is not Parameter:
            found.__class__ = cls
        if requires_grad and not found.dtype.is_quantized:
            found.requires_grad_()
        found.is_parameter = True
        return found


class _IsBuffer(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value._is_buffer


class Buffer(metaclass=_IsBuffer):
    """`Buffer(tensor)` is the tensor, marked: assigned to a Module it becomes one of its buffers, saved unless
    `persistent` is False.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        found = empty(0) if data is None else data.detach()
        found._is_buffer, found.persistent = True, persistent
        return found


def is_lazy(param: Any) -> bool:
    """Whether this is the parameter of a lazy layer before its first call, which has no elements."""
    return isinstance(param, Tensor) and param.is_parameter and not param.numel()


class _IsLazy(type):
    def __instancecheck__(cls, value: object) -> bool:
        return is_lazy(value)


class UninitializedParameter(metaclass=_IsLazy):
    """The parameters of lazy layers before their first call, for isinstance()."""

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Tensor:  # type: ignore[misc]
        raise NotImplementedError(
            "UninitializedParameter: only lazy layers have such parameters here; make the parameter with "
            "nn.Parameter when its shape is known, or use nn.LazyLinear and its like"
        )


class _Initialization(ThreadLocal):
    """Whether new layers of this thread allocate and fill their parameters."""

    on = True


Initialization = _Initialization()


@contextmanager
def skip_initialization() -> Iterator[None]:
    """Inside this context new layers have parameters of the right shape, of which all elements are one zero in memory,
    for models whose weights are then read from a file.
    """
    before, Initialization.on = Initialization.on, False
    try:
        yield
    finally:
        Initialization.on = before


def new_parameter(create: Callable[..., Tensor], *shape: int, device: Any = None, dtype: Any = None) -> Tensor:
    """A parameter of this shape, made by `create` (ops.empty, ops.zeros, ops.ones), in `dtype` or the default dtype.

    TypeError for a dtype without gradients.
    """
    kind = Default.dtype if dtype is None else as_dtype(dtype)
    if not kind.has_gradient or kind.is_storage_only:
        raise ArgumentTypeError(
            f"a layer's parameters need a floating-point or complex dtype with arithmetic, not {kind}"
        )
    if Initialization.on:
        return Parameter(create(*shape, device=device, dtype=kind))
    return Parameter(zeros(*(1 for _ in shape), device=device, dtype=kind).expand(shape))

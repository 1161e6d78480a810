"""Attributes of layers that hold weights, where reading one gives another tensor than the weight: in the dtype that the
layer computes in, or with the product of a LoRA adapter added.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..engine import DType, Tensor, no_grad, ops
from ..engine.thread_local import ThreadLocal
from ..train.variable import Variable

_MISSING = object()


class _Thread(ThreadLocal):
    autocast: DType | None = None  # in which weights are read within the call that is under way


_thread = _Thread()


def autocast_dtype() -> DType | None:
    """The dtype in which weights are read within the call that is under way; None: in their own."""
    return _thread.autocast


def autocasts() -> bool:
    """Whether the call that is under way reads weights in a dtype of its own."""
    return _thread.autocast is not None


@contextmanager
def weights_read_in(dtype: DType | None) -> Iterator[None]:
    """Inside, floating-point weights are read in this dtype; None: in their own."""
    before, _thread.autocast = _thread.autocast, dtype
    try:
        yield
    finally:
        _thread.autocast = before


class _Cast(Variable):
    """A weight in another dtype. What is assigned to it is written to the weight."""

    __slots__ = ()
    _source: Variable

    def assign(self, value: Any) -> Tensor:  # type: ignore[override]
        return self._take(self._source.assign(value))

    def assign_add(self, value: Any) -> Tensor:
        return self._take(self._source.assign_add(value))

    def assign_sub(self, value: Any) -> Tensor:
        return self._take(self._source.assign_sub(value))

    def _take(self, value: Tensor) -> Tensor:
        with no_grad():
            return self.copy_(value.detach().to(self.dtype))


def read_in(weight: Any, wanted: DType | None) -> Any:
    """A weight in a dtype; as it is, if that is its own, or if it is not to be converted."""
    if wanted is None or not isinstance(weight, Variable) or isinstance(weight, _Cast):
        return weight
    dtype = weight.dtype
    if dtype is wanted or not dtype.is_floating_point or getattr(weight, "_keeps_dtype", False):
        return weight
    found = weight.to(wanted)
    found.__class__ = _Cast
    assert isinstance(found, _Cast)
    found._source, found._path = weight, weight.path
    return found


class WeightAttribute:
    """A class attribute for the weights of one name: each is read in the dtype that the layer computes in. The weight
    itself is in the layer's `__dict__`."""

    def __init__(self, name: str, default: Any = _MISSING) -> None:
        self.name, self.default = name, default

    def held(self, layer: Any) -> Any:
        """The weight itself. AttributeError if there is none yet."""
        found = layer.__dict__.get(self.name, self.default)
        if found is _MISSING:
            raise AttributeError(f"{type(layer).__name__} has no {self.name} yet: it is made when the layer is built")
        return found

    def __get__(self, layer: Any, kind: Any = None) -> Any:
        return self if layer is None else read_in(self.held(layer), _thread.autocast)

    def __set__(self, layer: Any, value: Any) -> None:
        layer.__dict__[self.name] = value

    def __delete__(self, layer: Any) -> None:
        if layer.__dict__.pop(self.name, _MISSING) is _MISSING:
            raise AttributeError(f"{type(layer).__name__} has no {self.name}")


class AdaptedWeight(WeightAttribute):
    """A weight that may have a LoRA adapter: it is read as weight + alpha / rank * A @ B. A quantised one is read as
    its whole numbers."""

    def __get__(self, layer: Any, kind: Any = None) -> Any:
        if layer is None:
            return self
        if layer.packed_mode is not None:
            return layer.whole_numbers()
        if not layer.lora_enabled:
            wanted, found = _thread.autocast, layer.__dict__.get(self.name)
            return found if wanted is None and found is not None else read_in(self.held(layer), wanted)
        weight = self.held(layer)
        a, b = layer.lora_weights
        found = adapted(weight, a, b, layer.lora_scale)
        wanted = _thread.autocast
        return found if wanted is None else found.to(wanted)


def adapted(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """weight (…, out) + scale * a (…, rank) @ b (rank, out), in the weight's dtype."""
    return (weight + ops.matmul(a, b) * scale).to(weight.dtype)


def declare(kind: type, name: str) -> None:
    """Makes `name` a WeightAttribute of a class, unless the class has a property, a method or such an attribute of this
    name."""
    present = getattr(kind, name, _MISSING)
    if not (hasattr(present, "__get__") or isinstance(present, WeightAttribute)):
        setattr(kind, name, WeightAttribute(name, present))

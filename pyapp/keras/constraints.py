"""Sets that weights are moved back into after each step, by Keras' names."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, ops
from .lookup import Configured, Lookup
from .lookup import serialize as serialize


class Constraint(Configured):
    """Base: `constraint(w)` gives the nearest allowed weights."""

    keras_module = "keras.constraints"

    def __call__(self, w: Any) -> Tensor:
        """The weights, a tensor or an array, moved into the set."""
        return self.moved(ops.as_tensor(w))

    def moved(self, w: Tensor) -> Tensor:
        """The nearest allowed weights; of the base, the weights. One of your own may write `__call__` as well."""
        return w


def _norms(w: Tensor, axis: Any) -> Tensor:
    return (w * w).sum(axis, keepdim=True).clamp(min=0.0).sqrt()


class MaxNorm(Constraint):
    """The norm along `axis` is at most max_value."""

    def __init__(self, max_value: float = 2, axis: int = 0) -> None:
        self.max_value, self.axis = max_value, axis

    def moved(self, w: Tensor) -> Tensor:
        norms = _norms(w, self.axis)
        return w * (norms.clamp(0, self.max_value) / (1e-7 + norms))


class NonNeg(Constraint):
    """No value below zero."""

    def moved(self, w: Tensor) -> Tensor:
        return w.clamp(min=0.0)


class UnitNorm(Constraint):
    """The norm along `axis` is 1."""

    def __init__(self, axis: int = 0) -> None:
        self.axis = axis

    def moved(self, w: Tensor) -> Tensor:
        return w / (1e-7 + _norms(w, self.axis))


class MinMaxNorm(Constraint):
    """The norm along `axis` moves by `rate` of the way into [min_value, max_value]."""

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: int = 0) -> None:
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def moved(self, w: Tensor) -> Tensor:
        norms = _norms(w, self.axis)
        wanted = self.rate * norms.clamp(self.min_value, self.max_value) + (1 - self.rate) * norms
        return w * (wanted / (1e-7 + norms))


max_norm, non_neg, unit_norm, min_max_norm = MaxNorm, NonNeg, UnitNorm, MinMaxNorm
_lookup = Lookup("constraint", globals(), Constraint)
get, deserialize = _lookup.get, _lookup.deserialize

"""Weights that are made outside of `add_weight`."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.dtype import as_dtype
from ..nn.parameter import Parameter
from ..train.floats import floatx
from ..train.names import unique_name
from ..train.variable import Variable as _Variable
from ..train.variable import as_variable
from . import initializers
from .call_state import STATE


class _IsVariable(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Variable)


class Variable(metaclass=_IsVariable):
    """A weight with a value: a tensor, an array or a number, or an initialiser and a shape. As an attribute of a layer
    it is one of its weights.
    """

    def __new__(  # type: ignore[misc]
        cls,
        initializer: Any,
        shape: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **_: Any,
    ) -> _Variable:
        with no_grad():
            if isinstance(initializer, str) or (callable(initializer) and not isinstance(initializer, Tensor)):
                if shape is None:
                    raise ValueError(f"Variable: the initializer {initializer!r:.60} needs a shape")
                value = initializers.get(initializer)(tuple(shape), dtype=dtype or floatx())
            else:
                value = ops.as_tensor(initializer)
                value = value.clone() if dtype is None else value.to(as_dtype(dtype), copy=True)
            trains = trainable and value.dtype.is_floating_point
        found = as_variable(Parameter(value) if trains else value)
        found._path = "/".join((*(layer.name for layer in STATE.scope), name or unique_name("variable")))
        return found

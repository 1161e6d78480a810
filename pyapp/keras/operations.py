"""Functions of tensors as layers, without weights: steps of a functional model that Keras counts to no layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..engine import Tensor
from .call_arguments import arguments_of, takes_any
from .core import Layer
from .structures import flatten
from .symbolic_tensors import KerasTensor, record


class Function(Layer):
    """A function of tensors as a layer, for operators on symbolic tensors and for Lambda."""

    is_operation = True

    def __init__(self, function: Callable[..., Any], operation: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.function, self.operation = function, operation  # its name in keras.ops

    def _in_compute_dtype(self, tensor: Tensor) -> Tensor:
        """Tensors of operations keep their dtype, as outside of models; float64, as of arrays, is the layer's."""
        if self.operation is not None and tensor.dtype.itemsize <= 4:
            return tensor
        return super()._in_compute_dtype(tensor)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None

    def _build_for(self, inputs: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        self.built = True


KerasTensor.function_layer = Function


class _CountsLayers(type):
    """Layers count as operations, as in Keras, whose Layer is a subclass of Operation."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Layer) if cls.__name__ == "Operation" else super().__instancecheck__(value)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, Layer) if cls.__name__ == "Operation" else super().__subclasscheck__(kind)


class Operation(Layer, metaclass=_CountsLayers):
    """A function of tensors with a name, without weights: a subclass writes `call`, and may write
    `compute_output_spec`. Called with symbolic tensors, it becomes a step of the functional model, which is not among
    its `layers`. Arguments reach `call` as they are: arrays stay arrays. ValueError for a name that is not a text, or
    has a slash.
    """

    keras_module = "keras"
    is_own_operation = True

    def __init__(self, name: str | None = None) -> None:
        if name is not None and (not isinstance(name, str) or "/" in name):
            raise ValueError(f"{type(self).__name__}: `name` is a text without slashes, not {name!r:.60}")
        super().__init__(name=name, autocast=False)
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(leaf, KerasTensor) for leaf in flatten([list(args), kwargs])):
            return record(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor; the name where it takes one."""
        made = type(self).__init__
        named = {"name": self.name} if "name" in arguments_of(made) or takes_any(made) else {}
        return {**self.settings(), **named}

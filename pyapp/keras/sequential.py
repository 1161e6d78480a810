"""Keras' Sequential: layers one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..engine import Tensor
from ..train.names import unique_name
from . import saving
from .call_graph import as_batch_of
from .call_state import training_mode, weights_of
from .config_reading import Reading
from .config_writing import sequential_config
from .core import Layer
from .model import Model
from .other_layers import InputLayer, as_layer
from .structures import flatten
from .symbolic_tensors import Input, KerasTensor, record

__all__ = ["Sequential"]


class Sequential(Model):
    """Layers one after the other. With an Input first, or an `input_shape` of the first layer, the weights are made at
    once, else by the first batch.
    """

    def __init__(self, layers: Iterable[Any] | None = None, trainable: bool = True, name: str | None = None) -> None:
        super().__init__(name=name, trainable=trainable)
        self._end: Any = None  # the symbolic output so far
        self._first: KerasTensor | None = None
        self._ends: list[Any] = []  # the symbolic outputs after each layer
        for layer in layers or ():
            self._add(layer)
        self._count_graph()

    def _in_compute_dtype(self, tensor: Tensor) -> Tensor:
        return self._in_variable_dtype(tensor)

    def _count_graph(self) -> None:
        """Uses a name up, as Keras does: its Sequential models have a functional one inside, made with each change."""
        if self._end is not None and self.layers:
            unique_name("functional")

    def add(self, layer: Any, rebuild: bool = True) -> None:
        """Adds a layer at the end."""
        self._add(layer)
        self._count_graph()

    def _add(self, layer: Any) -> None:
        if isinstance(layer, (InputLayer, KerasTensor)):
            if self.layers or self._first is not None:
                raise ValueError(f"{self.name}: an Input can only be the first layer")
            self._begin(layer if isinstance(layer, KerasTensor) else layer.tensor)
            return
        layer = as_layer(layer)
        if any(other.name == layer.name and other is not layer for other in self.layers):
            raise ValueError(f"{self.name}: two layers are called {layer.name!r}")
        if not self.layers and self._first is None and layer.first_input_shape is not None:
            self._begin(Input(batch_shape=layer.first_input_shape, dtype=layer.dtype))
        if len(self.layers) == 1 and self._first is None and isinstance(self.layers[0], Model):
            self._begin_as(self.layers[0])
        self._modules[f"layer_{len(self._modules)}"] = layer
        if self._end is not None:
            self._record(layer)
            self.built = True
        self._changed_structure()

    def _record(self, layer: Layer) -> None:
        """The layer's symbolic output becomes that of the model."""
        with weights_of(self):
            self._end = record(layer, (self._end,), {})
        self._ends.append(self._end)

    def pop(self, rebuild: bool = True) -> Layer:
        """Removes the last layer."""
        if not self.layers:
            raise ValueError(f"{self.name} has no layers")
        layer = self.layers[-1]
        self._modules.popitem()
        if self._first is not None:
            self._ends.pop()
            self._end = self._ends[-1] if self._ends else self._first
        self._changed_structure()
        return layer

    def _changed_structure(self) -> None:
        if self._compiled is not None:
            self.compile(**self._compiled, run_eagerly=self.run_eagerly)

    def _begin(self, tensor: KerasTensor) -> None:
        object.__setattr__(self, "_first", tensor)
        self._end = tensor

    def _begin_as(self, model: Model) -> None:
        """With the input of a model that comes first, if it has one that is known, as Keras does for two layers."""
        inputs = getattr(model, "inputs", None) or []
        if len(inputs) == 1 and isinstance(inputs[0], KerasTensor):
            self._begin(Input(batch_shape=inputs[0].shape, dtype=inputs[0].dtype))
            self._record(model)

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights for inputs of a shape (with the batch's size first, which may be None). ValueError where
        the model has an Input of another shape."""
        if self._first is not None and input_shape is not None:
            wanted = self._first.shape
            sizes = zip(wanted[1:], tuple(input_shape)[1:], strict=False)
            if len(wanted) != len(input_shape) or any(None not in (a, b) and a != b for a, b in sizes):
                raise ValueError(f"{self.name}: the model takes inputs of shape {wanted}, not {tuple(input_shape)}")
        if self._end is None and input_shape is not None:
            self._begin(Input(batch_shape=input_shape, dtype=self.dtype))
            for layer in self.layers:
                self._end = record(layer, (self._end,), {})
                self._ends.append(self._end)
            self.built = True
            self._count_graph()

    def _build_for(self, inputs: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        if self._first is None and hasattr(inputs, "shape") and self.layers:
            try:
                self.build((None, *inputs.shape[1:]))
            except NotImplementedError:  # a layer that cannot say its shapes: the model runs without symbolic tensors
                self._first = self._end = None
                self._ends.clear()
        self.built = True

    def symbolic_outputs(self, *args: Any, **kwargs: Any) -> Any:
        if self._first is None and args and isinstance(args[0], KerasTensor):
            self.build(args[0].shape)  # with the sides that are not known, which the zeros of `infer` would fix
        return super().symbolic_outputs(*args, **kwargs)

    @property
    def inputs(self) -> list[KerasTensor]:
        return [] if self._first is None else [self._first]

    @property
    def outputs(self) -> list[KerasTensor]:
        return [] if self._end is None else flatten(self._end)

    @property
    def output_names(self) -> list[str]:
        return [self.layers[-1].name] if self.layers else []

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        if isinstance(inputs, (list, tuple)) and len(inputs) == 1 and isinstance(self._first, KerasTensor):
            inputs = inputs[0]
        if self._first is not None and isinstance(inputs, Mapping):
            raise ValueError(f"model {self.name} takes one tensor, got a dict with {', '.join(map(repr, inputs))}")
        if self._first is not None and hasattr(inputs, "shape"):
            # Other sizes than those of the first batch are for the layers to take or refuse, as in Keras.
            inputs = as_batch_of(self._first, inputs, f"model {self.name} takes inputs of", any_size=True)
        if not self.layers:
            raise ValueError(f"{self.name} has no layers: add some before it is called")
        x = inputs
        with training_mode(training):
            for layer in self.layers:
                x = layer(x)
        return x

    def get_config(self) -> dict[str, Any]:
        return sequential_config(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Any:
        with saving.custom_object_scope(custom_objects):
            return Reading("from_config", keeps_training=True).sequential(cls, {}, config)

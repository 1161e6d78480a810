"""What stands among layers without being one: any module of `nn`, and the inputs of a model."""

from __future__ import annotations

from typing import Any

from ..nn.module import Module
from ..train.names import unique_name
from .core import Layer
from .symbolic_tensors import Input


class ModuleLayer(Layer):
    """Any other module of `nn` as a layer: it is put into training or evaluation mode as the call says."""

    def __init__(self, module: Module, name: str | None = None) -> None:
        super().__init__(name=name or unique_name(type(module).__name__))
        self.module = module
        self.built = True

    def call(self, *inputs: Any, training: bool = False, **kwargs: Any) -> Any:
        if self.module.training is not training:
            self.module.train(training)
        return self.module(*inputs, **kwargs)


def as_layer(layer: Any) -> Layer:
    """A Keras layer, a module as one, or an instance made of a class. ValueError for anything else."""
    if isinstance(layer, type) and issubclass(layer, Layer):
        raise ValueError(f"takes an instance: write {layer.__name__}(…), not the class")
    if isinstance(layer, Layer):
        return layer
    if isinstance(layer, Module):
        return ModuleLayer(layer)
    raise ValueError(f"takes layers and modules, not {layer!r:.60}")


class InputLayer(Layer):
    """The shape of a Sequential model's inputs."""

    def __init__(
        self, shape: Any = None, batch_size: int | None = None, dtype: Any = None, batch_shape: Any = None,
        name: str | None = None, input_shape: Any = None, optional: bool = False, sparse: bool = False,
        ragged: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name=name)
        shape = input_shape if shape is None else shape
        self.tensor = Input(shape, batch_size, dtype, batch_shape, self.name, optional, sparse, ragged)
        self.built = True

    def get_config(self) -> dict[str, Any]:
        found = {"batch_shape": self.tensor.shape, "dtype": self.tensor.dtype, "sparse": False, "ragged": False}
        return {**found, "name": self.name, "optional": self.tensor.optional}

    @property
    def output(self) -> Any:
        """The symbolic input of the model."""
        return self.tensor

    input = output

    def call(self, inputs: Any) -> Any:
        return inputs

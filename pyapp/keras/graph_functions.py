"""keras.Function: what lies between symbolic inputs and outputs, as a function."""

from __future__ import annotations

from typing import Any

from ..engine import ops
from ..train.batches import is_array
from ..train.names import unique_name
from .call_graph import CallGraph
from .operations import Function as FunctionLayer
from .structures import flatten, map_shapes, map_structure
from .symbolic_tensors import KerasTensor, infer, record

__all__ = ["Function"]


class Function:
    """The calls between symbolic inputs and outputs, which are tensors, or lists or dicts of them. It is called with
    tensors or arrays in the structure of the inputs, or with symbolic tensors. A model can be trained too."""

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None) -> None:
        self.name = name or unique_name("function")
        self._graph = CallGraph(inputs, outputs)
        self._layer = FunctionLayer(self._run, name=self.name)

    @property
    def inputs(self) -> list[KerasTensor]:
        """The symbolic inputs."""
        return flatten(self._graph.inputs)

    @property
    def outputs(self) -> list[KerasTensor]:
        """The symbolic outputs."""
        return flatten(self._graph.outputs)

    @property
    def operations(self) -> list[Any]:
        """The layers and functions on the way, in order."""
        return list(self._graph.layers)

    def get_layer(self, name: str) -> Any:
        """The layer or function of that name. ValueError if there is none."""
        for layer in self.operations:
            if layer.name == name:
                return layer
        raise ValueError(
            f"{self.name} has no layer {name!r}; there are {', '.join(one.name for one in self.operations)}"
        )

    def _run(self, inputs: Any) -> Any:
        return self._graph.run(inputs, None)

    def __call__(self, inputs: Any) -> Any:
        if any(isinstance(leaf, KerasTensor) for leaf in flatten(inputs)):
            return record(self._layer, (inputs,), {})
        return self._run(map_structure(lambda leaf: ops.as_tensor(leaf) if is_array(leaf) else leaf, inputs))

    def compute_output_spec(self, inputs: Any) -> Any:
        """The symbolic outputs of symbolic inputs."""
        return infer(self._layer, (inputs,), {})

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shapes of the outputs for the shapes of inputs."""
        symbols = iter(
            KerasTensor(shape, leaf.dtype) for shape, leaf in zip(_shapes(input_shape), self.inputs, strict=True)
        )
        return map_structure(
            lambda leaf: leaf.shape, self.compute_output_spec(map_shapes(lambda _: next(symbols), input_shape))
        )


def _shapes(structure: Any) -> list[Any]:
    found: list[Any] = []
    map_shapes(found.append, structure)
    return found

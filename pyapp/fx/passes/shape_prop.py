"""Notes shapes and dtypes of all values of a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...engine.dtype import DType
from ...engine.tensor import Tensor
from ..interpreter import Interpreter
from ..node import Node, map_aggregate


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: tuple[int, ...]
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]


class ShapeProp(Interpreter):
    """`ShapeProp(graph_module).propagate(*inputs)` runs the module; afterwards `node.meta["tensor_meta"]` has the shape
    and dtype of each value that is a tensor, and `node.meta["type"]` its class."""

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        tensors: list[Tensor] = []

        def note(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            tensors.append(value)
            return TensorMetadata(tuple(value.shape), value.dtype, value.requires_grad, value.stride())

        found = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = found
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the module with these inputs, and gives its result."""
        return self.run(*args)


__all__ = ["ShapeProp", "TensorMetadata"]

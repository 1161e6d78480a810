"""The calls of a functional model: found from its outputs, and run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..engine import Tensor
from ..engine.lazy import np
from .core import Layer
from .masking import mask_of, set_mask
from .other_layers import InputLayer
from .structures import flatten, map_structure
from .symbolic_tensors import Call, KerasTensor


class CallGraph:
    """The calls between the inputs and the outputs of a functional model, in the order in which they can run."""

    def __init__(self, inputs: Any, outputs: Any) -> None:
        self.inputs, self.outputs = inputs, outputs
        leaves = flatten(inputs)
        for leaf in (*leaves, *flatten(outputs)):
            if not isinstance(leaf, KerasTensor):
                raise ValueError(f"Model: inputs and outputs are symbolic tensors, not {leaf!r:.60}")
        self.input_ids = {id(leaf) for leaf in leaves}
        self.calls: list[Call] = []
        done: set[int] = set()
        first_seen: dict[int, int] = {}  # layers and inputs, in the order in which they are met from the outputs

        def visit(tensor: KerasTensor, above: tuple[int, ...]) -> None:
            if id(tensor) in self.input_ids:
                first_seen.setdefault(id(tensor), len(first_seen))
                return
            call = tensor.call
            if call is None:
                raise ValueError(
                    f"Model: {tensor!r} is needed, but it is no input; the graph between inputs and outputs has a gap"
                )
            if id(call) in above:
                raise ValueError(f"Model: layer {call.layer.name} leads back to itself")
            first_seen.setdefault(id(call.layer), len(first_seen))
            if id(call) in done:
                return
            for tensor in call.inputs:
                visit(tensor, (*above, id(call)))
            done.add(id(call))
            self.calls.append(call)

        for output in flatten(outputs):
            visit(output, ())
        for leaf in leaves:
            first_seen.setdefault(id(leaf), -1)
        self.layers = self._in_keras_order(leaves, first_seen)
        names = [layer.name for layer in self.layers]
        twice = next((name for name in names if names.count(name) > 1), None) if len({*names}) < len(names) else None
        if twice is not None:  # files tell layers apart by their names
            raise ValueError(f"Model: two layers are called {twice!r}; give each its own name")

    def _in_keras_order(self, leaves: list[KerasTensor], first_seen: Mapping[int, int]) -> list[Layer]:
        """The layers from the inputs to the outputs: those farthest from the outputs first."""
        depth: dict[int, int] = {}  # of calls and inputs
        for output in flatten(self.outputs):
            depth.setdefault(id(output) if output.call is None or id(output) in self.input_ids else id(output.call), 0)
        for call in reversed(self.calls):
            at = depth.setdefault(id(call), 0)
            for tensor in call.inputs:
                source = id(tensor) if id(tensor) in self.input_ids else id(tensor.call)
                depth[source] = max(depth.get(source, 0), at + 1)
        found: dict[int, tuple[int, int, Layer]] = {}
        for leaf in leaves:
            layer = InputLayer(batch_shape=leaf.shape, dtype=leaf.dtype, name=leaf.name, optional=leaf.optional)
            layer.tensor = leaf
            found[id(leaf)] = depth.get(id(leaf), 0), first_seen[id(leaf)], layer
        for call in self.calls:
            key = id(call.layer)
            before = found.get(key)
            found[key] = max(depth[id(call)], before[0] if before else 0), first_seen[key], call.layer
        return [layer for _, _, layer in sorted(found.values(), key=lambda entry: (-entry[0], entry[1]))]

    def run(self, given: Any, training: bool | None) -> Any:
        """The outputs for inputs in the structure of `inputs`, or in a list or dict by names."""
        leaves = flatten(self.inputs)
        if isinstance(given, Mapping) and not isinstance(self.inputs, Mapping):
            missing = [leaf.name for leaf in leaves if leaf.name not in given]
            if missing:
                raise ValueError(
                    f"the inputs have no {', '.join(map(repr, missing))}; there are {', '.join(map(repr, given))}"
                )
            flat = [given[leaf.name] for leaf in leaves]
        else:
            flat = flatten(self._by_key(given) if isinstance(self.inputs, Mapping) else given)
        if len(flat) != len(leaves):
            raise ValueError(f"the model takes {len(leaves)} inputs, got {len(flat)}")
        values: dict[int, Any] = {}
        for leaf, value in zip(leaves, flat, strict=True):
            if value is None and not leaf.optional:
                raise ValueError(f"input {leaf.name!r} is None, but it is not optional: make it with optional=True")
            values[id(leaf)] = None if value is None else as_batch_of(leaf, value, f"input {leaf.name!r} takes")
        for call in self.calls:
            outputs = call.run(values, training)
            for symbol, value in zip(flatten(call.outputs), flatten(outputs), strict=True):
                values[id(symbol)] = value
        return map_structure(lambda leaf: values[id(leaf)], self.outputs)

    def _by_key(self, given: Any) -> Any:
        """Inputs for a model that takes a dict: those of its keys. ValueError where some are missing, or where a list
        could be meant in the order of the dict or in that of the sorted keys."""
        keys = list(self.inputs)
        if not isinstance(given, Mapping):
            if keys != sorted(keys):
                raise ValueError(f"the model takes a dict of {', '.join(map(repr, keys))}, got {type(given).__name__}")
            return given
        missing = [key for key in keys if key not in given and not getattr(self.inputs[key], "optional", False)]
        if missing:
            raise ValueError(
                f"the inputs have no {', '.join(map(repr, missing))}; there are {', '.join(map(repr, given))}"
            )
        more = [key for key in given if key not in self.inputs]
        if more:
            warnings.warn(f"the model does not take the inputs {', '.join(map(repr, more))}", stacklevel=2)
        return {key: given.get(key) for key in keys}


def as_batch_of(symbol: KerasTensor, value: Any, takes: str, any_size: bool = False) -> Any:
    """A batch for a symbolic input, in its dtype; (B, …) is taken for (B, …, 1), and (B, …, 1) for (B, …). ValueError,
    which begins with `takes`, for another shape; with `any_size`, for another number of dims.
    """
    wanted = symbol.shape
    if len(value.shape) == len(wanted) - 1 and wanted[-1] == 1:
        value = value.unsqueeze(-1) if isinstance(value, Tensor) else np.expand_dims(value, -1)
    elif len(value.shape) == len(wanted) + 1 and value.shape[-1] == 1:
        value = value.squeeze(-1)
    fits = len(value.shape) == len(wanted) and all(
        any_size or n is None or n == size for n, size in zip(wanted[1:], value.shape[1:], strict=True)
    )
    if not fits:
        raise ValueError(f"{takes} shape {wanted}, got {tuple(value.shape)}")
    if not isinstance(value, Tensor) and symbol.dtype != "string":
        what = f"numbers ({symbol.dtype}), got an array of {value.dtype}"
        raise ValueError(f"{takes} {what}: texts take keras.Input(…, dtype='string')")
    if not isinstance(value, Tensor) or value.dtype.name == symbol.dtype or symbol.dtype == "string":
        return value
    return set_mask(value.to(symbol.dtype), mask_of(value))

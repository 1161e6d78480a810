"""Configurations as Keras writes them (config.json of a `.keras` file): layers and models to JSON.

An object is {"module", "class_name", "config", "registered_name"}; a layer that is built has its "build_config" too.
Source: the documents of `keras.saving`, and files of Keras 3.15.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..engine import Tensor
from ..engine.lazy import np
from . import dtype_policies
from .call_arguments import arguments_of
from .config_operations import describe_operation
from .core import Layer
from .lookup import CLASSES, as_json, described, function_as_json
from .other_layers import InputLayer
from .structures import flatten, map_structure
from .symbolic_tensors import KerasTensor

if TYPE_CHECKING:
    from .model import Model


def describe(layer: Any, first: bool = True) -> dict[str, Any]:
    """A layer or model as Keras' JSON. TypeError for what a file cannot describe."""
    kind = type(layer)
    model = CLASSES["Model"]
    writes_own = isinstance(layer, model) and kind.get_config not in (
        model.get_config,
        CLASSES["Sequential"].get_config,
    )
    has_graph = getattr(layer, "graph", None) is not None
    if has_graph and not writes_own and {"inputs", "outputs"} <= arguments_of(kind.__init__):
        made = described(kind, functional_config(layer))
    elif hasattr(layer, "_first") and not writes_own:
        made = described(kind, sequential_config(layer))
    else:
        made = _by_arguments(layer, inherits_config=has_graph and not writes_own)
    if first and getattr(layer, "compiled", False):
        made["compile_config"] = compile_config(layer)
    return made


def describe_saved(model: Any) -> dict[str, Any]:
    """A model as `describe` has it, without what it was compiled with where a loss or metric has no name."""
    try:
        return describe(model)
    except TypeError:
        if not model.compiled:
            raise
        return describe(model, first=False)


def _by_arguments(layer: Any, inherits_config: bool) -> dict[str, Any]:
    """A layer by the arguments of its constructor. `inherits_config`: it is a functional model of a user's class that
    has no `get_config`; Model's would describe the graph.
    """
    kind = type(layer)
    if layer.is_operation or kind.__name__ == "Model":
        raise TypeError(f"{layer.name} cannot be written to a file: save the weights alone with save_weights")
    config = Layer.get_config(layer) if inherits_config else layer.get_config()
    kept = {key: value for key, value in config.items() if key != "input_shape"}
    made = described(kind, _written(kept))
    built = layer.get_build_config()
    if built is not None:
        made["build_config"] = built
    inputs = getattr(layer, "_first_inputs", None)
    if inputs is not None:
        made["build_config"] = {"input_shape": _shapes(inputs), "inputs": inputs}
    return made


def _shapes(inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        if "batch_shape" in inputs:
            return inputs["batch_shape"]
        return {key: _shapes(value) for key, value in inputs.items()}
    return [_shapes(value) for value in inputs]


def _written(value: Any) -> Any:
    """The values of `get_config` in a file: lists for tuples."""
    if isinstance(value, Mapping):
        return {str(name): _written(inner) for name, inner in value.items()}
    if isinstance(value, Layer):  # a get_config of one's own may leave it as it is
        return describe(value, first=False)
    return [_written(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def sequential_config(model: Any) -> dict[str, Any]:
    """The layers of a Sequential model, and the shape of its inputs."""
    first = model._first
    made = [describe(layer, first=False) for layer in model.layers]
    if first is not None:
        made.insert(0, describe(InputLayer(batch_shape=first.shape, dtype=first.dtype, name=first.name), first=False))
    policy = dtype_policies.serialize(model.dtype_policy)
    config = {"name": model.name, "trainable": model.trainable, "dtype": policy, "layers": made}
    return config if first is None else {**config, "build_input_shape": list(first.shape)}


def functional_config(model: Model) -> dict[str, Any]:
    """The inputs, layers, calls and outputs of a functional model."""
    graph = model.graph
    found: dict[int, dict[str, Any]] = {}
    histories: dict[int, list[Any]] = {}
    for leaf in flatten(graph.inputs):
        histories[id(leaf)] = [leaf.name, 0, 0]
    counts: dict[int, int] = {}
    for call in graph.calls:
        node = counts[id(call.layer)] = counts.get(id(call.layer), -1) + 1
        for index, leaf in enumerate(flatten(call.outputs)):
            histories[id(leaf)] = [call.layer.name, node, index]

    def tensor(leaf: Any) -> Any:
        if isinstance(leaf, KerasTensor):
            config = {"shape": list(leaf.shape), "dtype": leaf.dtype, "keras_history": histories[id(leaf)]}
            return {"class_name": "__keras_tensor__", "config": config}
        return _plain(leaf)

    for call in graph.calls:
        args, kwargs = call.args, call.kwargs
        is_operation = call.layer.is_operation
        if is_operation:
            made, args, kwargs = describe_operation(call)
        else:
            made = describe(call.layer, first=False)
        entry = found.setdefault(id(call.layer), {**made, "name": call.layer.name, "inbound_nodes": []})
        node_of = {"args": map_structure(tensor, list(args)), "kwargs": map_structure(tensor, dict(kwargs))}
        entry["inbound_nodes"].append(node_of)
    entries = []
    for layer in graph.layers:
        if isinstance(layer, InputLayer):
            entries.append({**describe(layer, first=False), "name": layer.name, "inbound_nodes": []})
        else:
            entries.append(found[id(layer)])
    names = [entry["name"] for entry in entries]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{model.name}: two layers are called {twice!r}; a file tells layers apart by their names")
    inputs, outputs = map_structure(lambda leaf: histories[id(leaf)], model.given_ends)
    return {
        "name": model.name, "trainable": model.trainable, "layers": entries, "input_layers": inputs,
        "output_layers": outputs,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """A value of a call's arguments as JSON."""
    if isinstance(value, slice):
        parts = {"start": value.start, "stop": value.stop, "step": value.step}
        return {"class_name": "__slice__", "config": parts}
    if value is Ellipsis:
        return {"class_name": "__ellipsis__", "config": {}}
    if isinstance(value, Tensor):
        return {"class_name": "__tensor__", "config": {"value": value.tolist(), "dtype": value.dtype.name}}
    if isinstance(value, np.ndarray) and value.ndim:
        return {"class_name": "__numpy__", "config": {"value": value.tolist(), "dtype": value.dtype.name}}
    return as_json(value)


def compile_config(model: Any) -> dict[str, Any]:
    """What a model was compiled with, as Keras' JSON. TypeError for what a file cannot describe."""
    given = model._must_be_compiled()

    def written(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): written(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [written(inner) for inner in value]
        if value is None or isinstance(value, (str, int, float, bool)):
            return value
        if hasattr(value, "get_config"):
            return described(type(value), _written(as_json(value.get_config())))
        return as_json(value) if value.__module__.startswith("pyapp.") else function_as_json(value)

    settings = {key: written(value) for key, value in given.items() if key != "optimizer"}
    return {
        "optimizer": written(model.optimizer), **settings, "run_eagerly": bool(model.run_eagerly),
        "steps_per_execution": model.steps_per_execution, "jit_compile": model.jit_compile,
    }  # fmt: skip

"""Models of the same layers with new weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..train.metrics import Metric
from . import saving
from .config_reading import Reading
from .config_writing import describe
from .core import Layer
from .model import Functional, Model, single
from .operations import Function
from .other_layers import InputLayer, as_layer
from .sequential import Sequential
from .structures import flatten, map_structure
from .symbolic_tensors import KerasTensor

__all__ = ["clone_model"]


def clone_model(
    model: Model, input_tensors: Any = None, clone_function: Callable[[Layer], Any] | None = None,
    call_function: Callable[..., Any] | None = None, recursive: bool = False,
) -> Any:  # fmt: skip
    """A model of the same layers with new weights, compiled as the model is.

    `clone_function` gives the layer that takes the place of each, for a Sequential or a functional model; `recursive`
    does so within models inside, too. `input_tensors` are symbolic inputs in the structure of `model.input`.
    `call_function(layer, *args, **kwargs)` makes the calls of a functional model: it may add layers.
    """
    if not isinstance(model, Sequential) and model.graph is None:
        if clone_function is not None or call_function is not None or input_tensors is not None:
            raise ValueError(
                f"clone_model: {model.name} is a subclass; input_tensors, clone_function and call_function go with "
                "Sequential and functional models"
            )
    plain = clone_function is None and call_function is None and input_tensors is None
    if plain and type(model) not in (Sequential, Functional):
        with saving.custom_object_scope({type(model).__name__: type(model)}):
            return Reading("clone_model", keeps_training=True).object(describe(model, first=False))
    copies: dict[int, Any] = {}  # a layer that is called twice has one copy

    def copy_of(layer: Layer) -> Any:
        if id(layer) not in copies:
            if recursive and isinstance(layer, (Functional, Sequential)):
                calls = None if isinstance(layer, Sequential) else call_function
                copies[id(layer)] = clone_model(layer, None, clone_function, calls, recursive=True)
            else:
                copies[id(layer)] = as_layer((clone_function or _copied)(layer))
        return copies[id(layer)]

    if isinstance(model, Sequential):
        cloned = _cloned_sequential(model, input_tensors, copy_of, call_function)
    else:
        cloned = _cloned_functional(model, input_tensors, copy_of, call_function or _called)
    if not model.trainable:
        cloned.trainable = False
    if model._compiled is not None:
        optimizer = model._compiled["optimizer"]
        given = {key: map_structure(_fresh, value) for key, value in model._compiled.items() if key != "optimizer"}
        cloned.compile(type(optimizer).from_config(optimizer.get_config()), **given, run_eagerly=model.run_eagerly)
    return cloned


def _called(layer: Any, *args: Any, **kwargs: Any) -> Any:
    return layer(*args, **kwargs)


def _fresh(given: Any) -> Any:
    """What compile is given anew: a metric without what it has measured."""
    return type(given).from_config(given.get_config()) if isinstance(given, Metric) else given


def _cloned_sequential(model: Sequential, input_tensors: Any, copy_of: Callable[[Layer], Any], calls: Any) -> Model:
    if calls is not None:
        raise ValueError("clone_model: call_function goes with functional models: a Sequential has no calls of layers")
    given = flatten(input_tensors) if input_tensors is not None else []
    if len(given) > 1:
        raise ValueError(f"clone_model: a Sequential has one input, got {len(given)} input_tensors")
    found = Sequential(name=model.name)
    first = given[0] if given else model._first
    if first is not None:
        found.add(InputLayer(batch_shape=first.shape, dtype=first.dtype, name=first.name))
    for layer in model.layers:
        found.add(copy_of(layer))
    return found


def _cloned_functional(
    model: Model, input_tensors: Any, copy_of: Callable[[Layer], Any], call: Callable[..., Any]
) -> Model:
    inputs = map_structure(lambda leaf: _input_like(leaf), model.given_ends[0])
    if input_tensors is not None:
        if map_structure(lambda _: 0, single(input_tensors)) != map_structure(lambda _: 0, single(inputs)):
            raise ValueError("clone_model: input_tensors have not the structure of model.input")
        inputs = input_tensors
    symbols = {id(old): new for old, new in zip(flatten(model.graph.inputs), flatten(inputs), strict=True)}

    def symbol(leaf: Any) -> Any:
        return symbols[id(leaf)] if isinstance(leaf, KerasTensor) else leaf

    for made in model.graph.calls:
        layer = made.layer if isinstance(made.layer, Function) else copy_of(made.layer)  # an operator has no weights
        outputs = call(layer, *map_structure(symbol, made.args), **map_structure(symbol, made.kwargs))
        symbols |= {id(old): new for old, new in zip(flatten(made.outputs), flatten(outputs), strict=True)}
    return Functional(inputs, map_structure(symbol, model.given_ends[1]), name=model.name)


def _input_like(leaf: KerasTensor) -> KerasTensor:
    found = KerasTensor(leaf.shape, leaf.dtype, leaf.name)
    found.optional = leaf.optional
    return found


def _copied(layer: Layer) -> Any:
    """A layer like another, with new weights."""
    if type(layer) in (Sequential, Functional):
        return clone_model(layer)  # type: ignore[arg-type]
    if isinstance(layer, Function):  # a Lambda: its function cannot be a configuration
        return type(layer)(**{**(layer._arguments or {}), "name": layer.name})
    return type(layer).from_config(layer.get_config())

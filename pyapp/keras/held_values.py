"""Layers whose variables have other values for a while, to which gradients reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..engine import Tensor, ops
from ..nn.module import Module
from ..train.variable import Variable, as_variable

__all__ = ["values_in"]


@contextmanager
def values_in(layer: Module, variables: Sequence[Any], values: Sequence[Any]) -> Iterator[list[Variable]]:
    """Inside, other variables stand in the place of a layer's variables, with copies of these values: they are given.
    What is computed keeps them, so gradients reach the values afterwards too. ValueError for another shape.
    """
    others: dict[int, Variable] = {}
    for variable, given in zip(variables, values, strict=True):
        value = ops.as_tensor(given).to(dtype=variable.dtype, device=variable.device)
        if value.shape != variable.shape:
            raise ValueError(f"a variable of shape {variable.shape} cannot have a value of shape {value.shape}")
        others[id(variable)] = other = as_variable(value.clone())
        other._path = getattr(variable, "_path", "variable")
    written: list[tuple[Any, Any, Any]] = []  # (a dict or a list, its key, what was there)
    try:
        for module in layer.modules():
            held = vars(module)
            for part in (module._parameters, module._buffers, held, *held.values()):
                for place in (part, *part) if type(part) is list else (part,):
                    _replace(place, others, written)
            pairs = held.get("_regularized")
            if pairs:
                written.append((held, "_regularized", pairs))
                held["_regularized"] = [(others.get(id(weight), weight), function) for weight, function in pairs]
        yield [others[id(variable)] for variable in variables]
    finally:
        for place, key, before in reversed(written):
            place[key] = before


def _replace(place: Any, others: dict[int, Variable], written: list[tuple[Any, Any, Any]]) -> None:
    """Puts the others into a dict or a list."""
    items = list(place.items()) if type(place) is dict else list(enumerate(place)) if type(place) is list else ()
    for key, value in items:
        if isinstance(value, Tensor) and id(value) in others:
            written.append((place, key, value))
            place[key] = others[id(value)]

"""The arguments of a layer's methods: their names, and what is given for them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from ..engine import Tensor
from .structures import flatten, map_structure


def is_of_a_user(method: Any) -> bool:
    """Whether a method is a user's."""
    return not (method.__module__ or "").startswith("pyapp.")  # None where exec has no __name__


@functools.cache
def shape_arguments(method: Any) -> tuple[str, ...]:
    """The names of the arguments of a `build` or a `compute_output_shape` of a user's; () for one of pyapp's."""
    if not is_of_a_user(method):
        return ()
    taken = inspect.signature(method).parameters.values()
    return tuple(one.name for one in taken if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL))[1:]


def shapes_for(layer: Any, names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of the arguments of a call, by the names that a `build` has for them: one name stands for the first
    argument, each of several is that of an argument and `_shape`. ValueError for another name."""
    given = {**dict(zip(argument_names(type(layer).call), args, strict=False)), **kwargs}
    found = {
        name: map_structure(lambda leaf: tuple(leaf.shape) if hasattr(leaf, "shape") else None, value)
        for name, value in given.items()
        if any(hasattr(leaf, "shape") for leaf in flatten(value))
    }
    if len(names) == 1:
        return {names[0]: next(iter(found.values()), None)}
    for name in names:
        if not name.endswith("_shape") or name.removesuffix("_shape") not in argument_names(type(layer).call):
            raise ValueError(
                f"layer {layer.name} ({type(layer).__name__}): {name!r} stands for no argument of call(); each of "
                "several is named like one, with _shape at its end"
            )
    return {name: found[name.removesuffix("_shape")] for name in names if name.removesuffix("_shape") in found}


@functools.cache
def arguments_of(call: Any) -> frozenset[str]:
    """The names of the arguments of `call`."""
    return frozenset(inspect.signature(call).parameters)


@functools.cache
def takes_any(call: Any) -> bool:
    """Whether `call` takes arguments of any name."""
    return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(call).parameters.values())


@functools.cache
def argument_names(call: Any) -> tuple[str, ...]:
    """The names of the arguments of `call` in order, without self."""
    return tuple(inspect.signature(call).parameters)[1:]


def is_texts(value: Any) -> bool:
    """Whether it is an array of texts."""
    return getattr(getattr(value, "dtype", None), "kind", "") in ("O", "U", "S", "T")


def is_list_of_texts(value: list[Any]) -> bool:
    """Whether a list has texts, or lists of them."""
    return bool(value) and all(
        isinstance(one, str) or (isinstance(one, list) and is_list_of_texts(one)) for one in value
    )


def is_list_of_numbers(value: Any) -> bool:
    """Whether it is a list of numbers, or of such lists: one input, not several."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(one, (int, float)) or is_list_of_numbers(one) for one in value)


def is_shape(value: Any) -> bool:
    """Whether it is a shape of a tensor."""
    return isinstance(value, (list, tuple)) and all(size is None or type(size) is int for size in value)


def has_tensors(value: Any) -> bool:
    """Whether there are tensors in nested lists, tuples and dicts."""
    return any(isinstance(leaf, Tensor) for leaf in flatten(value))


def is_any(masks: Any) -> bool:
    """Whether one of nested masks is not None."""
    return any(mask is not None for mask in flatten(masks))

"""Lists, tuples and dicts of values: their leaves in the order in which Keras has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def _same_kind(structure: Any, values: Iterator[Any]) -> Any:
    """A list or tuple, or a tuple with names, of other values."""
    kind = type(structure)
    return kind(*values) if hasattr(structure, "_fields") else kind(values)


def map_structure(function: Callable[[Any], Any], structure: Any) -> Any:
    """The same lists, tuples and dicts, with function(leaf) in place of each leaf."""
    if isinstance(structure, Mapping):
        return {key: map_structure(function, value) for key, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        return _same_kind(structure, (map_structure(function, value) for value in structure))
    return function(structure)


def flatten(structure: Any) -> list[Any]:
    """The leaves of lists, tuples and dicts, dicts in the order of their keys as Keras sorts them."""
    if isinstance(structure, Mapping):
        return [leaf for key in sorted(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for value in structure for leaf in flatten(value)]
    return [structure]


def paths_of(structure: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys and numbers that lead to each leaf, in the order of `flatten`."""
    if isinstance(structure, Mapping):
        return [path for key in sorted(structure) for path in paths_of(structure[key], (*above, key))]
    if isinstance(structure, (list, tuple)):
        return [path for number, value in enumerate(structure) for path in paths_of(value, (*above, number))]
    return [above]


def is_nested(structure: Any) -> bool:
    """Whether a list, tuple or dict has others inside."""
    if not isinstance(structure, (Mapping, list, tuple)):
        return False
    values = structure.values() if isinstance(structure, Mapping) else structure
    return any(isinstance(value, (Mapping, list, tuple)) for value in values)


def unflatten(structure: Any, values: Iterator[Any]) -> Any:
    """The structure with the next value in place of each leaf, in the order of `flatten`."""
    if isinstance(structure, Mapping):
        found = {key: unflatten(structure[key], values) for key in sorted(structure)}
        return {key: found[key] for key in structure}
    if isinstance(structure, (list, tuple)):
        return _same_kind(structure, (unflatten(value, values) for value in structure))
    return next(values)


def map_shapes(function: Callable[[Any], Any], shapes: Any) -> Any:
    """map_structure over shapes: tuples of sizes are leaves."""
    if isinstance(shapes, Mapping):
        return {key: map_shapes(function, value) for key, value in shapes.items()}
    if all(size is None or isinstance(size, int) for size in shapes):
        return function(tuple(shapes))
    return type(shapes)(map_shapes(function, value) for value in shapes)

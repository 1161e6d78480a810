"""keras.tree: nested lists, tuples and dicts of any values. Dicts are in the order of their sorted keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "MAP_TO_NONE", "assert_same_paths", "assert_same_structure", "flatten", "flatten_with_path", "is_nested",
    "lists_to_tuples", "map_shape_structure", "map_structure", "map_structure_up_to", "pack_sequence_as", "traverse",
]  # fmt: skip


class MAP_TO_NONE:
    """What a function of `traverse` returns in place of None, where None means "go on"."""


def is_nested(structure: Any) -> bool:
    """Whether it is a list, a tuple or a dict."""
    return isinstance(structure, (list, tuple, Mapping))


def _children(structure: Any) -> list[tuple[Any, Any]]:
    """(key or place, value) of one level."""
    if isinstance(structure, Mapping):
        return [(key, structure[key]) for key in sorted(structure)]
    return list(enumerate(structure))


def _rebuilt(structure: Any, values: Iterable[Any]) -> Any:
    """The same list, tuple or dict with other values, in the order of `_children`."""
    if isinstance(structure, Mapping):
        found = dict(zip(sorted(structure), values, strict=True))
        made = {key: found[key] for key in structure}
        kind: Any = type(structure)
        return made if kind is dict else kind(made)
    if hasattr(structure, "_fields"):  # a named tuple
        return type(structure)(*values)
    return type(structure)(values)


def flatten_with_path(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """(path, leaf) of all leaves; a path has the keys and places that lead to it."""
    if not is_nested(structure):
        return [((), structure)]
    return [
        ((key, *path), leaf) for key, value in _children(structure) for path, leaf in flatten_with_path(value)
    ]  # fmt: skip


def flatten(structure: Any) -> list[Any]:
    """The leaves; None is one."""
    return [leaf for _, leaf in flatten_with_path(structure)]


def map_structure(func: Callable[..., Any], *structures: Any, none_is_leaf: bool = True) -> Any:
    """The same structure with func(leaf, …) in place of each leaf; of several structures, which must be alike."""
    if not callable(func):
        raise TypeError(f"map_structure: the function cannot be called: {func!r:.60}")
    if not structures:
        raise ValueError("map_structure: takes one structure or more")
    for other in structures[1:]:
        assert_same_structure(structures[0], other)

    def apply(*parts: Any) -> Any:
        if is_nested(parts[0]):
            every = zip(*([value for _, value in _children(part)] for part in parts), strict=True)
            return _rebuilt(parts[0], [apply(*values) for values in every])
        return None if parts[0] is None and not none_is_leaf else func(*parts)

    return apply(*structures)


def map_structure_up_to(shallow_structure: Any, func: Callable[..., Any], *structures: Any) -> Any:
    """map_structure, where the leaves of the first structure say how deep the others are followed."""

    def apply(shallow: Any, *parts: Any) -> Any:
        if not is_nested(shallow):
            return func(*parts)
        inner = _children(shallow)
        for part in parts:
            if not is_nested(part) or [key for key, _ in _children(part)] != [key for key, _ in inner]:
                raise ValueError(f"map_structure_up_to: {part!r:.60} has other parts than {shallow!r:.60}")
        every = [[value for _, value in _children(part)] for part in parts]
        return _rebuilt(shallow, [apply(value, *(e[k] for e in every)) for k, (_, value) in enumerate(inner)])

    return apply(shallow_structure, *structures)


def assert_same_structure(a: Any, b: Any, check_types: Any = None) -> None:
    """ValueError unless both have the same lists, tuples and keys."""
    if check_types is not None:
        raise NotImplementedError("assert_same_structure: Keras ignores check_types; leave it out")
    if is_nested(a) != is_nested(b):
        raise ValueError(f"the structures differ: {a!r:.60} and {b!r:.60}")
    if not is_nested(a):
        return
    kinds = (isinstance(a, Mapping), isinstance(b, Mapping))
    if kinds[0] != kinds[1] or (not kinds[0] and type(a) is not type(b)):
        raise ValueError(f"the structures differ: {type(a).__name__} and {type(b).__name__}")
    left, right = _children(a), _children(b)
    if [key for key, _ in left] != [key for key, _ in right]:
        raise ValueError(f"the structures differ: {[key for key, _ in left]} and {[key for key, _ in right]}")
    for (_, one), (_, other) in zip(left, right, strict=True):
        assert_same_structure(one, other)


def assert_same_paths(a: Any, b: Any) -> None:
    """ValueError unless the leaves have the same paths."""
    left, right = ({path for path, _ in flatten_with_path(structure)} for structure in (a, b))
    if left != right:
        raise ValueError(f"the paths differ: {sorted(left ^ right, key=str)[:5]}")


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """The structure with the values of a flat list as its leaves."""
    values = list(flat_sequence)
    count = len(flatten(structure))
    if len(values) != count:
        raise ValueError(f"pack_sequence_as: the structure has {count} leaves, got {len(values)} values")
    rest = iter(values)
    return map_structure(lambda _: next(rest), structure)


def lists_to_tuples(structure: Any) -> Any:
    """The same with tuples in place of lists."""
    return traverse(lambda x: tuple(x) if isinstance(x, list) else None, structure, top_down=False)


def map_shape_structure(func: Callable[..., Any], structure: Any) -> Any:
    """map_structure in which tuples and lists of sizes are leaves."""
    if isinstance(structure, (list, tuple)) and all(size is None or isinstance(size, int) for size in structure):
        return func(tuple(structure))
    if not is_nested(structure):
        raise ValueError(f"map_shape_structure: {structure!r:.60} is not a shape")
    return _rebuilt(structure, [map_shape_structure(func, value) for _, value in _children(structure)])


def traverse(func: Callable[[Any], Any], structure: Any, top_down: bool = True) -> Any:
    """The structure in which func(part) stands for each part, the whole and the leaves included, where it is not None;
    MAP_TO_NONE stands for None. With `top_down` what was replaced is not gone into."""

    def replaced(part: Any) -> tuple[bool, Any]:
        found = func(part)
        return found is not None, None if found is MAP_TO_NONE else found

    if top_down:
        done, value = replaced(structure)
        if done:
            return value
        if not is_nested(structure):
            return structure
        return _rebuilt(structure, [traverse(func, value) for _, value in _children(structure)])
    if is_nested(structure):
        structure = _rebuilt(structure, [traverse(func, value, False) for _, value in _children(structure)])
    done, value = replaced(structure)
    return value if done else structure

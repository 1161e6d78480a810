"""Containers within containers as trees, by torch.utils._pytree's names: their leaves in order, the same containers of
other leaves, classes of one's own as containers.

Containers are dict, OrderedDict, defaultdict, list, tuple, named tuples, deque and registered classes; everything else,
None too, is a leaf. torch.func's functions take the same containers.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import ArgumentError

PyTree = Any
Context = Any  # what a container has beside its children


class SequenceKey(NamedTuple):
    """The place of a child in a list, tuple or deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, parent: Any) -> Any:
        return parent[self.idx]


class MappingKey(NamedTuple):
    """The key of a child in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, parent: Any) -> Any:
        return parent[self.key]


class GetAttrKey(NamedTuple):
    """The attribute that holds a child."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, parent: Any) -> Any:
        return getattr(parent, self.name)


class _Kind(NamedTuple):
    """How a class is taken apart and made again; `keys` gives the children's keys."""

    flatten_fn: Callable[[Any], tuple[Iterable[Any], Context]]
    unflatten_fn: Callable[[Any, Context], Any]
    keys: Callable[[Any], list[Any]] | None


def _numbered(tree: Any) -> list[Any]:
    return [SequenceKey(i) for i in range(len(tree))]


def _named(tree: Any) -> list[Any]:
    return [MappingKey(key) for key in tree]


def _defaults(values: Iterable[Any], context: Context) -> Any:
    factory, keys = context
    return defaultdict(factory, zip(keys, values, strict=True))


# The keys are classes, and collections.namedtuple for all named tuples.
SUPPORTED_NODES: dict[Any, _Kind] = {
    namedtuple: _Kind(
        lambda t: (list(t), type(t)), lambda v, made: made(*v), lambda t: [GetAttrKey(name) for name in t._fields]
    ),
    list: _Kind(lambda t: (t, None), lambda v, _: list(v), _numbered),
    tuple: _Kind(lambda t: (list(t), None), lambda v, _: tuple(v), _numbered),
    deque: _Kind(lambda t: (list(t), t.maxlen), lambda v, most: deque(v, maxlen=most), _numbered),
    dict: _Kind(lambda t: (list(t.values()), list(t)), lambda v, k: dict(zip(k, v, strict=True)), _named),
    OrderedDict: _Kind(lambda t: (list(t.values()), list(t)), lambda v, k: OrderedDict(zip(k, v, strict=True)), _named),
    defaultdict: _Kind(lambda t: (list(t.values()), [t.default_factory, list(t)]), _defaults, _named),
}


def _kind(tree: Any) -> _Kind | None:
    """How a container is taken apart; None for a leaf."""
    return SUPPORTED_NODES.get(_get_node_type(tree))


def _get_node_type(tree: Any) -> Any:
    """The key of a tree in SUPPORTED_NODES, if it is a container: its class, or `namedtuple` for named tuples."""
    kind = type(tree)
    return namedtuple if kind not in SUPPORTED_NODES and is_namedtuple_class(kind) else kind


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class is of collections.namedtuple or typing.NamedTuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple_instance(value: Any) -> bool:
    return is_namedtuple_class(type(value))


def is_namedtuple(value: Any) -> bool:
    """Whether it is a named tuple, or the class of one."""
    return is_namedtuple_class(value if isinstance(value, type) else type(value))


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], Any], unflatten_fn: Callable[[Any, Context], Any], *,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None, **serialization: Any,
) -> None:  # fmt: skip
    """Makes `cls` a container: `flatten_fn(object)` gives (children, context), `unflatten_fn(children, context)` an
    object. Arguments for writing structures as texts have no effect.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"register_pytree_node: {cls} is registered already")
    keyed = flatten_with_keys_fn
    SUPPORTED_NODES[cls] = _Kind(
        flatten_fn, unflatten_fn, None if keyed is None else lambda t: [key for key, _ in keyed(t)[0]]
    )


_register_pytree_node = register_pytree_node  # torch's older name


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None, **_: Any
) -> None:
    """Makes a dataclass a container of its fields, without those in `drop_field_names`, which have defaults."""
    fields = [field.name for field in dataclasses.fields(cls) if field.init] if field_names is None else field_names
    names = [name for name in fields if name not in (drop_field_names or ())]
    register_pytree_node(
        cls, lambda t: ([getattr(t, n) for n in names], names), lambda v, k: cls(**dict(zip(k, v, strict=True))),
        flatten_with_keys_fn=lambda t: ([(GetAttrKey(n), getattr(t, n)) for n in names], names),
    )  # fmt: skip


def register_constant(cls: type) -> None:
    """Makes a class a container without leaves: its objects belong to the structure."""
    register_pytree_node(cls, lambda value: ([], value), lambda _, value: value)


class TreeSpec:
    """The structure of a tree: a container's class, its context, and the structures of its children."""

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_leaves: int = sum(child.num_leaves for child in children_specs)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in children_specs)

    def is_leaf(self) -> bool:
        return False

    def children(self) -> list[TreeSpec]:
        return list(self.children_specs)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The containers with these leaves."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ArgumentError(f"tree_unflatten: {len(given)} leaves for a structure of {self.num_leaves}: {self}")
        return self._made(iter(given))

    def _made(self, leaves: Iterator[Any]) -> Any:
        kind = SUPPORTED_NODES.get(self.type) or SUPPORTED_NODES[namedtuple]
        return kind.unflatten_fn([child._made(leaves) for child in self.children_specs], self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of `tree` where this structure has leaves."""
        kind = _kind(tree)
        if kind is None or type(tree) is not self.type:
            raise ArgumentError(f"the trees differ: {self.type.__name__} in one, {type(tree).__name__} in another")
        values, context = kind.flatten_fn(tree)
        children = list(values)
        if self.type in (dict, OrderedDict) and set(context) == set(self.context):
            children = [tree[key] for key in self.context]
        elif len(children) != self.num_children:
            raise ArgumentError(f"the trees differ: {self.num_children} children in one, {len(children)} in another")
        elif context != self.context:
            raise ArgumentError(f"the trees differ: {self.context} in one, {context} in another")
        pairs = zip(self.children_specs, children, strict=True)
        return [part for spec, child in pairs for part in spec.flatten_up_to(child)]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, self.num_nodes))

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1

    def is_leaf(self) -> bool:
        return True

    def _made(self, leaves: Iterator[Any]) -> Any:
        return next(leaves)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        return [tree]

    def __repr__(self) -> str:
        return "*"


PyTreeSpec = TreeSpec
IsLeaf = Callable[[Any], bool] | None


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it is a leaf: no container, or `is_leaf` says so."""
    return (is_leaf is not None and is_leaf(tree)) or _kind(tree) is None


def _walk(tree: Any, path: tuple[Any, ...] | None, is_leaf: IsLeaf, leaves: list[Any]) -> TreeSpec:
    """Appends the leaves, as (path, leaf) where there is a path, and returns the structure."""
    kind = None if is_leaf is not None and is_leaf(tree) else _kind(tree)
    if kind is None:
        leaves.append(tree if path is None else (path, tree))
        return LeafSpec()
    values, context = kind.flatten_fn(tree)
    if path is None:
        return TreeSpec(type(tree), context, [_walk(value, None, is_leaf, leaves) for value in values])
    children = list(values)
    keys = kind.keys(tree) if kind.keys is not None else [SequenceKey(i) for i in range(len(children))]
    pairs = zip(keys, children, strict=True)
    return TreeSpec(type(tree), context, [_walk(value, (*path, key), is_leaf, leaves) for key, value in pairs])


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure. `is_leaf(part)` may call containers leaves."""
    leaves: list[Any] = []
    return leaves, _walk(tree, None, is_leaf, leaves)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The containers of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: takes leaves, then a TreeSpec, not {type(treespec).__name__}")
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves in order, one after another."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure without the leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves as (keys on the way to it, leaf), and the structure."""
    leaves: list[Any] = []
    return leaves, _walk(tree, (), is_leaf, leaves)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves as (keys on the way to it, leaf)."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def keystr(kp: tuple[Any, ...]) -> str:
    """The keys on the way to a leaf as Python would write it: `['a'][0].x`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """What is at the end of these keys."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The same containers with `func(leaf, ...)` for each leaf; `rests` are trees of the same structure, whose parts
    are further arguments.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """tree_map of `func(keys, leaf, ...)`."""
    leaves, spec = tree_flatten_with_path(tree, is_leaf)
    paths, values = [path for path, _ in leaves], [value for _, value in leaves]
    return spec.unflatten(map(func, paths, values, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Calls `func` for each leaf, for instance to change it in place, and returns the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(types: Any) -> Callable[[Any], bool]:
    """Whether a leaf is of these types, or the function says so."""
    if callable(types) and not isinstance(types, type):
        return types
    return lambda leaf: isinstance(leaf, types)


def tree_map_only(types: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """tree_map over the leaves of one or several types, or for which the function `types` is true; others stay."""
    chosen = _chosen(types)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(types: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """tree_map_only whose results are not needed: the tree itself is returned."""
    tree_map_only(types, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` is true for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` is true for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` is true for all leaves of these types."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, types))


def tree_any_only(types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` is true for a leaf of these types."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, types))

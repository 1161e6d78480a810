"""A node of a Graph: one call, one input, or the result."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..engine.dtype import DType
from ..traced_numbers import _assert, _assert_async
from .immutable_collections import immutable_dict, immutable_list
from .names import name_of_function

if TYPE_CHECKING:
    from .graph import Graph

Target: TypeAlias = Callable[..., Any] | str
Argument: TypeAlias = Any
OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
_KEPT: set[Callable[..., Any]] = set()  # functions whose calls stay, though nothing uses what they give


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """The same tuples, lists, dicts and slices (lists and dicts that cannot be changed), with fn(value) in place of
    each other value."""
    if isinstance(a, tuple):
        parts = tuple(map_aggregate(value, fn) for value in a)
        return type(a)(*parts) if hasattr(a, "_fields") else parts
    if isinstance(a, list):
        return immutable_list([map_aggregate(value, fn) for value in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(value, fn) for key, value in a.items()})
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """The same arguments, with fn(node) in place of each node."""
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: calls of the function are kept by `eliminate_dead_code`."""
    _KEPT.add(fn)
    return fn


class Node:
    """`op` is what it does: "placeholder" (an input, whose default is in args), "get_attr" (a parameter or buffer),
    "call_function", "call_method" (of the first argument), "call_module", "output" (args[0] is the result). `target` is
    the function, or the name of the method, module, attribute or input; `args` and `kwargs` hold other nodes.
    `users` has the nodes that use it, `meta` is free for whoever needs it.
    """

    def __init__(
        self, graph: Graph, name: str, op: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:  # fmt: skip
        if op not in OPCODES:
            raise ValueError(f"Node: {op!r} is none of {', '.join(OPCODES)}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(f"Node: the target of call_function is a function, not {target!r}")
        elif not isinstance(target, str):
            raise ValueError(f"Node: the target of {op} is a name, not {target!r}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._prev: Node = self
        self._next: Node = self
        self._update(args, kwargs)

    # -- arguments

    @property
    def args(self) -> tuple[Any, ...]:
        return self._args

    @args.setter
    def args(self, given: tuple[Any, ...]) -> None:
        self._update(given, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, given: dict[str, Any]) -> None:
        self._update(self._args, given)

    def _update(self, args: Any, kwargs: Any) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def note(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Another argument at a position."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """One more argument, before a position."""
        if not 0 <= idx <= len(self._args):
            raise IndexError(f"insert_arg: {self.name} has {len(self._args)} arguments, and none before {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Another argument of a name."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Uses another node where it used this one."""
        self._replace(lambda node: new_input if node is old_input else node)

    def _replace(self, fn: Callable[[Node], Any]) -> None:
        self._update(map_arg(self._args, fn), map_arg(self._kwargs, fn))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
        propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Lets all users (those for which the function gives True) use another node; gives these. `propagate_meta`: the
        other node, which must have no `meta`, gets this one's."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(f"replace_all_uses_with: {replace_with.name} has meta of its own")
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # -- the place in the graph

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Moves a node of the same graph before this one."""
        if x.graph is not self.graph:
            raise AssertionError(f"prepend: {x.name} is of another graph; node_copy brings it here")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Moves a node of the same graph behind this one."""
        if x is not self:
            self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Node) -> bool:
        return self is not other and self._comes_before(other)

    def __gt__(self, other: Node) -> bool:
        return self is not other and other._comes_before(self)

    def __le__(self, other: Node) -> bool:
        return self is other or self._comes_before(other)

    def __ge__(self, other: Node) -> bool:
        return self is other or other._comes_before(self)

    def _comes_before(self, other: Node) -> bool:
        if self.graph is not other.graph:
            raise AssertionError(f"{self.name} and {other.name} are of two graphs, and none of them comes first")
        return next(node is self for node in self.graph.nodes if node is self or node is other)

    # -- what it is

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node does something else than giving a value: then it stays, used or not. Methods that write
        into their tensor (`add_`) do. `impure_random` is torch's and changes nothing: random numbers alone do not
        count."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _KEPT
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_module" and self.graph.owning_module is not None:
            return bool(getattr(self.graph.owning_module.get_submodule(str(self.target)), "is_impure", False))
        return False

    @property
    def stack_trace(self) -> str | None:
        """Where the node was made, as text, if the tracer noted it."""
        found: str | None = self.meta.get("stack_trace")
        return found

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        name = name_of_function(target)
        return name if "." in name else f"builtins.{name}"

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None
    ) -> str | None:
        """The node as one line of the graph's text. With `placeholder_names`, an input adds its name to that list
        instead."""
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(str(self.target) + (f": {_type_name(self.type)}" if self.type else ""))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return (
                f"%{self.name} : {self._typed()}[num_users={len(self.users)}] = placeholder[target={self.target}]"
                + default
            )
        if self.op == "get_attr":
            return f"%{self.name} : {self._typed()}[num_users={len(self.users)}] = get_attr[target={self.target}]"
        if self.op == "output":
            if self.type and maybe_return_typename is not None:
                maybe_return_typename.append(f" -> {_type_name(self.type)}")
            return f"return {self.args[0]}"
        call = f"{self.op}[target={self._pretty_print_target(self.target)}]"
        given = f"(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"
        return f"%{self.name} : {self._typed()}[num_users={len(self.users)}] = {call}{given}"

    def _typed(self) -> str:
        return f"{_type_name(self.type)} " if self.type is not None else ""

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn is not None else self.name


def _shown(value: Any) -> str:
    """Arguments as text, nodes as %name."""
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            parts = ", ".join(f"{k}={_shown(v)}" for k, v in zip(value._fields, value, strict=True))
            return f"{type(value).__name__}({parts})"
        return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({_shown(value.start)}, {_shown(value.stop)}, {_shown(value.step)})"
    if isinstance(value, DType):
        return repr(value)
    return str(value)


def _type_name(kind: Any) -> str:
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        return kind.__name__ if kind.__module__ == "builtins" else name_of_function(kind)
    return str(kind)


_INPLACE = [
    getattr(operator, name)
    for name in "iadd iand ifloordiv ilshift imod imul imatmul ior ipow irshift isub itruediv ixor setitem".split()
]
for _function in (*_INPLACE, _assert, _assert_async):
    has_side_effect(_function)

__all__ = ["OPCODES", "Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

"""A graph of calls, as symbolic_trace writes it down, and its text as a function of Python."""

from __future__ import annotations

import keyword
import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass
from ..engine.device import Device
from ..engine.dtype import DType
from .names import PACKAGE, Namespace, base_name, name_of_function
from .node import Node, Target, map_aggregate, map_arg

if TYPE_CHECKING:
    from .graph_module import GraphModule

_OPERATORS = {
    operator.eq: "{} == {}", operator.ne: "{} != {}", operator.lt: "{} < {}", operator.gt: "{} > {}",
    operator.le: "{} <= {}", operator.ge: "{} >= {}", operator.pos: "+{}", operator.neg: "-{}",
    operator.invert: "~{}", operator.add: "{} + {}", operator.sub: "{} - {}", operator.mul: "{} * {}",
    operator.floordiv: "{} // {}", operator.truediv: "{} / {}", operator.mod: "{} % {}", operator.pow: "{} ** {}",
    operator.lshift: "{} << {}", operator.rshift: "{} >> {}", operator.and_: "{} & {}", operator.or_: "{} | {}",
    operator.xor: "{} ^ {}", operator.getitem: "{}[{}]", operator.matmul: "{} @ {}",
}  # fmt: skip


@dataclass
class PythonCode:
    """The source of a function, and what it reads from its module's names."""

    src: str
    globals: dict[str, Any]


class _Nodes:
    """The nodes of a graph in their order; they may change while it is walked through."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self._graph, self._backwards = graph, backwards

    def __len__(self) -> int:
        return self._graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        at = root._prev if self._backwards else root._next
        while at is not root:
            if not at._erased:
                yield at
            at = at._prev if self._backwards else at._next

    def __reversed__(self) -> _Nodes:
        return _Nodes(self._graph, not self._backwards)


class _InsertPoint:
    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self._graph, self._before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._graph._insert = self._before


class Graph:
    """Nodes in an order in which they can run. Made by a Tracer, or node by node:

    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(pyapp.relu, (x,)))
    print(graph, GraphModule(Module(), graph).code)
    """

    def __init__(self, owning_module: GraphModule | None = None, tracer_cls: type | None = None,
                 tracer_extras: dict[str, Any] | None = None) -> None:  # fmt: skip
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._names = Namespace()
        self._root = Node(self, "", "placeholder", "", (), {})
        self._root._erased = True
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0

    # -- nodes

    @property
    def nodes(self) -> _Nodes:
        """The nodes in their order; `reversed(graph.nodes)` from the end."""
        return _Nodes(self)

    def output_node(self) -> Node:
        """The node of the result."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, and of a target where that is given; always in their order."""
        if target is None and op == "call_function":
            raise AssertionError("find_nodes: calls of which function? Give its target")
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def create_node(
        self, op: str, target: Target, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A new node at the place where nodes are inserted: at the end, unless `inserting_before` or `inserting_after`
        says another. Its name is `name`, or that of the target, with a number if it is in use."""
        if not isinstance(args or (), tuple) or not isinstance(kwargs or {}, dict):
            raise AssertionError(
                f"create_node: args are a tuple and kwargs a dict, not {args!r:.60} and {kwargs!r:.60}"
            )
        candidate = name if name is not None else base_name(target)
        made = Node(self, self._names.create_name(candidate), op, target, args or (), kwargs or {}, type_expr)
        for node in made.all_input_nodes:
            if node.graph is not self:
                raise RuntimeError(
                    f"create_node: the argument {node.name} is of another graph; node_copy brings it here"
                )
        self._insert(made)
        self._len += 1
        return made

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input; with a default if that is given."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the module, "layer.weight"."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None, type_expr: Any = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(
        self, method_name: str, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A call of a method of args[0]."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A call of a submodule, "layer1.0.conv"."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """The result: a node, or tuples, lists and dicts with nodes."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def erase_node(self, to_erase: Node) -> None:
        """Takes out a node that no node uses. RuntimeError for others."""
        if to_erase.users:
            raise RuntimeError(
                f"erase_node: {', '.join(n.name for n in to_erase.users)} use {to_erase.name}; give them another node "
                "first, by replace_all_uses_with"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"erase_node: {to_erase.name} is of another graph")
        if to_erase._erased:
            return
        to_erase._update((), {})
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """From now on, or inside `with`, new nodes come before this one; without a node at the start."""
        if n is None:
            return self.inserting_after(self._root)
        self._owns(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """From now on, or inside `with`, new nodes come right behind this one; without a node at the end."""
        if n is None:
            return self.inserting_before(self._root)
        self._owns(n)
        return _InsertPoint(self, n.append)

    def _owns(self, n: Node) -> None:
        if n.graph is not self:
            raise AssertionError(f"{n.name} is of another graph")

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of a node, perhaps of another graph, at the place where nodes are inserted; `arg_transform` gives this
        graph's node for each one among its arguments."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(dict(node.kwargs), arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copies the nodes of a graph that are not in `val_map`, and notes them there; gives what it returned."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                found = map_arg(node.args[0], lambda n: val_map[n])
                return (found, node) if return_output_node else found
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        if memo is not None:
            memo[id(self)] = made
        known: dict[Node, Node] = {}
        for node in self.nodes:
            known[node] = made.node_copy(node, lambda n: known[n])
        return made

    def __reduce__(self) -> Any:
        """The nodes in their order, with the numbers of those that they use."""
        numbers = {node: _Reference(k) for k, node in enumerate(self.nodes)}
        written = [
            (node.op, node.target, *(map_arg(given, numbers.__getitem__) for given in (node.args, node.kwargs)),
             node.name, node.type)
            for node in self.nodes
        ]  # fmt: skip
        return _unpickled, (written,)

    # -- cleaning and checking

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Takes out nodes that nothing uses and that do nothing else (`Node.is_impure`); whether there were any."""
        self.lint()
        kept, changed = is_impure_node or Node.is_impure, False
        for node in reversed(self.nodes):
            if not node.users and not kept(node) and node.op not in ("placeholder", "output"):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """RuntimeError, or ValueError, where the graph could not run: a node that is used before it is computed, two of
        one name, a target that the module does not have."""
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"lint: {node.name} is of another graph")
            for source in node.all_input_nodes:
                if source.graph is not self:
                    raise RuntimeError(f"lint: {node.name} uses {source.name}, which is of another graph")
                if source not in seen:
                    raise RuntimeError(f"lint: {node.name} uses {source.name}, which is computed later, or was erased")
            if node.name in names:
                raise RuntimeError(f"lint: two nodes have the name {node.name}")
            seen.add(node)
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    self._find_target(node)

    def _find_target(self, node: Node) -> None:
        at: Any = self.owning_module
        for part in str(node.target).split("."):
            if not hasattr(at, part):
                raise RuntimeError(f"lint: {node.name} has the target {node.target!r}, which the module does not have")
            at = getattr(at, part)

    # -- texts

    def __str__(self) -> str:
        inputs: list[str] = []
        of_result: list[str] = []
        lines = [line for node in self.nodes if (line := node.format_node(None, of_result)) is not None]
        return "\n    ".join([f"graph({', '.join(inputs)}){''.join(of_result)}:", *lines])

    def print_tabular(self) -> None:
        """Prints a table with a line for each node."""
        head = ("opcode", "name", "target", "args", "kwargs")
        rows = [(n.op, n.name, str(n._pretty_print_target(n.target)), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(head[i]) + 2, *(len(row[i]) for row in rows)) for i in range(5)]
        for row in (head, tuple("-" * w for w in widths), *rows):
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())

    def python_code(self, root_module: str = "self", *, verbose: bool = False) -> PythonCode:
        """The graph as a method `forward`, whose first argument is `root_module`."""
        return _Writer(self, root_module).write()


class _Reference(int):
    """The number of a node, in the arguments of another, in a pickle."""


def _unpickled(written: list[tuple[Any, ...]]) -> Graph:
    """The graph of what `__reduce__` gives."""
    made = Graph()
    nodes: list[Node] = []
    for op, target, args, kwargs, name, kind in written:
        args, kwargs = (
            map_aggregate(each, lambda a: nodes[a] if isinstance(a, _Reference) else a) for each in (args, kwargs)
        )
        nodes.append(made.create_node(op, target, args, kwargs, name, kind))
    return made


class _Writer:
    """Writes a graph as Python."""

    def __init__(self, graph: Graph, root: str) -> None:
        self._graph, self._root = graph, root
        self._globals: dict[str, Any] = {PACKAGE: __import__(PACKAGE), "operator": operator}
        self._names = Namespace()
        for node in graph.nodes:
            self._names.take(node.name)

    def write(self) -> PythonCode:
        inputs, body, result = [], [], ""
        last = self._last_uses()
        for node in self._graph.nodes:
            if node.op == "placeholder":
                inputs.append(self._input(node))
                target = str(node.target).lstrip("*")
                if target != node.name:
                    body.append(f"{node.name} = {target}")
                continue
            if node.op == "output":
                body.append(f"return {self._text(node.args[0])}")
                if node.type is not None:
                    result = f" -> {self._type(node.type)}"
                continue
            line = f"{node.name} = {self._call(node)}"
            ended = last.get(node, [])
            if not node.users:
                ended = [*ended, node]
            body.append(line + (f";  {' = '.join(n.name for n in ended)} = None" if ended else ""))
        head = f"def forward({', '.join([self._root, *inputs])}){result}:"
        lines = "".join(f"    {line}\n" for line in body or ["pass"])
        return PythonCode(f"\n\n\n{head}\n{lines}    ", self._globals)  # to the letter as torch's

    def _last_uses(self) -> dict[Node, list[Node]]:
        """By the node after which they are not needed any more: other nodes."""
        found: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self._graph.nodes):
            if node.op == "output":
                seen.update(node.all_input_nodes)
                continue
            ended = []
            for source in node.all_input_nodes:
                if source not in seen:
                    seen.add(source)
                    ended.append(source)
            if ended:
                found[node] = ended
        return found

    def _input(self, node: Node) -> str:
        kind = f" : {self._type(node.type)}" if node.type is not None else ""
        default = f" = {self._text(node.args[0])}" if node.args else ""
        return f"{node.target}{kind}{default}"

    def _call(self, node: Node) -> str:
        if node.op == "get_attr":
            return _path(self._root, str(node.target))
        if node.op == "call_module":
            return f"{_path(self._root, str(node.target))}({self._given(node.args, node.kwargs)})"
        if node.op == "call_method":
            return f"{self._text(node.args[0])}.{node.target}({self._given(node.args[1:], node.kwargs)})"
        form = _OPERATORS.get(node.target)  # type: ignore[arg-type]
        if form is not None and not node.kwargs and len(node.args) == form.count("{}"):
            return form.format(*map(self._text, node.args))
        if node.target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
            return f"{self._text(node.args[0])}.{node.args[1]}"
        return f"{self._function(node.target)}({self._given(node.args, node.kwargs)})"

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self._text, args), *(f"{name} = {self._text(v)}" for name, v in kwargs.items())])

    def _function(self, function: Any) -> str:
        """The name of a function in the text: its public one, if that leads to it, or one of this text's own."""
        try:
            name = name_of_function(function)
        except RuntimeError:
            return self._held(type(function).__name__, function)
        first, *rest = name.split(".")
        if first in (PACKAGE, "operator"):
            at = self._globals[first]
            for part in rest:
                at = getattr(at, part, None)
            if at is function:
                return name
        elif not rest and name == getattr(function, "__name__", None):
            return name
        return self._held(name.replace(".", "_"), function)

    def _held(self, name: str, value: Any) -> str:
        for known, held in self._globals.items():
            if held is value:
                return known
        name = self._names.create_name(name)
        self._globals[name] = value
        return name

    def _type(self, kind: Any) -> str:
        if isinstance(kind, str):
            return repr(kind)
        return self._function(kind) if isinstance(kind, type) else self._held(str(kind), kind)

    def _text(self, value: Any) -> str:
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            parts = ", ".join(map(self._text, value))
            if hasattr(value, "_fields"):
                return f"{self._function(type(value))}({parts})"
            return f"({parts}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self._text, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self._text(k)}: {self._text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"
        if value is ... or value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            return "..." if value is ... else repr(value)
        if isinstance(value, DType):
            return repr(value)
        if isinstance(value, Device):
            return f"{PACKAGE}.device({str(value)!r})"
        if callable(value) and hasattr(value, "__name__"):
            return self._function(value)
        return self._held(f"_{type(value).__name__}", value)


def _path(root: str, target: str) -> str:
    """An attribute "layer1.0.conv" of the root as an expression."""
    for part in target.split("."):
        named = part.isidentifier() and not keyword.iskeyword(part)
        root = f"{root}.{part}" if named else f'getattr({root}, "{part}")'
    return root


__all__ = ["Graph", "PythonCode"]

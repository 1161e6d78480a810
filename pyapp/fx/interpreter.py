"""Runs a graph node by node, and writes another one from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..nn import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, Target, map_aggregate, map_arg
from .proxy import Proxy, TracerBase


class Interpreter:
    """`Interpreter(graph_module).run(*inputs)` gives what the module gives. Classes of one's own override `run_node`,
    or the method of a kind of node, and see or change every value.
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.graph: Graph = graph if graph is not None else module.graph
        self.submodules = dict(self.module.named_modules())
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.name = type(self).__name__
        self.extra_traceback = True
        self._last: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes) if garbage_collect_values else ():
            for source in node.all_input_nodes:
                if source not in seen:
                    seen.add(source)
                    self._last.setdefault(node, []).append(source)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The result for these inputs. `initial_env`: values of nodes that are not run."""
        self.env = dict(initial_env or {})
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"while the node runs: {node.format_node()}")
                raise
            for ended in self._last.get(node, ()):
                self.env.pop(ended, None)
            if node.op == "output":
                return self.env[node]
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """run, which empties the list, so that inputs are freed early."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """The value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next input; its default where there are no more. RuntimeError without one."""
        if isinstance(target, str) and target.startswith("*"):
            return list(self.args_iter)
        for found in self.args_iter:
            return found
        if args:
            return args[0]
        raise RuntimeError(f"run: no value is given for the input {target}")

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a function gives."""
        return target(*args, **kwargs)  # type: ignore[operator]

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a method of the first argument gives."""
        itself, *others = args
        return getattr(itself, str(target))(*others, **kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a submodule gives."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module by its qualified name. RuntimeError for one that it does not have."""
        found: Any = self.module
        for part in target.split("."):
            if not hasattr(found, part):
                raise RuntimeError(f"run: the module has no {target!r}: {part} is missing")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with the values of the nodes among them."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Arguments with the values of their nodes. RuntimeError for a node that has not run."""

        def value(source: Node) -> Any:
            if source not in self.env:
                raise RuntimeError(f"run: {n.name} uses {source.name}, which has no value yet; graph.lint() tells more")
            return self.env[source]

        return _changeable(map_arg(args, value))


def _changeable(a: Any) -> Any:
    """The same with lists and dicts that functions may change."""
    if isinstance(a, tuple) and not hasattr(a, "_fields"):
        return tuple(map(_changeable, a))
    if isinstance(a, list):
        return [_changeable(x) for x in a]
    return {key: _changeable(x) for key, x in a.items()} if isinstance(a, dict) else a


class Transformer(Interpreter):
    """`Transformer(graph_module).transform()` writes the module anew. Methods that are overridden, as in an
    Interpreter, get and give proxies, and so put other nodes there.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        outer = self

        class _Tracer(TracerBase):
            def __init__(self) -> None:
                self.graph = outer.new_graph

            def is_leaf_module(self, m: Module, name: str) -> bool:
                return True

        self.tracer = _Tracer()

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An input of the new graph."""
        return self.tracer.create_proxy("placeholder", target, args, {})

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """The same attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same call."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same call."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same call."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        result = self.run()
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x))
        return GraphModule(self.module, self.new_graph)


__all__ = ["Interpreter", "Transformer"]

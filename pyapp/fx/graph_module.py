"""A module whose forward is written from a Graph."""

from __future__ import annotations

import copy
import itertools
import linecache
from collections.abc import Callable, Mapping
from typing import Any

from ..engine.tensor import Tensor
from ..nn import Module
from .graph import Graph, PythonCode

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # torch's name, of what users keep in `meta`
_SERIAL = itertools.count().__next__


def _compiled(code: PythonCode) -> Callable[..., Any]:
    """The function of a source, which tracebacks show."""
    name = f"<fx graph {_SERIAL()}>"
    linecache.cache[name] = len(code.src), None, code.src.splitlines(True), name
    names = dict(code.globals)
    exec(compile(code.src, name, "exec"), names)
    made: Callable[..., Any] = names["forward"]
    return made


class _CodeOnlyModule(Module):
    """The attributes of another module; torch's name, which torchvision uses."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__setstate__(body)


class GraphModule(Module):
    """`GraphModule(root, graph)`: what the graph reads of the root (a module, or a dict by qualified names), and a
    forward that runs the graph. After a change of `graph` call `recompile()`. `code` is the source of the forward.
    """

    def __new__(cls, *_: Any, **__: Any) -> GraphModule:
        base = _base_of(cls)
        made = type(base.__name__, (base,), {"_of_one_graph": True, "__module__": cls.__module__})
        return object.__new__(made)

    def __init__(self, root: Module | Mapping[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        self._class_name = class_name
        self.meta: dict[str, Any] = dict(getattr(root, "meta", {}))
        read = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = root.training
            for target in read:
                _copy_attr(root, self, target)
        else:
            for target in sorted(read, key=lambda name: name.count(".")):
                if target not in root:
                    raise RuntimeError(f"GraphModule: the graph reads {target!r}, which the dict does not have")
                _assign(self, target, root[target])
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph. Assigning one compiles it."""
        found: Graph = vars(self)["_graph"]
        return found

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"GraphModule: graph is a Graph, not {type(graph).__name__}")
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "graph":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def recompile(self) -> PythonCode:
        """Writes the forward anew, from the graph as it is now."""
        code = self.graph.python_code("self")
        self.__dict__["_code"] = code.src
        own: Any = type(self)  # of this module alone
        own.forward = _compiled(code)
        return code

    @property
    def code(self) -> str:
        """The source of the forward."""
        found: str = vars(self)["_code"]
        return found

    def print_readable(self, print_output: bool = True, **_: Any) -> str:
        """The forward as a class; printed too."""
        body = "\n".join(f"    {line}" if line else line for line in self.code.strip().splitlines())
        text = f"class {self._get_name()}(pyapp.nn.Module):\n{body}\n"
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at "a.b.c"; those on the way are made where they are missing. False where a tensor is."""
        at: Module = self
        *path, last = target.split(".")
        for part in path:
            child = getattr(at, part, None)
            if child is None:
                child = Module()
                setattr(at, part, child)
            if not isinstance(child, Module):
                return False
            at = child
        setattr(at, last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Takes out the module at "a.b.c". False where there is none."""
        at: Any = self
        *path, last = target.split(".")
        for part in path:
            at = getattr(at, part, None)
            if not isinstance(at, Module):
                return False
        if not isinstance(getattr(at, last, None), Module):
            return False
        delattr(at, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Takes out the modules that the graph does not read."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
                if node.op == "call_module":
                    whole = self.get_submodule(str(node.target))
                    used.update(f"{node.target}.{name}" for name, _ in whole.named_modules() if name)
        for name, _ in list(self.named_modules()):
            if name and name not in used:
                self.delete_submodule(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        names = {n: v for n, v in vars(self).items() if n not in ("_graph", "_code")}
        held = _CodeOnlyModule(copy.deepcopy(names, memo))
        made = _base_of(type(self))(held, copy.deepcopy(self.graph), self._class_name)
        for name, value in vars(held).items():  # what the graph does not read: hooks, settings, buffers
            made.__dict__.setdefault(name, value)
        return made

    def __copy__(self) -> GraphModule:
        return _base_of(type(self))(self, copy.deepcopy(self.graph), self._class_name)

    def __reduce__(self) -> Any:
        """Its modules, and the nodes of its graph; functions by their names, from where they can be imported."""
        held = {name: value for name, value in vars(self).items() if name not in ("_graph", "_code")}
        return _unpickled, (_base_of(type(self)), held, self.graph, self._class_name)

    def __str__(self) -> str:
        return (
            f"{super().__repr__()}\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"
        )


def _unpickled(kind: type[GraphModule], held: dict[str, Any], graph: Graph, class_name: str) -> GraphModule:
    """The module of what `__reduce__` gives."""
    body = _CodeOnlyModule(held)
    made = kind(body, graph, class_name)
    for name, value in held.items():  # what the graph does not read: hooks, settings, buffers
        made.__dict__.setdefault(name, value)
    return made


def _base_of(kind: type[GraphModule]) -> type[GraphModule]:
    """The class of which it is that of one object."""
    return next(each for each in kind.__mro__ if not vars(each).get("_of_one_graph"))


def _copy_attr(source: Module, target: Module, name: str) -> None:
    """Gives `target` the attribute "a.b.c" of `source`, with modules on the way."""
    *path, last = name.split(".")
    for part in path:
        child = getattr(source, part, None)
        if child is None:
            return
        if not hasattr(target, part):
            setattr(target, part, Module())
        own = getattr(target, part)
        if own is child:
            return  # the whole module is there already
        source, target = child, own
    if not hasattr(source, last):
        raise RuntimeError(f"GraphModule: the graph reads {name!r}, which the module does not have")
    _put(target, last, getattr(source, last), getattr(source, "_non_persistent_buffers_set", ()))


def _assign(target: Module, name: str, value: Any) -> None:
    *path, last = name.split(".")
    for part in path:
        if not hasattr(target, part):
            setattr(target, part, Module())
        target = getattr(target, part)
    _put(target, last, value)


def _put(target: Module, name: str, value: Any, hidden: Any = ()) -> None:
    if isinstance(value, Tensor) and not getattr(value, "is_parameter", False):
        target.register_buffer(name, value, name not in hidden)
    else:
        setattr(target, name, value)


__all__ = ["GraphModule"]

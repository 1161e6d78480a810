"""What stands for a value while a program is traced: operations with it become nodes of a graph."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any

from ..engine.device import Device
from ..engine.dtype import DType
from ..engine.ops._index import FUNCTION_MODULES
from ..engine.tensor import Tensor
from .graph import Graph
from .node import Node, Target, map_aggregate

_CONSTANTS = (str, int, float, complex, bool, bytes, DType, Device, type(None), type(...))


class TraceError(ValueError):
    """A program needs a value that is not known while it is traced."""


class TracerBase:
    """Makes nodes and proxies in `graph`."""

    graph: Graph
    record_stack_traces = False
    trace_asserts = False
    proxy_buffer_attributes = False

    def create_node(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node; tracers of one's own may override it, and everything below."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """What stands for the value of a node."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
        type_expr: Any = None, proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:  # fmt: skip
        """A node of these arguments, among which may be proxies, and its proxy."""
        args, kwargs = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        node = self.create_node(kind, target, args, dict(kwargs), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """An argument of a node: its nodes in place of proxies. NotImplementedError for what a graph cannot have."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, range):
            return range(*[self.create_arg(x) for x in (a.start, a.stop, a.step)])
        if isinstance(a, (Node, *_CONSTANTS)) or callable(a) or is_dataclass(a):
            return a
        raise NotImplementedError(f"an argument of a node cannot be {type(a).__name__}: {a!r:.80}")

    def to_bool(self, obj: Proxy) -> bool:
        """TraceError: what a condition is depends on values."""
        raise TraceError(
            f"the program asks whether {obj.node.name} is true, which no graph can follow; make the condition one of "
            "shapes or settings, pass it by concrete_args, or keep the function out with fx.wrap"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a value that a program unpacks into so many names; TraceError where their number is unknown."""
        frame = sys._getframe(2)
        code, at = frame.f_code.co_code, frame.f_lasti
        if at >= 0 and dis.opname[code[at]] == "UNPACK_SEQUENCE":
            return iter([obj[i] for i in range(code[at + 1])])  # type: ignore[index]
        raise TraceError(
            f"the program goes through the parts of {obj.node.name}, whose number is not known while it is traced"
        )

    def to_number(self, obj: Proxy) -> Any:
        """TraceError: what number it is depends on values."""
        raise TraceError(f"{obj.node.name} is used as a number, which is not known while a program is traced")

    def length(self, obj: Proxy) -> int:
        """RuntimeError: what `len` gives depends on values."""
        raise RuntimeError(
            f"len({obj.node.name}) is not known while a program is traced; write x.shape[0], or fx.wrap('len') at the "
            "top of the module"
        )

    def keys(self, obj: Proxy) -> Any:
        """What `**obj` reads: `obj.keys()`."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that exists: `Proxy(node, GraphAppendingTracer(graph))`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of a node: `x + 1`, `x.relu()`, `x.shape[0]` and `pyapp.cat([x, x])` make further nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.node = node
        self.tracer = tracer or GraphAppendingTracer(node.graph)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"a proxy has no {name}: its value is not known while a program is traced")
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        return self.tracer.length(self)

    def __index__(self) -> int:
        return operator.index(self.tracer.to_number(self))

    def __int__(self) -> int:
        return int(self.tracer.to_number(self))

    def __float__(self) -> float:
        return float(self.tracer.to_number(self))

    def __complex__(self) -> complex:
        return complex(self.tracer.to_number(self))

    def __contains__(self, value: Any) -> bool:
        raise TraceError(f"whether {self.node.name} has a value is not known while a program is traced")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if getattr(Tensor, name, None) is func and name not in FUNCTION_MODULES:  # a method, of a tensor
            return proxies_in(args, kwargs)[0].tracer.create_proxy("call_method", name, args, kwargs or {})
        return call_function(func, args, kwargs or {})

    __hash__ = object.__hash__


class Attribute(Proxy):
    """An attribute of a proxy; a call of it is one of a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:  # most are methods, which need no node of their own
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def proxies_in(*values: Any) -> list[Proxy]:
    """The proxies among arguments, in lists, tuples and dicts too."""
    found: list[Proxy] = []

    def note(value: Any) -> Any:
        if isinstance(value, Proxy):
            found.append(value)
        return value

    map_aggregate(values, note)
    return found


def call_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The node of a call of a function, with proxies among its arguments; NotImplemented without."""
    found = proxies_in(args, kwargs)
    if not found:
        return NotImplemented
    if any(each.tracer is not found[0].tracer for each in found):
        raise AssertionError(f"{getattr(function, '__name__', function)}: its arguments are of several tracers")
    return found[0].tracer.create_proxy("call_function", function, args, kwargs)


def _of_operator(name: str) -> Callable[..., Proxy]:
    function = getattr(operator, name)

    def method(self: Proxy, *others: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (self, *others), {})

    return method


def _reflected(name: str) -> Callable[..., Proxy]:
    function = getattr(operator, name)

    def method(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    return method


def _begin() -> None:
    both = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split()
    for name in [*both, *"eq ne lt gt le ge pos neg invert getitem setitem".split()]:
        setattr(Proxy, f"__{name.rstrip('_')}__", _of_operator(name))
    for name in both:  # x += y is x = x + y: the program's in-place operators make new values
        setattr(Proxy, f"__r{name.rstrip('_')}__", _reflected(name))
    Proxy.__abs__ = _of_operator("abs")  # type: ignore[attr-defined]


_begin()


__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase", "call_function", "proxies_in"]

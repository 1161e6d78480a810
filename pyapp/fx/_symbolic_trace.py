"""Traces a module or function: runs it once with proxies in place of tensors."""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import math
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..engine.tensor import Tensor
from ..errors import shown
from ..nn import Module, Sequential
from .graph import Graph
from .graph_module import GraphModule
from .names import MODULES, PACKAGE
from .proxy import Proxy, TracerBase, call_function, proxies_in

_CHECKS = ("_assert", "_assert_async")
_WRAPPED: list[tuple[dict[str, Any], str]] = []  # names in modules whose calls are nodes
_tracing: list[Tracer] = []  # those that run now, the innermost last


def is_fx_tracing() -> bool:
    """Whether a program is traced now."""
    return bool(_tracing)


def current_tracer() -> Tracer | None:
    """What traces a program now."""
    return _tracing[-1] if _tracing else None


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """At the top of a module: calls of that function (of the module, or one of Python such as `len`) with proxies are
    nodes of a graph; the tracer does not look inside. A decorator too."""
    frame = sys._getframe(1)
    if isinstance(fn_or_name, str):
        name = fn_or_name
    elif callable(fn_or_name):
        name = fn_or_name.__name__
    else:
        raise RuntimeError(f"wrap: takes a function or its name, not {fn_or_name!r:.60}")
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap: is called at the top of a module, not inside a function")
    _WRAPPED.append((frame.f_globals, name))
    return fn_or_name


class _Asked(ModuleType):
    """A module of this package while a program is traced: its functions make nodes of proxies."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        named = name[:1] != "_" or name in _CHECKS
        return _noting(found) if named and isinstance(found, FunctionType) else found


_BOTH = "add sub mul floordiv truediv mod pow lshift rshift and or xor matmul eq ne lt gt le ge".split()
_OPERATORS = frozenset(f"__{name}__" for name in _BOTH)


def _noting_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of tensors, a call of which with proxies makes a node; an operator leaves it to the proxy."""

    @functools.wraps(method)
    def noted(*args: Any, **kwargs: Any) -> Any:
        found = proxies_in(args, kwargs)
        if not found:
            return method(*args, **kwargs)
        if name in _OPERATORS:
            return NotImplemented
        return found[0].tracer.create_proxy("call_method", name, args, kwargs)

    return noted


@functools.cache
def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose calls with proxies make a node of the function itself."""
    if hasattr(function, "traced_function"):
        return function

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        found = call_function(function, args, kwargs)
        return function(*args, **kwargs) if found is NotImplemented else found

    noted.traced_function = function  # type: ignore[attr-defined]
    return noted


class Tracer(TracerBase):
    """Writes down what a module does with its inputs: `graph = Tracer().trace(module)`. Layers of pyapp.nn are single
    nodes; `is_leaf_module` of a class of one's own says of others, too, that they are. The program runs once: its
    conditions and loops are those of shapes and settings, and stay as they were.
    """

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (), param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        self._modules, self._functions = autowrap_modules, autowrap_functions
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] = {}
        self.root: Module = Module()

    # -- what a class of one's own may override

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are single nodes."""
        place = type(m).__module__
        return (place == f"{PACKAGE}.nn" or place.startswith(f"{PACKAGE}.nn.")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The name of a submodule, "layer1.0.conv". NameError for a module that is none."""
        for name, module in self.root.named_modules(remove_duplicate=False):
            if module is mod:
                return name
        raise NameError(f"{type(mod).__name__} is called, but is no submodule of {type(self.root).__name__}")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call of a submodule gives: a node's proxy, or what `forward` gives."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What a module's attribute gives: of a parameter a proxy, made once; of a buffer too, with
        `proxy_buffer_attributes`; else the value."""
        kinds = (self._names, self._buffer_names) if self.proxy_buffer_attributes else (self._names,)
        for known in kinds:
            name = known.get(id(attr_val))
            if name is not None:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
                return parameter_proxy_cache[name]
        return attr_val

    def create_arg(self, a: Any) -> Any:
        """An argument of a node: also tensors, which are attributes of the module, and modules."""
        return super().create_arg(a)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._name_of(a), (), {})
        if isinstance(a, Module):
            path = self.path_of_module(a)
            return self.create_node("get_attr", path, (), {})
        return super()._leaf(a)

    def _name_of(self, tensor: Tensor) -> str:
        """The name of a tensor in the module, which gets those that it does not have."""
        for known in (self._names, self._buffer_names, self._attributes):
            if id(tensor) in known:
                return known[id(tensor)]
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            number += 1
        name = self._attributes[id(tensor)] = f"_tensor_constant{number}"
        setattr(self.root, name, tensor)
        return name

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function, and its arguments: the module, and proxies of inputs. Those of `concrete_args` have their
        values, and a check that a call gives the same."""
        found = inspect.unwrap(root_fn)
        hints = getattr(found, "__annotations__", {})
        parameters = list(inspect.signature(found).parameters.values())
        args: list[Any] = [self.root] if is_module else []
        given = concrete_args or {}
        starred: list[Any] = []
        for parameter in parameters[len(args) :]:
            name = parameter.name
            star = "*" * (
                1 if parameter.kind is parameter.VAR_POSITIONAL else 2 * (parameter.kind is parameter.VAR_KEYWORD)
            )
            default = () if star or parameter.default is parameter.empty else (parameter.default,)
            hint = hints.get(name)
            kind = hint if isinstance(hint, type) else None
            proxy = self.create_proxy("placeholder", star + name, default, {}, type_expr=kind)
            if name in given:
                self._check_input(proxy, name, given[name])
                proxy = given[name]
            starred.append((star, parameter, proxy))
        by_name = {p.name: x for star, p, x in starred if p.kind is p.KEYWORD_ONLY}
        args += [x for star, p, x in starred if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        more = [x for star, _, x in starred if star]
        if not by_name and not more:
            return root_fn, args
        code = getattr(found, "__code__", None)
        if more and isinstance(code, CodeType):
            if by_name:
                raise NotImplementedError("trace: a function with *args or **kwargs has arguments by name alone, too")
            # As plain arguments, for which proxies of the whole tuple and dict stand.
            flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
            plain = code.replace(co_flags=flags, co_argcount=code.co_argcount + len(more))
            return FunctionType(plain, found.__globals__, found.__name__, None, found.__closure__), [*args, *more]
        return functools.partial(root_fn, **by_name), args

    def _check_input(self, proxy: Proxy, name: str, value: Any) -> None:
        if isinstance(value, (bool, int, float, str)):
            check = importlib.import_module(PACKAGE)._assert
            text = f"{name} has been traced as {shown(value, 40)}: the graph holds for that value only"
            same = self.create_proxy("call_function", operator.eq, (proxy, value), {})
            self.create_proxy("call_function", check, (same, text), {})

    # -- tracing

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module, or of a function of tensors. TraceError where it needs values that are not known."""
        if isinstance(root, Module):
            self.root, function, is_method = root, type(root).forward, True
            self.root_module_name = root._get_name()
            if "forward" in vars(root):  # assigned to this object
                function, is_method = vars(root)["forward"], False
        else:
            self.root, function, is_method, self.root_module_name = Module(), root, False, ""
        self.graph = Graph(tracer_cls=type(self))
        self._names = {id(p): name for name, p in self.root.named_parameters()}
        self._buffer_names = {id(b): name for name, b in self.root.named_buffers()}
        self._attributes: dict[int, str] = {}
        self._note_tensors(self.root, "")
        self._cache: dict[str, Proxy] = {}
        function, args = self.create_args_for_root(function, is_method, concrete_args)
        with self._patched(function):
            result = function(*args)
        node_type = getattr(function, "__annotations__", {}).get("return")
        self.create_node("output", "output", (self.create_arg(result),), {},
                         type_expr=node_type if isinstance(node_type, type) else None)  # fmt: skip
        return self.graph

    def _note_tensors(self, module: Module, prefix: str) -> None:
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                self._attributes.setdefault(id(value), prefix + name)
        for name, child in module.named_children():
            self._note_tensors(child, f"{prefix}{name}.")

    @contextmanager
    def _patched(self, function: Callable[..., Any]) -> Iterator[None]:
        """Calls of modules, their parameters, and functions lead to this tracer."""
        undo: list[tuple[Any, str, Any]] = []
        seen: set[int] = set()
        call, before = Module.__call__, vars(Module).get("__getattribute__")

        def change(names: dict[str, Any], name: str, value: Any) -> None:
            undo.append((names, name, names.get(name, undo)))
            names[name] = value

        def look_into(fn: Any) -> None:
            """Names of the function's module that are functions of this package, or are to be wrapped."""
            names = getattr(inspect.unwrap(fn), "__globals__", None)
            if names is None or id(names) in seen or str(names.get("__name__")).partition(".")[0] == PACKAGE:
                return
            seen.add(id(names))
            for name, value in list(names.items()):
                of_package = isinstance(value, FunctionType) and value.__module__.partition(".")[0] == PACKAGE
                of_module = any(value is each for m in self._modules for each in vars(m).values() if callable(each))
                if of_package and not value.__module__.startswith(f"{PACKAGE}.fx") or of_module and callable(value):
                    change(names, name, _noting(value))
                elif any(value is each for each in self._functions):
                    change(names, name, _noting(value))

        def traced_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(module, *args, **kwargs)

            if _tracing[-1] is not self or not proxies_in(args, kwargs) and module not in inside:
                return forward(*args, **kwargs)
            look_into(type(module).forward)
            return self.call_module(module, forward, args, kwargs)

        def traced_attribute(module: Module, name: str) -> Any:
            found = object.__getattribute__(module, name)
            if isinstance(found, Tensor) and _tracing and _tracing[-1] is self:
                return self.getattr(name, found, self._cache)
            return found

        inside = set(self.root.modules())
        modules = [importlib.import_module(PACKAGE + name) for name in MODULES]
        kinds = [type(module) for module in modules]
        for names, name in _WRAPPED:
            value = names[name] if name in names else getattr(builtins, name)
            change(names, name, _noting(value))
        look_into(function)
        for module in self._modules:
            for name, value in list(vars(module).items()):
                if not name.startswith("_") and callable(value):
                    change(vars(module), name, _noting(value))
        methods = [(n, m) for n, m in vars(Tensor).items() if isinstance(m, FunctionType)]
        methods = [(n, m) for n, m in methods if n[0] != "_" or n in _OPERATORS]
        _tracing.append(self)
        patched: Any = Module
        try:
            for name, method in methods:
                setattr(Tensor, name, _noting_method(name, method))
            for module in modules:
                module.__class__ = _Asked
            patched.__call__ = traced_call
            patched.__getattribute__ = traced_attribute
            yield
        finally:
            _tracing.pop()
            for name, method in methods:
                setattr(Tensor, name, method)
            patched.__call__ = call
            if before is None:
                del patched.__getattribute__
            else:
                patched.__getattribute__ = before
            for module, kind in zip(modules, kinds, strict=True):
                module.__class__ = kind
            for names, name, value in reversed(undo):
                if value is undo:
                    del names[name]
                else:
                    names[name] = value


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module that computes what `root`, a module or a function, computes, with its program as a Graph that can be
    looked at and changed."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root._get_name() if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

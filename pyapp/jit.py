"""torch.jit's names, for programs that mark what may be compiled: pyapp compiles nothing from its source."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin

from .futures import Future
from .nn.module import Module

T = TypeVar("T")


def _as_it_is(obj: Any = None, *_: Any, **__: Any) -> Any:
    """Returns the function, class or module unchanged; a decorator with or without settings."""
    return _as_it_is if obj is None or builtins.isinstance(obj, bool) else obj


script = export = unused = script_method = trace = trace_module = freeze = optimize_for_inference = _as_it_is
ignore = script_if_tracing = _script_if_tracing = interface = _overload = _overload_method = _as_it_is


class ScriptModule(Module):
    """The class of torch's compiled modules, for isinstance(): there are none here."""

    def __init__(self) -> None:
        raise NotImplementedError("ScriptModule: pyapp does not compile modules; derive from nn.Module")


class ScriptFunction:
    """The class of torch's compiled functions, for isinstance(): there are none here."""

    def __init__(self) -> None:
        raise NotImplementedError("ScriptFunction: pyapp does not compile functions; see pyapp.compile")


class TracerWarning(UserWarning):
    """What a trace, such as that of an export to ONNX, writes may be another computation for other inputs."""


class Error(Exception):
    """torch's error in compiled code, for `except`: none is raised here."""


class Attribute(NamedTuple):
    """A value with the type that torch's compiler would not find by itself."""

    value: Any
    type: Any


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """A future of func(*args, **kwargs), which is called at once, as torch does outside of compiled code."""
    found: Future[T] = Future()
    found.set_result(func(*args, **kwargs))
    return found


def wait(future: Future[T]) -> T:
    """The value of a future."""
    return future.wait()


def optimized_execution(should_optimize: bool) -> AbstractContextManager[None]:
    """A context without effect: there is no optimiser of compiled code."""
    return nullcontext()


def fuser(name: str) -> AbstractContextManager[None]:
    """A context without effect: there is no fuser of compiled code."""
    return nullcontext()


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether a value is of a type, with the types in the brackets: list[Tensor], dict[str, int], Optional[Tensor]."""
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    kind, parts = get_origin(target_type), get_args(target_type)
    if target_type is None or target_type is type(None):
        return obj is None
    if kind is None:
        return target_type is Any or builtins.isinstance(obj, target_type)
    if kind in (Union, UnionType):
        return any(isinstance(obj, one) for one in parts)
    if not builtins.isinstance(obj, kind):
        return False
    if builtins.isinstance(obj, Mapping):
        return all(isinstance(key, parts[0]) and isinstance(value, parts[1]) for key, value in obj.items())
    if builtins.isinstance(obj, tuple) and parts[-1:] != (...,):
        return len(obj) == len(parts) and all(map(isinstance, obj, parts))
    return all(isinstance(value, parts[0]) for value in obj)


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """NotImplementedError: there are no compiled modules."""
    raise NotImplementedError("jit.save: pyapp does not compile modules; save module.state_dict() with pyapp.save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None) -> Any:
    """NotImplementedError: programs in files are not run."""
    raise NotImplementedError("jit.load: the program is not run; pyapp.load gives the tensors of a TorchScript file")


def is_scripting() -> bool:
    """Whether code is being compiled: always False."""
    return False


is_tracing = is_scripting

__all__ = [
    "Attribute", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "TracerWarning", "annotate", "export",
    "fork", "fuser", "ignore", "is_scripting", "is_tracing", "load", "optimized_execution", "save", "script", "trace",
    "unused", "wait",
]  # fmt: skip

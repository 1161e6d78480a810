"""torch.jit's names, for programs that mark what may be compiled: pyapp compiles nothing from its source."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from .nn.module import Module


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
    "Final", "ScriptFunction", "ScriptModule", "annotate", "export", "ignore", "is_scripting", "is_tracing", "load",
    "save", "script", "trace", "unused",
]  # fmt: skip

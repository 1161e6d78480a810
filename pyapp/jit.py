"""Decorators of torch.jit without effect: pyapp does not compile functions."""

from __future__ import annotations

from typing import Any


def _as_it_is(obj: Any = None, *_: Any, **__: Any) -> Any:
    """Returns the function, class or module unchanged; a decorator with or without settings."""
    return _as_it_is if obj is None or isinstance(obj, bool) else obj


script = export = unused = script_method = trace = freeze = optimize_for_inference = _as_it_is
ignore = script_if_tracing = _as_it_is
Final = Any


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def is_scripting() -> bool:
    """Whether code is being compiled: always False."""
    return False


is_tracing = is_scripting

__all__ = ["annotate", "export", "ignore", "is_scripting", "is_tracing", "script", "trace", "unused"]

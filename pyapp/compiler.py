"""torch.compile and torch.compiler by name: functions and modules are returned as they are, and run eagerly."""

from __future__ import annotations

from typing import Any


def compile(model: Any = None, **_: Any) -> Any:
    """The function or module itself; a decorator with or without settings."""
    return (lambda function: function) if model is None else model


def disable(fn: Any = None, recursive: bool = True, **_: Any) -> Any:
    """The function itself."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def is_compiling() -> bool:
    """Whether code is being compiled: always False."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """No effect: nothing is compiled."""


__all__ = ["allow_in_graph", "compile", "disable", "is_compiling", "reset"]
__top_level__ = ["compile"]

"""The operators, declared at their functions.

    @operator("Softmax", since=13)
    def softmax(x, *, axis=-1): ...

    @operator("Softmax")                       # the opsets before
    def softmax_flattened(x, *, axis=1): ...

Inputs are positional (None where absent), attributes are keywords. A function that has the parameter `opset` gets the
version of its domain, `outputs` the number of outputs that the node has, `device` the device of the model. An attribute
of a graph is a `Body` that can be called.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyapp.dataclass import dataclass

from . import operators as _operators

Function = TypeVar("Function", bound=Callable[..., Any])
SPECIAL = frozenset(("opset", "outputs", "device"))
MICROSOFT, MACHINE_LEARNING, PREVIEW, TRAINING = (
    "com.microsoft", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training",
)  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """An operator from an opset on."""

    domain: str
    name: str
    since: int
    function: Callable[..., Any]
    reads: frozenset[int]  # the inputs whose values decide the shapes of the outputs
    shape_only: bool  # the result depends on the shapes of its inputs, not on their values
    changes: bool  # the result differs from call to call, or what it does is not launched by kernels
    attributes: frozenset[str]
    required: frozenset[str]
    special: frozenset[str]
    least: int  # inputs
    most: int | None


_OPERATORS: dict[tuple[str, str], list[Operator]] = {}
_LOADED: list[bool] = []


def operator(
    *names: str, since: int = 1, domain: str = "", reads: Sequence[int] = (), shape_only: bool = False,
    changes: bool = False,
) -> Callable[[Function], Function]:  # fmt: skip
    """Declares the function of operators."""

    def declare(function: Function) -> Function:
        parameters = inspect.signature(function).parameters.values()
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        known = frozenset(p.name for p in keywords)
        for name in names:
            versions = _OPERATORS.setdefault((domain, name), [])
            versions.append(
                Operator(
                    domain, name, since, function,
                    reads=frozenset(reads),
                    shape_only=shape_only,
                    changes=changes,
                    attributes=known - SPECIAL,
                    required=frozenset(p.name for p in keywords if p.default is p.empty) - SPECIAL,
                    special=known & SPECIAL,
                    least=sum(p.default is p.empty for p in positional),
                    most=None if variadic else len(positional),
                )
            )  # fmt: skip
            versions.sort(key=lambda known: known.since)
        return function

    return declare


def internal(function: Callable[..., Any]) -> Operator:
    """An operator of pyapp's own, which replaces others."""
    none: frozenset[Any] = frozenset()
    return Operator("", function.__name__.strip("_"), 1, function, none, False, False, none, none, none, 0, None)


def _load() -> None:
    """Imports every module of operators."""
    if not _LOADED:
        for module in pkgutil.iter_modules(_operators.__path__):
            importlib.import_module(f"{_operators.__name__}.{module.name}")
        _LOADED.append(True)


def find(domain: str, name: str, opset: int) -> Operator | None:
    """The operator in an opset of its domain; None if there is none."""
    _load()
    versions = _OPERATORS.get((domain, name))
    if versions is None:
        return None
    at = bisect_right([known.since for known in versions], opset) - 1
    return versions[max(at, 0)] if at >= 0 else None


def every() -> dict[tuple[str, str], list[Operator]]:
    """All operators, by domain and name, from the oldest version on."""
    _load()
    return _OPERATORS

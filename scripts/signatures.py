"""Signatures of functions as the stub files (.pyi) have them, which show public names to editors and type checkers.

Functions are made by decorators, and take torch's names for arguments: what a checker reads of the sources is Any.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyapp.engine.declare import FUNCTIONS, Declaration
from pyapp.engine.op import Op
from pyapp.engine.return_types import Found
from pyapp.engine.torch_arguments import FIRST, MEMORY_SETTINGS

BUILTINS = {"bool", "complex", "dict", "float", "int", "list", "object", "slice", "str", "tuple", "type"}
PLAIN = {"Any", "Callable", "None", "Sequence"}
# Results whose kind depends on which arguments are given.
WHOLE, ALONG_DIM = ("", "Tensor"), ("dim: builtins.int, keepdim: builtins.bool = ...", "Found")
SEVERAL = "builtins.tuple[Tensor, ...]"
OVERLOADS = {
    "max": (WHOLE, ("other: Tensor", "Tensor"), ALONG_DIM),
    "min": (WHOLE, ("other: Tensor", "Tensor"), ALONG_DIM),
    "median": (WHOLE, ALONG_DIM),
    "nanmedian": (WHOLE, ALONG_DIM),
    "nonzero": (("as_tuple: Literal[False] = ...", "Tensor"), ("as_tuple: Literal[True]", SEVERAL)),
}
OF_WHERE = (("", SEVERAL), ("input: Any, other: Any, *, out: Any = ...", "Tensor"))


class Signatures:
    """The text of a stub's signatures, and the imports that their annotations need. package: the stub's."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.imported: dict[str, set[str]] = defaultdict(set)  # names by module

    def imports(self) -> list[str]:
        """The import lines for what the signatures so far name."""
        return [f"from {self.place(module)} import {', '.join(sorted(names))}"
                for module, names in sorted(self.imported.items()) if names]  # fmt: skip

    def place(self, module: str) -> str:
        """A module as the stub imports it: relative inside its package."""
        inside = module.startswith(self.package + ".")
        return module.removeprefix(self.package) if inside else module

    def annotation(self, given: Any, names: dict[str, Any]) -> str:
        """An annotation where public names hide those of builtins; Any for what cannot be imported."""
        if not isinstance(given, str):
            return "Any" if given is inspect.Parameter.empty else "None" if given is None else given.__name__
        return ast.unparse(_Names(self, names).visit(ast.parse(given, mode="eval")))

    def known(self, name: str, names: dict[str, Any]) -> str:
        """The form of an annotation's name in the stub."""
        if name in PLAIN:
            return name
        if name in BUILTINS:
            return f"builtins.{name}"
        module = getattr(names.get(name), "__module__", "") or ""
        if not module.startswith("pyapp."):
            return "Any"
        self.imported[module].add(name)
        return name

    def of_class(self, found: type) -> str:
        """The name of a class, which the stub imports."""
        return self.known(found.__name__, {found.__name__: found})

    def value(self, name: str, value: Any) -> str:
        """The line of a plain value."""
        return f"{name}: {self.of_class(type(value))}"

    def parameters(self, own: str, found: Any, arguments: Iterable[str] = ()) -> tuple[list[str], str]:
        """A function's parameters, by torch's names, and its result. The first parameter is called `own`, if it says
        a name.
        """
        bodies = [body for body in bodies_of(found) if body is not None]
        names = {key: value for body in bodies for key, value in body.__globals__.items()}
        signatures = [inspect.signature(body) for body in bodies]
        parameters = list(max(signatures, key=lambda s: len(s.parameters)).parameters.values())
        kinds = {p.name: p.annotation for s in signatures for p in s.parameters.values() if p.annotation is not p.empty}
        results = [s.return_annotation for s in signatures if s.return_annotation is not s.empty]
        called = {"b": "other"} | {p.name: torch for p, torch in zip(parameters, arguments, strict=False)}
        text, starred = [own] if own else [], False
        first_is_own = bool(own) and not (parameters and parameters[0].kind is parameters[0].VAR_POSITIONAL)
        for index, p in enumerate(parameters[1:] if first_is_own else parameters):
            if p.kind is p.KEYWORD_ONLY and not starred:
                text.append("*")
                starred = True
            starred |= p.kind is p.VAR_POSITIONAL
            stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
            default = "" if p.default is p.empty or stars else " = ..."
            name = called.get(p.name, "input" if not own and not index and p.name in FIRST else p.name)
            text.append(f"{stars}{name}: {self.annotation(kinds.get(p.name, p.empty), names)}{default}")
        return text, self.annotation(results[0] if results else inspect.Parameter.empty, names)

    def method(self, name: str, found: Any) -> str:
        """The lines of a method or property of Tensor."""
        if isinstance(found, property):
            getter: Any = found.fget
            result = self.annotation(getter.__annotations__.get("return", "Any"), getter.__globals__)
            return f"    @property\n    def {name}(self) -> {result}: ..."
        if name in OVERLOADS:
            return self.overloads(name, "self", OVERLOADS[name], "    ")
        declared = FUNCTIONS.get(name.rstrip("_"))
        text, result = self.parameters("self", found, declared.arguments if declared is not None else ())
        return f"    def {name}({', '.join(text)}) -> {'Tensor' if name.endswith('_') else result}: ..."

    def function(self, name: str, declared: Declaration) -> str:
        """The lines of a public function, class or value of the engine."""
        value = declared.value
        if isinstance(value, type) and value.__name__ == name:
            return f"from {self.place(value.__module__)} import {name} as {name}"
        if isinstance(value, type):
            return f"{name} = {self.of_class(value)}"
        if not callable(value):
            return self.value(name, value)
        if name in OVERLOADS:
            return self.overloads(name, "input: Tensor", OVERLOADS[name])
        if name == "where":
            return self.overloads(name, "condition: Tensor", OF_WHERE)
        text, result = self.parameters("", value, declared.arguments)
        given = {part.split(":")[0].lstrip("*") for part in text}
        more = {"out": "Any"} if result == "Tensor" or isinstance(value, Op) else {}
        if declared.factory:
            more |= {"device": "Any", "requires_grad": "builtins.bool"} | dict.fromkeys(sorted(MEMORY_SETTINGS), "Any")
        if not any(part.startswith("**") for part in text):
            text += [] if not more or any(part.startswith("*") for part in text) else ["*"]
            text += [f"{key}: {kind} = ..." for key, kind in more.items() if key not in given]
        return f"def {name}({', '.join(text)}) -> {result}: ..."

    def overloads(self, name: str, own: str, forms: Sequence[tuple[str, str]], indent: str = "") -> str:
        """The lines of a function whose result depends on which arguments it gets beside the first, `own`."""
        lines = []
        for given, result in forms:
            if result == Found.__name__:
                self.of_class(Found)
            text = ", ".join(part for part in (own, given) if part)
            lines += [f"{indent}@overload", f"{indent}def {name}({text}) -> {result}: ..."]
        return "\n".join(lines)


class _Names(ast.NodeTransformer):
    """Turns the names of an annotation into those of a stub."""

    def __init__(self, signatures: Signatures, names: dict[str, Any]) -> None:
        self.signatures, self.names = signatures, names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Name(self.signatures.known(node.id, self.names)), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.copy_location(ast.Name("Any"), node)  # np.ndarray and the like


def bodies_of(found: Any) -> list[Any]:
    """The functions whose parameters a method takes."""
    found = inspect.unwrap(found, stop=lambda function: hasattr(function, "operation"))
    if hasattr(found, "operation"):
        return bodies_of(found.operation)
    if isinstance(found, Op):
        return [found.by_name, found.definition, found.host, *found.kernels.values()]
    return [found]


def formatted(text: str, path: Path) -> str:
    """The text as ruff leaves it."""
    for how in (("check", "--select=I,F401", "--fix-only"), ("format",)):
        command = [sys.executable, "-m", "ruff", *how, "--stdin-filename", str(path), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text

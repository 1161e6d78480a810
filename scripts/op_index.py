"""Writes what says where ops are: python -m scripts.op_index.

- pyapp/engine/ops/_index.py: where each public function and method is,
- pyapp/engine/tensor_methods.pyi, which shows them to editors and to mypy,
- pyapp/engine/claims/_index.py: which file of claims is imported at the first call of which ops.

They come from what the modules declare (pyapp/engine/declare.py, `claims` of pyapp/engine/op.py).
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections import defaultdict
from pathlib import Path

from pyapp.engine.declare import FUNCTIONS, METHODS
from pyapp.engine.op import _CLAIMS
from pyapp.engine.op import OPS as OPERATIONS
from pyapp.engine.tensor import Tensor
from scripts.name_tables import table
from scripts.signatures import Signatures, formatted

ENGINE = Path(__file__).resolve().parents[1] / "pyapp" / "engine"
INDEX = ENGINE / "ops" / "_index.py"
STUB = ENGINE / "tensor_methods.pyi"
CLAIMS = ENGINE / "claims"
LATE_CLAIMS = CLAIMS / "_index.py"
OPS = "pyapp.engine.ops."
HEAD = '''"""Which module of ops has a public function or a method of Tensor. Generated: python -m scripts.op_index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
'''


def import_all() -> None:
    """Imports every module of ops, by file: this must work where the index is missing or wrong."""
    folder = ENGINE / "ops"
    for file in sorted(folder.rglob("*.py")):
        name = ".".join(file.relative_to(folder).with_suffix("").parts)
        if not name.endswith(("__init__", "_index")):
            importlib.import_module(OPS + name)


def _table(name: str, modules: dict[str, str]) -> list[str]:
    lines = [f"{name}: dict[str, str] = {{"]
    lines += [f'    "{key}": "{module}",' for key, module in sorted(modules.items())]
    return [*lines, "}"]


def render() -> str:
    """The text of _index.py."""
    import_all()
    functions = {
        name: found.module.removeprefix(OPS) for name, found in FUNCTIONS.items() if found.module.startswith(OPS)
    }
    methods = {name: module.removeprefix(OPS) for name, module in METHODS.items() if module.startswith(OPS)}
    by_module = defaultdict(list)
    for name, module in functions.items():
        if vars(sys.modules[OPS + module]).get(name, sys) is FUNCTIONS[name].value:
            by_module[module].append(name)
    shown = [
        f"    from .{module} import {', '.join(f'{name} as {name}' for name in sorted(names))}"
        for module, names in sorted(by_module.items())
    ]
    ops = {name: op.module.removeprefix(OPS) for name, op in OPERATIONS.items() if op.module.startswith(OPS)}
    tables = {"FUNCTION_MODULES": functions, "METHOD_MODULES": methods, "OP_MODULES": ops}
    lines = [HEAD + "\n".join(shown), "", *(line for name in tables for line in _table(name, tables[name]))]
    return formatted("\n".join(lines) + "\n", INDEX)


STUB_HEAD = '''"""Methods and properties that ops give to Tensor. Generated: python -m scripts.op_index."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

'''


def render_stub() -> str:
    """The text of tensor_methods.pyi."""
    import_all()
    stub = Signatures("pyapp.engine")
    methods = [stub.method(name, vars(Tensor)[name]) for name in sorted(METHODS) if not name.startswith("_")]
    stub.of_class(Tensor)
    return formatted(STUB_HEAD + "\n".join([*stub.imports(), "", "class TensorMethods:", *methods]) + "\n", STUB)


CLAIMS_HEAD = '''"""The ops of each file of claims that is imported late. Generated: python -m scripts.op_index."""

from __future__ import annotations
'''


def render_late_claims() -> str:
    """The text of claims/_index.py: the files that claims/__init__.py does not import."""
    early = {
        alias.name
        for node in ast.parse((CLAIMS / "__init__.py").read_text()).body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is None
        for alias in node.names
    }
    late: dict[str, list[str]] = {}
    for file in CLAIMS.glob("*.py"):
        if not file.stem.startswith("_") and file.stem not in early:
            module = importlib.import_module(f"pyapp.engine.claims.{file.stem}")
            late[file.stem] = [op for op, claim in _CLAIMS.items() if claim.__module__ == module.__name__]
    return "\n".join([CLAIMS_HEAD, table("LATE", {name: ops for name, ops in late.items() if ops}), ""])


if __name__ == "__main__":
    INDEX.write_text(render())
    STUB.write_text(render_stub())
    LATE_CLAIMS.write_text(render_late_claims())

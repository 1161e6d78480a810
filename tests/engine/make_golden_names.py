"""Writes golden_names.json: the parameters of torch's functions, if torch publishes them.

Run: python -m tests.engine.make_golden_names (needs the extra `oracle`).
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch.overrides import get_testing_overrides

from tests.goldens import write_rows

from .names import find, wanted


def parameters(function: Any, known: dict[Any, Any]) -> list[list[str]] | None:
    """[name, default as text] of each parameter."""
    for candidate in (known.get(function), function):
        try:
            signature = inspect.signature(candidate)
        except (TypeError, ValueError):
            continue
        return [
            [p.name, "" if p.default is p.empty else repr(p.default)]
            for p in signature.parameters.values()
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]
    return None


def main() -> None:
    known = get_testing_overrides()
    golden = {}
    for module, name in wanted():
        function = find(torch, module, name)
        assert function is not None, f"torch has no {module}.{name}"
        found = parameters(function, known)
        golden[f"{module}.{name}".lstrip(".")] = found if found and found[0][0] != "args" else None
    path = Path(__file__).with_name("golden_names.json")
    write_rows(path, golden)
    print(path.name, path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    main()

"""Writes golden_sparse.json, what torch gives for cases_sparse.py: python -m tests.engine.make_golden_sparse."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch

from .cases_sparse import CASES, STEPS, WRONG, inputs, told, trained

TARGET = Path(__file__).with_name("golden_sparse.json")


def refused(call: Any) -> str:
    """The kind of built-in error."""
    a = inputs(torch)["a"].detach()
    try:
        call(torch, a)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        kinds = (NotImplementedError, IndexError, TypeError, ValueError, RuntimeError)
        return next(kind.__name__ for kind in kinds if isinstance(error, kind))
    raise AssertionError("torch refuses nothing")


def rounded(value: Any) -> Any:
    """Floats with the digits of float32."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return {name: rounded(each) for name, each in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {
        "cases": {name: told(torch, call) for name, call in CASES.items()},
        "wrong": {name: refused(call) for name, call in WRONG.items()},
        "steps": {name: trained(torch, *given) for name, given in STEPS.items()},
        "texts": {name: repr(x).replace("torch.", "pyapp.") for name, x in inputs(torch).items() if x.is_sparse}
        | {"csr": repr(inputs(torch)["c"].detach().to_sparse_csr()).replace("torch.", "pyapp.")},
    }
    lines = ",\n".join(
        f'"{part}": {{\n' + ",\n".join(f"{json.dumps(k)}: {json.dumps(rounded(v))}" for k, v in each.items()) + "\n}"
        for part, each in found.items()
    )
    TARGET.write_text("{\n" + lines + "\n}\n")

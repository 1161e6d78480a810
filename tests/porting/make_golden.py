"""Writes golden.json and golden_cases.json, torch's results of the scripts and the cases, and torch_names.json.

python -m tests.porting.make_golden
"""

from __future__ import annotations

import importlib
import types
from pathlib import Path
from typing import Any

import torch
import torch.nn.utils.prune

from tests.goldens import write_json, write_rows
from tests.porting import cases, running

MODULES = """
    Tensor nn nn.functional nn.init nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations optim
    optim.lr_scheduler optim.swa_utils signal.windows autograd autograd.forward_ad autograd.functional autograd.graph
    func fx linalg fft special distributions utils.data amp random profiler utils.benchmark
""".split()


def names_of(module: str) -> list[str]:
    """The public names of a module of torch, or of Tensor, without modules and names of typing."""
    owner = torch.Tensor if module == "Tensor" else importlib.import_module(f"torch.{module}" if module else "torch")
    names = getattr(owner, "__all__", None) or dir(owner)
    return sorted(n for n in names if n[0] != "_" and not _is_foreign(getattr(owner, n)))


def _is_foreign(value: Any) -> bool:
    home = getattr(value, "__module__", None) or ""
    foreign = "abc collections dataclasses enum functools math typing warnings".split()
    return isinstance(value, (types.ModuleType, bool, list, dict)) or home.partition(".")[0] in foreign


if __name__ == "__main__":
    golden = {name: [float(x) for x in running.load(name, "torch").main(running.fill)] for name in running.NAMES}
    write_json(Path(__file__).parent / "golden.json", golden, indent=1)
    results = {name: cases.plain(call(torch)) for name, call in cases.calls().items()}
    write_rows(Path(__file__).parent / "golden_cases.json", results)
    write_rows(Path(__file__).parent / "torch_names.json", {module: names_of(module) for module in ["", *MODULES]})

"""Writes golden_corners.json: torch's results of cases_corners.py.

Run: python -m tests.engine.make_golden_corners (needs the extra `oracle`).
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.utils.prune

from tests.goldens import write_json

from .cases_corners import CASES


def plain(found: Any) -> Any:
    """A tensor as dtype, shape and numbers (NaN and infinities by name)."""
    if isinstance(found, (tuple, list)):
        return [plain(part) for part in found]
    if not isinstance(found, torch.Tensor):
        return found
    numbers = [repr(float(v)) if found.is_floating_point() else int(v) for v in found.detach().reshape(-1)]
    return {"dtype": str(found.dtype).removeprefix("torch."), "shape": list(found.shape), "values": numbers}


def main() -> None:
    warnings.simplefilter("ignore")
    golden = {}
    for name, function in CASES.items():
        try:
            golden[name] = plain(function(torch))
        except (RuntimeError, ValueError, IndexError, TypeError, ZeroDivisionError) as error:
            golden[name] = "error"
            print(f"{name}: {str(error).splitlines()[0][:100]}")
    write_json(Path(__file__).with_name("golden_corners.json"), golden, indent=0)


if __name__ == "__main__":
    main()

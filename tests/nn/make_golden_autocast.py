"""Makes golden_autocast.json with torch:

PYTHONPATH=. python -m tests.nn.make_golden_autocast
"""

from __future__ import annotations

from pathlib import Path

import torch

from tests.goldens import write_json
from tests.nn.autocast_cases import CASES, arrays, training

if __name__ == "__main__":
    given = {name: torch.from_numpy(value) for name, value in arrays().items()}
    found: dict[str, object] = {}
    for name, case in CASES.items():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = case(torch, torch.nn.functional, given, given["x"].bfloat16())
        values = [float(f"{value:.5g}") for value in result.double().reshape(-1)[:8]]
        found[name] = [str(result.dtype).removeprefix("torch."), list(result.shape), values]
    found["training"] = {kind: training(torch, torch.from_numpy, kind) for kind in ("bfloat16", "float16")}
    write_json(Path(__file__).with_name("golden_autocast.json"), found, separators=(",", ":"))

"""Writes golden_state.json: torch's results of state_cases.py. Run with the extra `oracle`:

python -m tests.nn.make_golden_state
"""

from __future__ import annotations

from pathlib import Path

import torch

from tests.goldens import write_json
from tests.nn.state_cases import CASES

if __name__ == "__main__":
    golden = {}
    for name, function in CASES.items():
        try:
            golden[name] = function(torch)
        except (RuntimeError, KeyError) as error:
            golden[name] = "error"
            print(f"{name}: {' '.join(str(error).split())[:100]}")
    write_json(Path(__file__).with_name("golden_state.json"), golden, indent=0)

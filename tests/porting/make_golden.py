"""Writes golden.json and golden_cases.json: what the scripts and the cases give with torch.

python -m tests.porting.make_golden
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from tests.porting import cases, running

if __name__ == "__main__":
    golden = {name: [float(x) for x in running.load(name, "torch").main(running.fill)] for name in running.NAMES}
    (Path(__file__).parent / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    lines = [f"{json.dumps(name)}: {json.dumps(cases.plain(call(torch)))}" for name, call in cases.calls().items()]
    (Path(__file__).parent / "golden_cases.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")

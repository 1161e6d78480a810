"""Writes golden.json: what the scripts give with torch. python -m tests.porting.make_golden"""

from __future__ import annotations

import json
from pathlib import Path

from tests.porting import running

if __name__ == "__main__":
    golden = {name: [float(x) for x in running.load(name, "torch").main(running.fill)] for name in running.NAMES}
    (Path(__file__).parent / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")

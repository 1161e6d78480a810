"""Writes every file that comes from the code, and not from a hand: python -m scripts.generate.

The indexes come first, as the tables import what they list.
"""

from __future__ import annotations

import subprocess
import sys

WRITERS = "op_index nn_index top_index model_index op_table model_table onnx_table porting_table".split()

if __name__ == "__main__":
    for name in WRITERS:
        subprocess.run([sys.executable, "-m", f"scripts.{name}"], check=True)

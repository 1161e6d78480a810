"""Writes every file that comes from the code, and not from a hand: python -m scripts.generate.

These are what the scripts …_index and …_table write. The indexes come first, that of ops before all: the others import
what they list.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).parent
    names = [file.stem for kind in ("index", "table") for file in sorted(folder.glob(f"*_{kind}.py"))]
    for name in sorted(names, key=lambda name: name != "op_index"):
        subprocess.run([sys.executable, "-m", f"scripts.{name}"], check=True)

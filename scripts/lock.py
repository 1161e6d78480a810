"""Updates the lock files of Python packages, in a new environment: python -m scripts.lock

requirements-dev.txt has pyproject.toml's run-time and `dev` packages; third_party/pyodide/*.txt have Pyodide's. Every
package has its exact version and hashes, for every platform. `npm update` updates npm's lock file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = "uv>=0.9,<0.14"
STYLE = [
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-python-downloads",
    "-q",
    "--upgrade",
]
IN_PYODIDE = ["--python-version", "3.14", "--python-platform", "wasm32-pyodide2024"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([f"{folder}/bin/pip", "install", "-q", UV], check=True)
        compile_command = [f"{folder}/bin/uv", "pip", "compile", *STYLE]
        development = ["--universal", "--python-version", "3.11", "--extra", "dev", "pyproject.toml"]
        subprocess.run([*compile_command, *development, "-o", "requirements-dev.txt"], check=True, cwd=ROOT)
        for group in ("page", "tests"):
            inside = [*IN_PYODIDE, f"third_party/pyodide/{group}.in", "-o", f"third_party/pyodide/{group}.txt"]
            subprocess.run([*compile_command, *inside], check=True, cwd=ROOT)
        # Only the dictionaries of this one are used, neither its code nor what that needs.
        words = ["--no-deps", "--python-version", "3.12", "third_party/pyodide/voices.in"]
        subprocess.run([*compile_command, *words, "-o", "third_party/pyodide/voices.txt"], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()

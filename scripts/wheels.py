"""The wheels: ours for the host and for wasm32, and those of others that the page and its tests load.

python -m scripts.wheels [host] [wasm] [--out build/wheels]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from build import ProjectBuilder

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "wheels"
DOWNLOADS = ROOT / "build" / "downloads"
NUMPY = ROOT / "third_party" / "numpy"
REQUIREMENTS = ROOT / "third_party" / "pyodide"


def build(target: str, out: Path = OUT) -> Path:
    """Builds our wheel for "host" or "wasm" into `out`, with the packages of the running Python."""

    def runner(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        environment = {**os.environ, **(extra_environ or {}), "PYAPP_TARGET": target}
        done = subprocess.run(cmd, cwd=cwd, env=environment, capture_output=True, text=True)
        sys.stderr.write("".join(line for line in done.stderr.splitlines(keepends=True) if line.startswith("native:")))
        if done.returncode:
            sys.exit(f"{done.stdout}{done.stderr}\nThe {target} wheel was not built.")

    return Path(ProjectBuilder(ROOT, runner=runner).build("wheel", out))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def numpy() -> Path:
    """NumPy's wheel for Pyodide that lies in the project, checked against its pinned hash."""
    expected, name = (NUMPY / "SHA256SUMS").read_text().split()
    wheel = NUMPY / name
    if sha256(wheel) != expected:
        sys.exit(f"{wheel.relative_to(ROOT)} does not have the SHA-256 that SHA256SUMS gives; restore it from git.")
    return wheel


def download(group: str) -> list[Path]:
    """The wheels that third_party/pyodide/<group>.txt pins, from the package index; pip checks their hashes."""
    requirements = REQUIREMENTS / f"{group}.txt"
    folder = DOWNLOADS / f"{group}-{sha256(requirements)[:12]}"
    names = re.findall(r"^([\w.-]+)==", requirements.read_text(), re.MULTILINE)
    if len(list(folder.glob("*.whl"))) != len(names):
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        command += ["--python-version", "3.14", "--only-binary", ":all:", "--require-hashes"]
        subprocess.run([*command, "-d", str(folder), "-r", str(requirements)], check=True, stdin=subprocess.DEVNULL)
    return sorted(folder.glob("*.whl"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build pyapp's wheels.")
    parser.add_argument("targets", nargs="*", choices=["host", "wasm"], default=["host", "wasm"])
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    for target in arguments.targets:
        wheel = build(target, arguments.out)
        print(f"{wheel} ({wheel.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()

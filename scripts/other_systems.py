"""Runs the kernels' tests on another system in an emulator: python -m scripts.other_systems arm|windows [for pytest]

arm      ARM's instruction sets in qemu: Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
windows  the build for Windows in Wine: Debian's wine64, and ziglang, which compiles for Windows.

An emulator shows that results are right, not how fast they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests" / "native" / "piped_host.c"
# What to tell native/build.py, the compiler, and the program that runs the library's kernels.
SYSTEMS = {
    "arm": (["--machine", "aarch64"], ["aarch64-linux-gnu-gcc"], ["-o", "piped_host", "-ldl"]),
    "windows": (
        ["--system", "windows", "--machine", "x86_64"],
        [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu"],
        ["-o", "piped_host.exe"],
    ),
}


def main() -> int:
    system, *arguments = sys.argv[1:] or [""]
    if system not in SYSTEMS:
        sys.exit(__doc__)
    options, compiler, target = SYSTEMS[system]
    folder = ROOT / "build" / system
    library = [sys.executable, "native/build.py", "host", *options, "--out", str(folder)]
    subprocess.run(library, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    subprocess.run([*compiler, "-O1", "-Wall", "-Wextra", str(SOURCE), *target], check=True, cwd=folder)
    environment = {**os.environ, "PYAPP_TEST_SYSTEM": system}
    arguments = arguments or ["tests/native", "-q", "-p", "no:cacheprovider"]
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Runs the kernels' tests with ARM's instruction sets, in qemu: python -m scripts.arm [arguments for pytest]

Debian's packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user build and run them. An emulator shows that
results are right, not how fast they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "arm"
HOST = ROOT / "tests" / "native" / "arm_host.c"
MACHINE = "aarch64"


def main() -> int:
    library = [sys.executable, "native/build.py", "host", "--machine", MACHINE, "--out", str(FOLDER)]
    subprocess.run(library, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    host = [f"{MACHINE}-linux-gnu-gcc", "-O1", "-Wall", "-Wextra", str(HOST), "-o", str(FOLDER / "arm_host"), "-ldl"]
    subprocess.run(host, check=True)
    environment = {**os.environ, "PYAPP_TEST_ARM": "1"}
    arguments = sys.argv[1:] or ["tests/native", "-q", "-p", "no:cacheprovider"]
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())

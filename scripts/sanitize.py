"""Runs the kernels' tests under AddressSanitizer and UBSan: python -m scripts.sanitize [arguments for pytest]"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "build" / "sanitized" / "libpyapp.so"


def runtime(name: str) -> str:
    """The sanitizer's shared library that belongs to the compiler; Python must load it before everything else."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    return subprocess.run(
        [*compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> int:
    if platform.system() != "Linux":
        print("The sanitizers are run on Linux only.")
        return 0
    subprocess.run([sys.executable, "native/build.py", "host", "--sanitize"], check=True, cwd=ROOT)
    environment = {
        **os.environ,
        "PYAPP_LIBRARY": str(LIBRARY),
        "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        # Python itself never frees some of its memory; addresses that a test asks too much of give NULL, as without.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
    }
    arguments = sys.argv[1:] or ["tests/native", "-q", "-p", "no:cacheprovider"]
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Runs the kernels' tests under AddressSanitizer and UBSan: python -m scripts.sanitize [arguments for pytest]

Each case runs in one of the two sets that are built. Without arguments each runs in both, and some of CUDA's kernels
run in their emulator, under these two, and under ThreadSanitizer, for which the threads of a block are threads of their
own: it finds missing barriers. `--emulator` runs these alone.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Of CUDA's kernels, those with shared memory and functions of warps, at sizes that take seconds under sanitizers.
EMULATED = {
    "masked_attention": "test_a_row_that_sees_nothing or test_fewer_workspaces",
    "attention": "float16-3-2 or q8_0-3-2 or test_nan_and_infinite_scores or 20-2-1-33-bfloat16-5 or "
    "3-2-1-72-40-1-4-q8_0",
    "linear": "test_sums_of_halves",
    "quant": "quantises and 20-1024",
    "ctc": "test_all_paths and 3-label5",
    "fourier": "2-8232 or test_strides",
    "loss": "test_cross_entropy_is_stable",
    "norm": "test_rms_norm_backward",
    "sort": "test_topk_of_many_lines",
    "sample": "test_infinite_logits",
    "linear_algebra": "test_cholesky or test_eigenvalues or test_lu_factors or test_qr or test_singular_values or "
    "test_triangular_systems",
}
QUIET = ["-q", "-p", "no:cacheprovider"]
LIBRARY = ROOT / "build" / "sanitized" / "libpyapp.so"


def runtime(name: str) -> str:
    """The sanitizer's shared library that belongs to the compiler; Python must load it before everything else."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    return subprocess.run(
        [*compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()


def python(arguments: list[str], libraries: list[str], **more: str) -> int:
    """Runs pytest with these libraries loaded first."""
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(map(runtime, libraries)),
        # Python itself never frees some of its memory; addresses that a test asks too much of give NULL, as without.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0:history_size=4",
        "PYTHONMALLOC": "malloc",
        **more,
    }
    # ThreadSanitizer has fixed places for its own memory.
    fixed = ["setarch", platform.machine(), "-R"] if "libtsan.so" in libraries else []
    return subprocess.run([*fixed, sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environment).returncode


def emulator() -> int:
    """The tests of EMULATED. ThreadSanitizer sees one library in a process."""
    status = 0
    files = [f"tests/native/test_{name}.py" for name in EMULATED]
    chosen = " or ".join(f"({name})" for name in EMULATED.values())
    both = ["libasan.so", "libubsan.so"]
    status |= python([*files, "-k", chosen, *QUIET], both, PYAPP_EMULATOR_SANITIZE="address,undefined")
    for name, tests in EMULATED.items():
        file = f"tests/native/test_{name}.py"
        status |= python([file, "-k", tests, *QUIET], ["libtsan.so"], PYAPP_EMULATOR_SANITIZE="thread")
    return status


def main() -> int:
    if platform.system() != "Linux":
        print("The sanitizers are run on Linux only.")
        return 0
    if sys.argv[1:] == ["--emulator"]:
        return emulator()
    subprocess.run([sys.executable, "native/build.py", "host", "--sanitize"], check=True, cwd=ROOT)
    arguments = sys.argv[1:] or ["tests/native", *QUIET]
    # The arrays are NumPy's, from malloc in any case. Python's own objects, records among them, come from there in the
    # whole run alone: it takes a third more time.
    sets = {"PYTHONMALLOC": "pymalloc"} if sys.argv[1:] else {"PYAPP_SANITIZED": "all"}
    status = python(arguments, ["libasan.so", "libubsan.so"], PYAPP_LIBRARY=str(LIBRARY), **sets)
    return status or (0 if sys.argv[1:] else emulator())


if __name__ == "__main__":
    sys.exit(main())

"""Runs the kernels' tests under AddressSanitizer and UBSan: python -m scripts.sanitize [arguments for pytest]

Each case runs in one of the two sets that are built. Without arguments each runs in both, and some of CUDA's kernels
run in their emulator, under these two, and under ThreadSanitizer, for which the threads of a block are threads of their
own: it finds missing barriers. `--emulator` runs these alone, `--emulator scan sort` those of these CUDA sources.

Which of CUDA's kernels are checked is read from their sources: all of those whose threads work together. Of each, the
first cases of tests/native that are small enough (tests/native/emulated.py).
"""

from __future__ import annotations

import ast
import functools
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pyapp.engine.gpu import sources

ROOT = Path(__file__).resolve().parent.parent
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


# What threads of a block or a warp do together; gpu.h, which every source includes, only defines it.
_TOGETHER = re.compile(r"__sync|_sync\(|\b(block|warp)_(sum|reduce|max|scan)\w*\(|__shared__|DYNAMIC_SHARED\(")


def sources_to_check() -> list[str]:
    """The CUDA sources whose threads work together: by shared memory, barriers or functions of warps."""
    found = []
    for name in sorted({step.source for step in sources.all_steps()}):
        texts = [sources.text_of(name), *(text for key, text in sources.headers_of(name).items() if key != "gpu.h")]
        found += [name] if any(_TOGETHER.search(text) for text in texts) else []
    return found


def _strings(path: Path) -> Iterator[str]:
    """Patterns of the strings of a file of Python that may name a kernel: what stands in braces matches anything."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            yield "".join(
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def files_for(source: str) -> list[str]:
    """The files of tests/native that name kernels of a CUDA source."""
    kernels = [name for name, plan in sources.plans().items() if plan.steps[0].source == source]
    return [path for path, pattern in _patterns().items() if any(pattern.fullmatch(name) for name in kernels)]


@functools.cache
def _patterns() -> dict[str, re.Pattern[str]]:
    paths = sorted((ROOT / "tests" / "native").glob("test_*.py"))
    found = {path.relative_to(ROOT).as_posix(): "|".join({*_strings(path)}) for path in paths}
    return {path: re.compile(pattern) for path, pattern in found.items() if pattern}


def emulator(chosen: list[str]) -> int:
    """The tests of these CUDA sources, or of all. ThreadSanitizer sees one library in a process."""
    status = 0
    for source in chosen or sources_to_check():
        arguments = [*files_for(source), *QUIET]
        for kind, libraries in (("address,undefined", ["libasan.so", "libubsan.so"]), ("thread", ["libtsan.so"])):
            print(f"== {kind}: {source}", flush=True)
            more = {"PYAPP_EMULATOR_SANITIZE": kind, "PYAPP_CHECKED_SOURCE": source}
            status |= python(arguments, libraries, **more)
    return status


def main() -> int:
    if platform.system() != "Linux":
        print("The sanitizers are run on Linux only.")
        return 0
    if sys.argv[1:2] == ["--emulator"]:
        return emulator(sys.argv[2:])
    subprocess.run([sys.executable, "native/build.py", "host", "--sanitize"], check=True, cwd=ROOT)
    arguments = sys.argv[1:] or ["tests/native", *QUIET]
    # The arrays are NumPy's, from malloc in any case. Python's own objects, records among them, come from there in the
    # whole run alone: it takes a third more time.
    sets = {"PYTHONMALLOC": "pymalloc"} if sys.argv[1:] else {"PYAPP_SANITIZED": "all"}
    status = python(arguments, ["libasan.so", "libubsan.so"], PYAPP_LIBRARY=str(LIBRARY), **sets)
    return status or (0 if sys.argv[1:] else emulator([]))


if __name__ == "__main__":
    sys.exit(main())

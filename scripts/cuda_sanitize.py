"""Runs the CUDA kernels' tests on the card of this machine under NVIDIA's compute-sanitizer:
python -m scripts.cuda_sanitize [memcheck racecheck] [-- arguments for pytest]

memcheck finds what is read or written outside of memory, racecheck what threads of a block write and read in shared
memory without a barrier. By default both, with the tests that scripts.sanitize finds, which are small enough: a kernel
takes up to hundreds of times as long. The tool comes with the CUDA toolkit; PYAPP_COMPUTE_SANITIZER names it elsewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from .cuda_card import missing
from .sanitize import QUIET, ROOT, files_for, sources_to_check

TOOLS = ("memcheck", "racecheck")
FOUND = 86  # the exit status for what the tool finds: none of pytest's
PLACES = ("/usr/local/cuda/bin/compute-sanitizer", "/opt/cuda/bin/compute-sanitizer")
MISSING = (
    "compute-sanitizer is not installed, so nothing was checked. It is part of the CUDA toolkit (Debian: "
    "cuda-sanitizer-13-0 of NVIDIA's repository); PYAPP_COMPUTE_SANITIZER names it where it is not on PATH. "
    "`make test-sanitize` runs the kernels in the emulator under other sanitizers, and needs no card."
)


def tool() -> str | None:
    """The program; None where it is not installed."""
    named = os.environ.get("PYAPP_COMPUTE_SANITIZER")
    places = [named] if named else [shutil.which("compute-sanitizer"), *PLACES]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def commands(program: str, tools: list[str], arguments: list[str]) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """(what it checks, the command, of the environment) of each run: of each tool and CUDA source, or with arguments of
    each tool."""
    for name in tools:
        checked = [program, "--tool", name, "--error-exitcode", str(FOUND), sys.executable, "-m", "pytest", *QUIET]
        if arguments:
            yield f"{name}: {' '.join(arguments)}", [*checked, *arguments], {}
        else:
            for source in sources_to_check():
                yield f"{name}: {source}", [*checked, *files_for(source)], {"PYAPP_CHECKED_SOURCE": source}


def main(arguments: list[str]) -> int:
    tools = [name for name in arguments if name in TOOLS]
    rest = [name for name in arguments if name not in TOOLS and name != "--"]
    if found := missing():
        print(f"{found}. So nothing was checked; `make test-sanitize` needs no card", file=sys.stderr)
        return 2
    program = tool()
    if program is None:
        print(MISSING, file=sys.stderr)
        return 2
    more = {"PYAPP_TEST_CUDA": "1", "PYAPP_EMULATED": "all", "PYAPP_CUBLASLT": "none"}
    failed = []
    for what, command, own in commands(program, tools or list(TOOLS), rest):
        print(f"== {what}", flush=True)
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, **more, **own}).returncode
        if code:
            failed.append(f"{what}: {'the tool found errors' if code == FOUND else f'exit status {code}'}")
    print("\n".join(["", *failed] if failed else ["", f"{program} found nothing"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

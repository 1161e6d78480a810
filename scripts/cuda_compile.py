"""Compiles every CUDA source for every architecture that pyapp supports, without a card: python -m scripts.cuda_compile

Needs `pip install "pyapp[cuda]"`. Prints the registers, spilled bytes and shared memory of the kernels, and fails
where a source does not compile, or a kernel spills more than SPILLS bytes or its blocks use more than REGISTERS
registers.
"""

from __future__ import annotations

import argparse
import re
import sys
import time

from pyapp.engine.gpu import nvidia, sources
from pyapp.errors import KernelError

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
# Of a block and of a thread, at most: two blocks run on a multiprocessor, which has 65,536 registers.
REGISTERS, SPILLS = 32768, 400
_KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores")
_USED = re.compile(r"Used (\d+) registers(?:, used \d+ barriers)?(?:.*?(\d+) bytes smem)?")


def kernels_of(report: str) -> list[tuple[str, int, int, int]]:
    """(name, registers, spilled bytes, shared bytes) of each kernel, from the assembler's report."""
    found, name, spilled = [], "", 0
    for line in report.splitlines():
        if match := _KERNEL.search(line):
            name = match[1]
        elif match := _SPILLS.search(line):
            spilled = int(match[1])
        elif (match := _USED.search(line)) and name:
            found.append((name, int(match[1]), spilled, int(match[2] or 0)))
            name, spilled = "", 0
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", help="names of sources, as 'linear' (all by default)")
    parser.add_argument("--architectures", default=",".join(ARCHITECTURES), help="as sm_80,sm_90a")
    options = parser.parse_args(arguments)
    threads = {step.function: step.threads for step in sources.all_steps()}
    names = options.sources or sorted({step.source for step in sources.all_steps()})
    print(f"{nvidia.compiler_version()}: {len(names)} sources", flush=True)
    failed = 0
    for name in names:
        for architecture in options.architectures.split(","):
            began = time.monotonic()
            try:
                text, headers = sources.text_of(name), sources.headers_of(name)
                image, report = nvidia.compile_source(f"native/cuda/{name}", text, headers, architecture)
            except KernelError as error:
                print(error, file=sys.stderr)
                failed += 1
                continue
            kernels = kernels_of(report)
            wide = [k for k in kernels if k[1] * threads[k[0]] > REGISTERS or k[2] > SPILLS]
            failed += bool(wide) or not kernels
            most = [max(column, default=0) for column in zip(*(k[1:] for k in kernels), strict=True)] or [0, 0, 0]
            print(
                f"{name} {architecture}: {len(kernels)} kernels, {len(image):,} bytes, at most {most[0]} registers, "
                f"{most[1]} bytes spilled, {most[2]} bytes shared; {time.monotonic() - began:.1f} s", flush=True
            )  # fmt: skip
            for kernel, registers, spilled, _ in wide:
                print(f"  too many: {kernel} has {registers} registers and {spilled} bytes spilled", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

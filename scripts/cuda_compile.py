"""Compiles the CUDA sources for every architecture that pyapp supports, without a card: python -m scripts.cuda_compile

Needs `pip install "pyapp[cuda]"`. Prints the registers, spilled bytes and shared memory of the kernels, and fails
where a source does not compile, or a kernel spills more than SPILLS bytes or its blocks use more than REGISTERS
registers. With the disassembler (`pip install nvidia-cuda-nvdisasm`) also where a kernel for sm_90 or later touches
memory before it waits for the kernels in front of it (native/cuda/gpu.h).

tests/cuda/compiled.json records what was found. Only sources that have changed since are compiled again, and those that
are named. `--check` compiles nothing, and fails where a source is not recorded as it is now.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyapp.engine.blocks.layout import BLOCK_TYPES
from pyapp.engine.dtype import bfloat16, float16, float32, uint8
from pyapp.engine.element_types import CODES
from pyapp.engine.gpu import nvidia, sources
from pyapp.engine.native import SIGNATURES
from pyapp.errors import KernelError

RECORD = Path(__file__).parents[1] / "tests" / "cuda" / "compiled.json"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
# Of a block and of a thread, at most: two blocks run on a multiprocessor, which has 65,536 registers.
REGISTERS, SPILLS = 32768, 256  # the gradient of queries, without a mask, on cards of Blackwell spills most
ALONE = {"attention_pairs"}  # sources of whose kernels one block runs on a multiprocessor
MORE_SPILLS = {
    "attention_train": 284,  # the gradient of keys and values with a mask, on sm_90a by NVRTC 13.5 (252 by 13.0)
    "linear_blocks": 576,  # 9 to 32 rows; the figures of docs/cuda.md were measured with them
}
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


_FUNCTION = re.compile(r"^\.text\.(\w+):")
# Instructions of sm_90 and later: those that read or write memory, and the one that waits.
_TOUCHES = re.compile(r"\b(LDG|LD|LDGSTS|STG|ST|ATOM|ATOMG|RED|REDG|UBLKCP|TEX|TLD)\b")
_WAITS = re.compile(r"\bACQBULK\b")


def disassembler() -> Path | None:
    """NVIDIA's nvdisasm of a package that is installed."""
    found = importlib.util.find_spec("nvidia")
    places = [] if found is None else list(found.submodule_search_locations or [])
    return next((path for place in places for path in Path(place).glob("*/bin/nvdisasm")), None)


def hasty_kernels(listing: str) -> list[str]:
    """The kernels of a disassembler's listing that touch memory before they wait, or never wait."""
    found, name, waits = [], "", True
    for line in [*listing.splitlines(), ".text.end:"]:
        if match := _FUNCTION.match(line):
            if not waits:
                found.append(name)
            name, waits = match[1], False
        elif not waits and _WAITS.search(line):
            waits = True
        elif not waits and _TOUCHES.search(line):
            found.append(name)
            waits = True
    return found


def _hasty(image: bytes) -> list[str]:
    """The same of a cubin; none without the disassembler."""
    program = disassembler()
    if program is None:
        return []
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        return hasty_kernels(
            subprocess.run([program, "-c", file.name], capture_output=True, text=True, check=True).stdout
        )


# Values of dims by which kernels choose their variants: numbers of rows, tokens, heads, columns and blocks; codes of
# types.
SIZES_TRIED = (0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 96, 128, 200, 256, 300, 4096)
TYPES_TRIED = [CODES[kind] for kind in (float32, float16, bfloat16, uint8)]
BLOCKS_TRIED = [kind.code for kind in BLOCK_TYPES.values()]  # the types of linear_blocks


class _Dims:
    """Dims that note which of them were asked for."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}

    def __getitem__(self, at: int) -> int:
        return self.values.setdefault(at, 1)


def variants_of(kernel: str, variant: sources.Number) -> list[int]:
    """Every number that the variants of a kernel have for the values that are tried, two sizes at a time."""
    of_type = [*SIGNATURES[kernel].split("|")[1].split(), "type"].index("type")
    dims: Any = _Dims()
    for value in SIZES_TRIED:  # conditions hide dims that others decide about
        for at in list(dims.values):
            dims.values[at] = value
        variant(dims)
    names, found = [at for at in dims.values if at != of_type], set()
    if not dims.values:  # one, whatever the dims
        return [variant(dims)]
    types = [0] if of_type not in dims.values else BLOCKS_TRIED if kernel.endswith("linear_blocks") else TYPES_TRIED
    for kind, base in itertools.product(types, (1, 9, 33, 300)):
        dims.values = dict.fromkeys(names, base) | {of_type: kind}
        found.add(variant(dims))
        for one, other in itertools.combinations_with_replacement(names, 2):
            for x, y in itertools.product(SIZES_TRIED, repeat=2):
                dims.values = dict.fromkeys(names, base) | {of_type: kind, one: x, other: y}
                found.add(variant(dims))
    return sorted(found)


def units_of(source: str) -> list[tuple[str, int]]:
    """What a source is compiled as on a card: each kernel with variants and each of its numbers, and the others."""
    found = [("", sources.NO_VARIANT if source in sources.varied() else 0)]
    for name, plan in sources.plans().items():
        if plan.variant is not None and plan.steps[0].source == source:
            found += [(name, number) for number in variants_of(name, plan.variant)]
    return found


_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_OF_ALL_KERNELS = ("kernels.h", "slots.h")  # a kernel elsewhere changes them


def digest_of(source: str) -> str:
    """Of what the compiler reads of a source, its headers and its kernels' slots, without comments and spaces."""
    texts = [sources.text_of(source)]
    texts += [text for name, text in sorted(sources.headers_of(source).items()) if name not in _OF_ALL_KERNELS]
    texts += [SIGNATURES[name] for name, plan in sorted(sources.plans().items()) if plan.steps[0].source == source]
    text = "\n".join(" ".join(_COMMENTS.sub(" ", text).split()) for text in texts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def names_of_sources() -> list[str]:
    """Every source."""
    return sorted({step.source for step in sources.all_steps()})


def read_record() -> dict[str, Any]:
    """{source: {architecture: {digest, compiler, kernels, registers, spilled, shared}}}: the most of a kernel of it."""
    found: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def missing(record: dict[str, Any], architectures: Sequence[str]) -> list[tuple[str, str]]:
    """The sources and architectures that are not recorded as they are now."""
    found = []
    for source in names_of_sources():
        digest, own = digest_of(source), record.get(source, {})
        found += [(source, name) for name in architectures if own.get(name, {}).get("digest") != digest]
    return found


def write_record(source: str, architecture: str, found: dict[str, Any]) -> None:
    """Adds what was found of a source, and drops sources that are gone."""
    record = read_record()
    record.setdefault(source, {})[architecture] = found
    known = {name: record[name] for name in names_of_sources() if name in record}
    lines = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(own[key])}" for key in ARCHITECTURES if key in own)
        + "\n}"
        for name, own in known.items()
    ]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def compile_source(source: str, architecture: str) -> bool:
    """Compiles a source, prints what it needs, and records that. False where something is wrong, which it prints."""
    threads = {step.function: step.threads for step in sources.all_steps()}
    headers, digest = sources.headers_of(source), digest_of(source)
    began = time.monotonic()
    kernels: list[tuple[str, int, int, int]] = []
    size = 0
    failed = False
    for kernel, variant in units_of(source):
        text = sources.text_of(source, kernel, variant)
        try:
            image, report = nvidia.compile_source(f"native/cuda/{source}", text, headers, architecture)
        except KernelError as error:
            print(f"{kernel} {variant}: {error}", file=sys.stderr)
            failed = True
            continue
        size += len(image)
        if int(re.sub(r"\D", "", architecture)) >= 90 and (hasty := _hasty(image)):
            print(f"{kernel} {variant}: before they wait, memory is touched by {', '.join(hasty)}", file=sys.stderr)
            failed = True
        own = {step.function for step in sources.plans()[kernel].steps} if kernel else None
        kernels += [found for found in kernels_of(report) if own is None or found[0] in own]
    registers = 2 * REGISTERS if source in ALONE else REGISTERS
    wide = [k for k in kernels if k[1] * threads[k[0]] > registers or k[2] > MORE_SPILLS.get(source, SPILLS)]
    most = [max(column, default=0) for column in zip(*(k[1:] for k in kernels), strict=True)] or [0, 0, 0]
    print(
        f"{source} {architecture}: {len(kernels)} kernels, {size:,} bytes, at most {most[0]} registers, "
        f"{most[1]} bytes spilled, {most[2]} bytes shared; {time.monotonic() - began:.1f} s", flush=True
    )  # fmt: skip
    for kernel, used, spilled, _ in wide:
        print(f"  too many: {kernel} has {used} registers and {spilled} bytes spilled", file=sys.stderr)
    if failed or wide or not kernels:
        return False
    numbers = dict(zip(("registers", "spilled", "shared"), most, strict=True))
    found = {"digest": digest, "compiler": nvidia.compiler_version(), "kernels": len(kernels), **numbers}
    write_record(source, architecture, found)
    return True


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", help="names of sources, as 'linear' (by default those that have changed)")
    parser.add_argument("--architectures", default=",".join(ARCHITECTURES), help="as sm_80,sm_90a")
    parser.add_argument("--all", action="store_true", help="every source")
    parser.add_argument("--check", action="store_true", help="only say which sources have changed")
    options = parser.parse_args(arguments)
    architectures = options.architectures.split(",")
    if unknown := set(options.sources) - set(names_of_sources()):
        parser.error(f"there is no source {', '.join(sorted(unknown))} in native/cuda")
    if options.sources or options.all:
        wanted = [(name, one) for name in options.sources or names_of_sources() for one in architectures]
    else:
        wanted = missing(read_record(), architectures)
    if options.check:
        for name, architecture in wanted:
            print(f"{name} has changed since it was compiled for {architecture}: make test-cuda-compile")
        return 1 if wanted else 0
    if wanted:
        print(f"{nvidia.compiler_version()}: {len(wanted)} of sources and architectures", flush=True)
    done = [compile_source(name, architecture) for name, architecture in wanted]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

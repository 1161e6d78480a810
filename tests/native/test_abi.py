"""C and Python read kernels.h alike: every kernel is in the library, with the slots that the header names."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.emulated import EmulatedKernels
from tests.native.kernels import (
    BAD_ARGUMENT,
    CANCELLED,
    CUDA_KERNELS,
    DIVISION_BY_ZERO,
    HEADER,
    INDEX_RANGE,
    OK,
    POSITION_RANGE,
    ROOT,
    TYPES,
    Kernels,
    Launch,
)

pytestmark = [pytest.mark.native_only, pytest.mark.host_library]

SOURCES = {path.name: path.read_text() for path in sorted((ROOT / "native").glob("*.c"))}
TEXT = (ROOT / "native" / "kernels.h").read_text()
DEFINITION = re.compile(r"^(?:\w+_)?KERNEL\((\w+)", re.MULTILINE)
PRINT_LAYOUT = """
#include "kernels.h"
#include "slots.h"
#include <stddef.h>
#include <stdio.h>
#define SHOW(name) printf("%s\\n", #name);
int main(void)
{
    printf("%zu %zu %zu %zu %zu\\n", sizeof(launch), offsetof(launch, work), offsetof(launch, pointers),
           offsetof(launch, dims), offsetof(launch, floats));
    printf("%d %d %d %d %d %d\\n", KERNEL_OK, KERNEL_INDEX_RANGE, KERNEL_POSITION_RANGE, KERNEL_BAD_ARGUMENT,
           KERNEL_CANCELLED, KERNEL_DIVISION_BY_ZERO);
    KERNELS(SHOW, SHOW)
    SLOTS
    return 0;
}
"""


def slots_header() -> str:
    """slots.h, as build.py makes it."""
    spec = importlib.util.spec_from_file_location("native_build", ROOT / "native" / "build.py")
    assert spec and spec.loader
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return str(build.slots_header())


@pytest.fixture(scope="module")
def as_c_reads_it(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    folder: Path = tmp_path_factory.mktemp("abi")
    names = [f"{kernel}_{slot}" for kernel, (_, *groups) in HEADER.items() for slot in sum(groups, [])]
    show_slots = "".join(f'printf("%d {name}\\n", {name});\n' for name in names)
    (folder / "show.c").write_text(PRINT_LAYOUT.replace("SLOTS", show_slots, 1))
    (folder / "slots.h").write_text(slots_header())
    command = [compiler, f"-I{ROOT / 'native'}", str(folder / "show.c"), "-o", str(folder / "show")]
    subprocess.run(command, check=True, capture_output=True)
    return subprocess.run([str(folder / "show")], check=True, capture_output=True, text=True).stdout.splitlines()


def test_python_and_c_see_the_same_record(as_c_reads_it: list[str]) -> None:
    fields = [getattr(Launch, name).offset for name in ("work", "pointers", "dims", "floats")]
    assert as_c_reads_it[0].split() == [str(number) for number in (ctypes.sizeof(Launch), *fields)]
    assert as_c_reads_it[1].split() == [
        str(code) for code in (OK, INDEX_RANGE, POSITION_RANGE, BAD_ARGUMENT, CANCELLED, DIVISION_BY_ZERO)
    ]


def test_python_and_c_read_the_same_kernels(as_c_reads_it: list[str]) -> None:
    assert as_c_reads_it[2 : 2 + len(HEADER)] == list(HEADER)
    assert [index for index, *_ in HEADER.values()] == list(range(len(HEADER)))
    slots = [
        f"{at} {kernel}_{slot}"
        for kernel, (_, *groups) in HEADER.items()
        for group in groups
        for at, slot in enumerate(group)
    ]
    assert as_c_reads_it[2 + len(HEADER) :] == slots


@pytest.mark.parametrize("name", HEADER)
def test_arguments_fit_their_slots(name: str) -> None:
    _, pointers, dims, floats = HEADER[name]
    assert 1 <= len(pointers) <= 8 and 1 <= len(dims) <= 24 and len(floats) <= 4
    for names in (pointers, dims, floats):
        assert len(set(names)) == len(names), "a name stands twice"


def test_every_kernel_is_defined_once() -> None:
    defined = [name for text in SOURCES.values() for name in DEFINITION.findall(text)]
    of_library = sorted(HEADER.keys() - CUDA_KERNELS)
    assert sorted(set(defined) & set(HEADER)) == of_library, "a kernel of kernels.h has no source"
    assert sorted(name for name in defined if name in HEADER) == of_library, "a kernel has two sources"
    helpers = {"name"}  # the parameter in `#define SOME_KERNEL(name, ...) KERNEL(name)`
    assert set(defined) - set(HEADER) <= helpers, "a source defines a kernel that kernels.h does not name"


@pytest.mark.parametrize("name", HEADER)
def test_every_kernel_does_nothing_with_nothing(kernels: Kernels, name: str) -> None:
    """All sizes zero: valid for every kernel, and an error for a missing kernel, as those of CUDA alone are here."""
    _, _, dims, _ = HEADER[name]
    positive = {dim: 1 for dim in dims if dim in ("element_bytes", "group", "kv_heads", "a_period", "b_period", "rank")}
    typed = name.startswith(("rms_norm_", "normalize_heads")) and "type" in dims
    positive |= {"type": TYPES["float16"]} if typed else {}
    missing = name in CUDA_KERNELS and not isinstance(kernels, EmulatedKernels)
    assert kernels.run(name, **positive) == (BAD_ARGUMENT if missing else OK)


@pytest.mark.parametrize("name", SOURCES)
def test_slots_are_named(name: str) -> None:
    """C names the slots that it reads, and takes a slot's name from the group that it belongs to."""
    for place, group in enumerate(("pointers", "dims", "floats")):
        known = {f"{kernel}_{slot}" for kernel, entry in HEADER.items() for slot in entry[1 + place]}
        used = set(re.findall(rf"record->{group}(?:\[| \+ )(\w+)", SOURCES[name]))
        assert used <= known, f"{group}: {used - known}"


def test_header_and_library_agree(kernels: Kernels) -> None:
    shipped = Path(kernels.library._name).with_name("kernels.h")
    if shipped.exists():
        assert shipped.read_text() == TEXT

"""kernels.h as C and as Python read it: every kernel is in the library, its slots are those that the header names."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.kernels import BAD_ARGUMENT, CANCELLED, HEADER, INDEX_RANGE, OK, POSITION_RANGE, ROOT, Kernels, Launch

pytestmark = pytest.mark.native_only  # the host's library itself

SOURCES = {path.name: path.read_text() for path in sorted((ROOT / "native").glob("*.c"))}
TEXT = (ROOT / "native" / "kernels.h").read_text()
DEFINITION = re.compile(r"^(?:\w+_)?KERNEL\((\w+)", re.MULTILINE)
PRINT_LAYOUT = """
#include "kernels.h"
#include <stddef.h>
#include <stdio.h>
#define SHOW(name, signature) printf("%s\\t%s\\n", #name, signature);
int main(void)
{
    printf("%zu %zu %zu %zu %zu\\n", sizeof(launch), offsetof(launch, work), offsetof(launch, pointers),
           offsetof(launch, dims), offsetof(launch, floats));
    printf("%d %d %d %d %d\\n", KERNEL_OK, KERNEL_INDEX_RANGE, KERNEL_POSITION_RANGE, KERNEL_BAD_ARGUMENT,
           KERNEL_CANCELLED);
    KERNELS(SHOW)
    return 0;
}
"""


@pytest.fixture(scope="module")
def as_c_reads_it(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    folder: Path = tmp_path_factory.mktemp("abi")
    (folder / "show.c").write_text(PRINT_LAYOUT)
    command = [compiler, f"-I{ROOT / 'native'}", str(folder / "show.c"), "-o", str(folder / "show")]
    subprocess.run(command, check=True, capture_output=True)
    return subprocess.run([str(folder / "show")], check=True, capture_output=True, text=True).stdout.splitlines()


def test_python_and_c_see_the_same_record(as_c_reads_it: list[str]) -> None:
    fields = [getattr(Launch, name).offset for name in ("work", "pointers", "dims", "floats")]
    assert as_c_reads_it[0].split() == [str(number) for number in (ctypes.sizeof(Launch), *fields)]
    assert as_c_reads_it[1].split() == [
        str(code) for code in (OK, INDEX_RANGE, POSITION_RANGE, BAD_ARGUMENT, CANCELLED)
    ]


def test_python_and_c_read_the_same_kernels(as_c_reads_it: list[str]) -> None:
    assert len(as_c_reads_it) - 2 == len(HEADER)
    for index, line in enumerate(as_c_reads_it[2:]):
        name, signature = line.split("\t")
        groups = [[word.rstrip("?") for word in group.split()] for group in signature.split("|")]
        assert HEADER[name] == (index, *groups)


@pytest.mark.parametrize("name", HEADER)
def test_arguments_fit_their_slots(name: str) -> None:
    _, pointers, dims, floats = HEADER[name]
    assert 1 <= len(pointers) <= 8 and 1 <= len(dims) <= 24 and len(floats) <= 4
    for names in (pointers, dims, floats):
        assert len(set(names)) == len(names), "a name stands twice"


def test_every_kernel_is_defined_once() -> None:
    defined = [name for text in SOURCES.values() for name in DEFINITION.findall(text)]
    assert sorted(set(defined) & set(HEADER)) == sorted(HEADER), "a kernel of kernels.h has no source"
    assert sorted(name for name in defined if name in HEADER) == sorted(HEADER), "a kernel has two sources"
    helpers = {"name"}  # the parameter in `#define SOME_KERNEL(name, ...) KERNEL(name)`
    assert set(defined) - set(HEADER) <= helpers, "a source defines a kernel that kernels.h does not name"


@pytest.mark.parametrize("name", HEADER)
def test_every_kernel_does_nothing_with_nothing(kernels: Kernels, name: str) -> None:
    """All sizes zero: legal for every kernel, and what a missing kernel would not answer."""
    _, _, dims, _ = HEADER[name]
    positive = {dim: 1 for dim in dims if dim in ("element_bytes", "group", "kv_heads", "a_period", "b_period", "rank")}
    assert kernels.run(name, **positive) == OK


@pytest.mark.parametrize("name", HEADER)
def test_kernels_read_no_slot_that_the_header_does_not_name(name: str) -> None:
    """Where a kernel is written out; those made by a macro share a body."""
    bodies = [
        re.search(rf"^KERNEL\({name}\)\n\{{(.*?)^\}}", text, re.MULTILINE | re.DOTALL) for text in SOURCES.values()
    ]
    for slots, names in zip(("pointers", "dims", "floats"), HEADER[name][1:], strict=True):
        used = [int(index) for body in bodies if body for index in re.findall(rf"record->{slots}\[(\d+)\]", body[1])]
        assert all(index < len(names) for index in used), f"{slots} of {name}: {used}"


def test_header_and_library_agree(kernels: Kernels) -> None:
    shipped = Path(kernels.library._name).with_name("kernels.h")
    assert "#define KERNELS(KERNEL)" in TEXT
    if shipped.exists():
        assert shipped.read_text() == TEXT

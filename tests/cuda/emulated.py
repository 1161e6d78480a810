"""A card for tests: the CUDA sources compiled by the C++ compiler of this machine, with the threads of a block as
fibers (emulator.h). It stands where NVIDIA's driver does, so the device that the tests use is the real one.

Fresh memory is full of bytes that read as NaN. Bytes before and after each block of memory are checked when it is
freed, and by `check`.

With PYAPP_TEST_CUDA=1 (`make test-cuda`) the tests run on the first card of the machine instead.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyapp.engine.device import Device, register
from pyapp.engine.devices.cuda import Cuda
from pyapp.engine.gpu import card as cards
from pyapp.engine.gpu import nvidia, sources
from pyapp.errors import KernelError

COMPILER = os.environ.get("CXX", "g++")
FLAGS = "-std=c++17 -O1 -fPIC -shared -x c++ -fno-strict-aliasing -ffp-contract=off -fvisibility=hidden".split()
FLAGS += ["-Wall", "-Wextra", *(f"-Wno-{name}" for name in ("unused-parameter", "unused-function", "unused-variable"))]
FLAGS += ["-Wno-missing-field-initializers", "-Wno-attributes", "-Wno-unknown-pragmas"]
SANITIZE = os.environ.get("PYAPP_EMULATOR_SANITIZE", "")  # "thread", "address,undefined": scripts/sanitize.py
if SANITIZE:
    FLAGS += [f"-fsanitize={SANITIZE}", "-g1", "-fno-sanitize-recover=undefined"]
HERE = Path(__file__).parent
CACHE = HERE.parent.parent / "build" / "cuda-emulator"
GUARD, FILLING, FRESH = 256, 0xA5, 0xFF  # bytes on each side of a block; what they and fresh memory are full of
REAL = os.environ.get("PYAPP_TEST_CUDA") == "1"
DEVICE = "cuda:0" if REAL else "emulated"
_numbers = itertools.count()


class EmulatedCard(cards.Card):
    """The emulator as a card. `limit`: bytes of memory that it has. `launched`: functions in their order.
    `overlapped`: those that may start before the one in front has ended, when they were launched or captured."""

    name = "emulated card"
    architecture = "emulator"
    capability = (9, 0)
    multiprocessors = 4
    most_blocks = 5  # kernels must loop
    most_shared = 232448
    slab = 0
    stream = None
    variants = False  # the tests need most of them
    overlap = True
    pairs = True

    def __init__(self, limit: int = 1 << 30) -> None:
        self.total_memory = limit
        self.compiler = f"{COMPILER} {' '.join(FLAGS)} {(HERE / 'emulator.h').read_text()}"
        self.blocks: dict[int, tuple[int, Any]] = {}  # address: (bytes, the memory)
        self.used = 0
        self.launched: list[str] = []
        self.overlapped: list[str] = []
        self._names: dict[int, str] = {}
        self._folder = tempfile.TemporaryDirectory()
        self._recording: list[tuple[Callable[..., Any], tuple[Any, ...]]] | None = None

    def compile(self, source: str, text: str, headers: dict[str, str]) -> bytes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / f"{Path(source).name}.cu").write_text(text if headers else of_users(text))
            for header, content in headers.items():
                (folder / header).write_text(content)
            target = folder / "kernels.so"
            command = [
                COMPILER,
                *FLAGS,
                f"-I{folder}",
                f"-I{HERE}",
                str(folder / f"{Path(source).name}.cu"),
                "-o",
                str(target),
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise KernelError(f"does not compile:\n{done.stderr}", where=f"{source}.cu")
            return target.read_bytes()

    def load(self, image: bytes) -> Any:
        path = Path(self._folder.name) / f"{next(_numbers)}.so"
        path.write_bytes(image)
        library = ctypes.CDLL(str(path))
        for name in ("emulator_launch", "emulator_launch_users"):
            if hasattr(library, name):
                getattr(library, name).restype = ctypes.c_char_p
        return library

    def function(self, module: Any, name: str) -> Any:
        if not hasattr(module, name):
            raise KernelError(f"finding the kernel {name}: named symbol not found", where="cuda")
        return module, ctypes.cast(getattr(module, name), ctypes.c_void_p), name

    def launch(
        self, function: Any, blocks: int, threads: int, shared: int, arguments: Any, overlaps: bool = False
    ) -> None:
        self.overlapped += [function[2]] * overlaps
        if hasattr(function[0], "emulator_launch_users"):
            values = [ctypes.create_string_buffer(ctypes.string_at(address, 8), 8) for address in arguments]
            self._do(self._launch_users, function, blocks, threads, shared, values)
            return
        record, status, scratch = list(arguments)
        kept = ctypes.create_string_buffer(ctypes.string_at(record, 280), 280)
        numbers = [ctypes.c_uint64.from_address(address).value for address in (status, scratch)]
        self._do(self._launch, function, blocks, threads, shared, kept, *numbers)

    def _launch(self, function: Any, blocks: int, threads: int, shared: int, record: Any, *values: int) -> None:
        library, address, name = function
        self.launched.append(name)
        pointers = (ctypes.c_void_p(value) for value in values)
        error = library.emulator_launch(address, blocks, threads, shared, record, *pointers)
        assert not error, f"{name}: {error.decode()}"

    def _launch_users(self, function: Any, blocks: int, threads: int, shared: int, kept: list[Any]) -> None:
        library, _, name = function
        self.launched.append(name)
        values = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(value) for value in kept))
        error = library.emulator_launch_users(name.encode(), blocks, threads, shared, values)
        assert not error, f"{name}: {error.decode()}"

    def _do(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Now, or when the graph runs that is being recorded."""
        if self._recording is None:
            call(*arguments)
        else:
            self._recording.append((call, arguments))

    def allocate(self, nbytes: int) -> int | None:
        if self.used + nbytes > self.total_memory:
            return None
        memory = (ctypes.c_ubyte * (nbytes + 3 * GUARD))()
        start = -(-ctypes.addressof(memory) // GUARD) * GUARD + GUARD
        ctypes.memset(start - GUARD, FILLING, GUARD)
        ctypes.memset(start, FRESH, nbytes)
        ctypes.memset(start + nbytes, FILLING, GUARD)
        _poison(start, nbytes, True)
        self.blocks[start] = nbytes, memory
        self.used += nbytes
        return start

    def free(self, address: int) -> None:
        nbytes, _ = self.blocks.pop(address)
        self.used -= nbytes
        _check(address, nbytes)
        _poison(address, nbytes, False)

    def check(self) -> None:
        """AssertionError where a kernel has written outside a block of memory."""
        for address, (nbytes, _) in self.blocks.copy().items():
            _check(address, nbytes)

    def _inside(self, address: int, nbytes: int) -> int:
        blocks = self.blocks.copy().items()  # a garbage collection may free some meanwhile
        assert any(at <= address and address + nbytes <= at + size for at, (size, _) in blocks)
        return address

    def write(self, address: int, source: int, nbytes: int) -> None:
        assert self._recording is None, "a graph does not copy from the host"
        ctypes.memmove(self._inside(address, nbytes), source, nbytes)

    def read(self, target: int, address: int, nbytes: int) -> None:
        ctypes.memmove(target, self._inside(address, nbytes), nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self._do(ctypes.memmove, self._inside(to, nbytes), self._inside(source, nbytes), nbytes)

    def clear(self, address: int, nbytes: int) -> None:
        self._do(ctypes.memset, address, 0, nbytes)

    def shared_word(self) -> tuple[int, Any]:
        address = self.allocate(64)
        assert address is not None
        ctypes.memset(address, 0, 64)
        return address, ctypes.c_int32.from_address(address)

    def synchronize(self) -> None:
        pass

    def wait_for_stream(self, stream: Any) -> None:
        pass

    def new_stream(self, priority: int) -> Any:
        return next(_numbers)

    def free_memory(self) -> int:
        return self.total_memory - self.used

    def begin_capture(self) -> None:
        self._recording = []

    def end_capture(self) -> Any:
        recorded, self._recording = self._recording, None
        return recorded

    def run_graph(self, graph: Any) -> None:
        for call, arguments in graph:
            call(*arguments)


_USERS = re.compile(r"__global__\s+void\s+(\w+)\s*\(([^)]*)\)\s*\{")


def of_users(text: str) -> str:
    """A user's source as C++: with the emulator, a function that launches its kernels by name, and one that tells how
    many arguments they have."""
    runs, counts = "", ""
    for name, arguments in _USERS.findall(text):
        parts = [part.strip() for part in arguments.split(",") if part.strip()]
        types = [re.sub(r"\b(const|__restrict__)\b|\w+$", "", part) for part in parts]
        values = ", ".join(f"*({kind} *)emulator::values[{i}]" for i, kind in enumerate(types))
        chosen = f'if (!strcmp(name, "{name}")) return '
        runs += f"{chosen}emulator::run(blocks, threads, shared, [] {{ {name}({values}); }});\n"
        counts += f"{chosen}{len(parts)};\n"
    return f"""#include "emulator.h"
{text}
namespace emulator {{ static void **values; }}
#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED const char *emulator_launch_users(const char *name, int blocks, int threads, int shared, void **values)
{{
    emulator::values = values;
    {runs}return "there is no such kernel";
}}
EXPORTED int emulator_arguments(const char *name)
{{
    {counts}return 0;
}}
"""


def _poison(address: int, nbytes: int, forbidden: bool) -> None:
    """AddressSanitizer ends the process where something reads the bytes beside a block of memory, or no longer does."""
    if "address" in SANITIZE:
        act = getattr(ctypes.CDLL(None), f"__asan_{'' if forbidden else 'un'}poison_memory_region")
        for at in (address - GUARD, address + nbytes):
            act(ctypes.c_void_p(at), ctypes.c_size_t(GUARD))


def _check(address: int, nbytes: int) -> None:
    if "address" in SANITIZE:  # which sees it at once
        return
    for at, where in ((address - GUARD, "before"), (address + nbytes, "behind")):
        found = ctypes.string_at(at, GUARD)
        assert found == bytes([FILLING]) * GUARD, f"a kernel has written {where} a block of {nbytes} bytes"


def every_source() -> list[str]:
    """The names of the CUDA sources that have kernels."""
    return sorted({step.source for step in sources.all_steps()})


def open_emulated(index: int | None) -> Cuda:
    """The device over an emulated card, with every source compiled; or the first card of the machine."""
    if REAL:
        card = nvidia.open_card(0)
        card.slab = 0  # each block by itself: compute-sanitizer sees what lies outside
        return Cuda(card)
    if shutil.which(COMPILER) is None:
        pytest.skip(f"the emulator needs a C++ compiler ({COMPILER})")
    os.environ["PYAPP_CUDA_CACHE"] = str(CACHE)
    backend = Cuda(EmulatedCard())
    if SANITIZE:  # few are needed
        return backend
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: cards.compiled(backend.card, name), every_source()))
    return backend


register("emulated", open_emulated)


def check() -> None:
    """AssertionError where a kernel has written outside a block of the emulated card's memory."""
    if not REAL:
        backend: Any = Device(DEVICE).backend
        backend.card.check()

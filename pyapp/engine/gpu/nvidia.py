"""NVIDIA's driver and runtime compiler, by NVIDIA's own packages for Python (`pip install 'pyapp[cuda]'`).

Reference: the CUDA Driver API and the NVRTC documentation (https://docs.nvidia.com/cuda).
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import KernelError
from . import cublas
from .card import Card
from .cublas import Piece, Products

LEAST_CAPABILITY = (7, 5)
LEAST_OVERLAP = (9, 0)
LEAST_DRIVER = 13000  # the version of CUDA that a driver has: 1000 * major + 10 * minor
BLOCKS_EACH = 32  # of a multiprocessor: more than it holds at once
SLAB = 1 << 20
PIECE = 4 << 20  # bytes of host memory that a copy passes through at a time
STAGED = 1 << 20  # bytes of the smallest copy that does
PLENTY_SHARED = 48 << 10  # bytes of dynamic shared memory that a kernel has to ask for
_ASKING = "asking whether cards reach each other"
_INSTALL = "Install NVIDIA's packages with pip install 'pyapp[cuda]'"
# What is wrong with a kernel that has run, or with the card; every later call answers the same.
_LOST = dict.fromkeys(
    ("ILLEGAL_ADDRESS", "LAUNCH_FAILED", "MISALIGNED_ADDRESS", "ILLEGAL_INSTRUCTION", "INVALID_ADDRESS_SPACE",
     "INVALID_PC", "HARDWARE_STACK_ERROR", "ASSERT"),
    "A kernel went beyond its memory: the card is lost for this process, which must be started anew; with "
    "CUDA_LAUNCH_BLOCKING=1 in the environment the error names the kernel",
) | dict.fromkeys(
    ("ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "EXTERNAL_DEVICE", "CONTAINED", "SYSTEM_NOT_READY", "UNKNOWN",
     "DEVICE_UNAVAILABLE"),
    "The card or its link failed, or another process holds it: nvidia-smi and the system's log (lines with Xid) say "
    "more; this process must be started anew",
) | dict.fromkeys(
    ("LAUNCH_TIMEOUT",),
    "The card shows a screen, and the driver ends kernels there that take seconds: this process must be started anew, "
    "with smaller batches or a card without a screen",
)  # fmt: skip
# Of loading kernels: the driver knows less than the compiler.
_TOO_NEW = ("INVALID_IMAGE", "NO_BINARY_FOR_GPU", "UNSUPPORTED_PTX_VERSION", "INVALID_SOURCE")
_pids: list[int] = []  # of the process that has opened the driver


def find_driver() -> None:
    """KernelError where the machine has no driver of NVIDIA's."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        hint = "Install NVIDIA's driver on a machine with a card of theirs, or use device 'cpu'"
        raise KernelError("there is no CUDA driver on this machine", where="libcuda.so.1", hint=hint) from error


def _driver() -> Any:
    """cuda.bindings.driver. KernelError where a part is missing; the driver's library is looked for first, because
    the bindings may hang without it."""
    find_driver()
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise KernelError("NVIDIA's bindings for Python are not installed", where="cuda", hint=_INSTALL) from error


def is_installed() -> bool:
    """Whether NVIDIA's packages for Python are there."""
    return importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None


def _compiler() -> Any:
    try:
        found = importlib.import_module("cuda.bindings.nvrtc")
        found.nvrtcVersion()  # which opens the library
        return found
    except (ImportError, RuntimeError) as error:
        raise KernelError("NVIDIA's runtime compiler is not installed", where="cuda", hint=_INSTALL) from error


def _is(driver: Any, status: Any, name: str) -> bool:
    """Whether a call answered CUDA_ERROR_`name`, which older bindings may not know."""
    return bool(status == getattr(driver.CUresult, f"CUDA_ERROR_{name}", None))


def _checked(driver: Any, result: tuple[Any, ...], what: str, advice: str | None = None) -> Any:
    """The values of a call of the driver. KernelError with the driver's own words, and `advice`, where it failed."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        _, text = driver.cuGetErrorString(status)
        if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise MemoryError(f"{what}: the card has no memory left; use a smaller model, batch or context")
        hints = (hint for name, hint in _LOST.items() if _is(driver, status, name))
        raise KernelError(
            f"{what}: {text.decode() if text else status}", where="cuda", hint=advice or next(hints, None)
        )
    return values[0] if len(values) == 1 else values


def _opened() -> Any:
    """The driver, initialised. A process that was forked after that cannot use it."""
    driver = _driver()
    if _pids and _pids[0] != os.getpid():
        hint = "Start worker processes with the method 'spawn', or use the card in one process only"
        raise KernelError("CUDA was used before this process was forked", where="cuda", hint=hint)
    if not _pids:
        found = int(_checked(driver, driver.cuDriverGetVersion(), "asking the driver for its version"))
        if found < LEAST_DRIVER:
            least, own = (f"{version // 1000}.{version % 1000 // 10}" for version in (LEAST_DRIVER, found))
            raise KernelError(
                f"the driver is too old: it is for CUDA {own}, and {least} is needed", where="libcuda.so.1",
                hint="Install a newer driver of NVIDIA's, or use device 'cpu'",
            )  # fmt: skip
        advice = "nvidia-smi lists the cards that the driver sees; CUDA_VISIBLE_DEVICES hides those it does not name"
        _checked(driver, driver.cuInit(0), "the CUDA driver does not start", advice)
        _pids.append(os.getpid())
    return driver


def count() -> int:
    """How many cards there are; 0 without a driver."""
    try:
        driver = _opened()
        return int(_checked(driver, driver.cuDeviceGetCount(), "counting cards"))
    except KernelError:
        return 0


def _check_known(nvrtc: Any, architecture: str, name: str) -> None:
    """KernelError where the compiler is older than the card, or no longer knows it."""
    _, known = nvrtc.nvrtcGetSupportedArchs()
    if int("".join(filter(str.isdigit, architecture))) not in known:
        _, major, minor = nvrtc.nvrtcVersion()
        raise KernelError(
            f"NVIDIA's runtime compiler {major}.{minor} has no {architecture}, only "
            f"{', '.join(f'sm_{number}' for number in known)}", where=f"{name}.cu",
            hint="Install packages of NVIDIA's that know the card: pip install --upgrade 'pyapp[cuda]'",
        )  # fmt: skip


def compile_source(name: str, text: str, headers: dict[str, str], architecture: str) -> tuple[bytes, str]:
    """A cubin of a source for "sm_80" and the like, and the assembler's report of registers. Needs no card. KernelError
    with the log where it does not compile."""
    nvrtc = _compiler()
    done = nvrtc.nvrtcResult.NVRTC_SUCCESS
    _check_known(nvrtc, architecture, name)
    included = headers | {"stdint.h": _STDINT}
    status, program = nvrtc.nvrtcCreateProgram(
        text.encode(), f"{name}.cu".encode(), len(included),
        [header.encode() for header in included.values()], [header.encode() for header in included],
    )  # fmt: skip
    if status != done:
        raise KernelError(f"the runtime compiler does not start: {status}", where=f"{name}.cu")
    try:
        options = [
            f"--gpu-architecture={architecture}",
            "--std=c++17",
            "--device-as-default-execution-space",
            "--ptxas-options=-v",
        ]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytearray(size)
        written = bytes(size)
        nvrtc.nvrtcGetProgramLog(program, written)
        log[:] = written
        report = bytes(log).rstrip(b"\0").decode(errors="replace")
        if status != done:
            raise KernelError(
                f"does not compile for {architecture}:\n{report}", where=f"{name}.cu",
                hint="Correct the source; if it is one of pyapp's own, report this",
            )  # fmt: skip
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        image = bytes(size)
        nvrtc.nvrtcGetCUBIN(program, image)
        return image, report
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compiler_version() -> str:
    _, major, minor = _compiler().nvrtcVersion()
    return f"nvrtc {major}.{minor}"


# NVRTC has no headers of C.
_STDINT = """
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intptr_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
"""


class _Present(threading.local):
    """The card that a thread has chosen last, and its process."""

    card: Card | None = None
    pid = 0


_present = _Present()


def overlapped_launch(driver: Any, blocks: int, threads: int, shared: int, stream: Any) -> Any:
    """How a kernel is launched that waits itself for those in front of it: CUDA C++ Programming Guide, "Programmatic
    Dependent Launch and Synchronization". What is captured becomes a programmatic edge of the graph."""
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes, config.hStream = shared, stream
    config.attrs, config.numAttrs = [attribute], 1
    return config


class NvidiaCard(Card):
    """One card."""

    slab = SLAB

    def __init__(self, driver: Any, index: int) -> None:
        self._driver = driver
        self._device = self._call("opening the card", "cuDeviceGet", index)
        attribute = driver.CUdevice_attribute
        of = {
            name: int(self._call("asking the card", "cuDeviceGetAttribute", getattr(attribute, code), self._device))
            for name, code in (
                ("major", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"),
                ("minor", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"),
                ("multiprocessors", "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
                ("shared", "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            )
        }
        self.name = self._call("asking the card", "cuDeviceGetName", 128, self._device).split(b"\0")[0].decode()
        self.capability = of["major"], of["minor"]
        # Products by warpgroups (native/cuda/warpgroups.h) are of this architecture alone.
        alone = "a" if self.capability == (9, 0) else ""
        self.architecture = f"sm_{of['major']}{of['minor']}{alone}"
        if self.capability < LEAST_CAPABILITY:
            least = ".".join(map(str, LEAST_CAPABILITY))
            raise KernelError(
                f"{self.name} has compute capability {of['major']}.{of['minor']}; the kernels need {least}",
                where=f"cuda:{index}", hint="Use a newer card, or device 'cpu'",
            )  # fmt: skip
        self.multiprocessors = of["multiprocessors"]
        self.most_shared = of["shared"]
        self.most_blocks = self.multiprocessors * BLOCKS_EACH
        self.pairs = bool(alone) and os.environ.get("PYAPP_CUDA_PAIRS") == "1"
        self.overlap = self.can_overlap and os.environ.get("PYAPP_CUDA_OVERLAP") == "1"
        self.compiler = compiler_version()
        self.total_memory = int(self._call("asking the card", "cuDeviceTotalMem", self._device))
        self._context = self._call("opening the card", "cuDevicePrimaryCtxRetain", self._device)
        self.enter()
        self.stream = self.new_stream(0)
        self._staging: list[tuple[int, Any]] = []  # two halves of pinned memory, with their events
        self._meetings: dict[Card, tuple[Any, Any] | None] = {}  # events: of another card, and of this one
        self._shared: dict[int, int] = {}  # dynamic shared memory that a function, by its handle, was granted

    @property
    def can_overlap(self) -> bool:
        """Whether the card has programmatic dependent launch."""
        return self.capability >= LEAST_OVERLAP

    def _call(self, what: str, name: str, *arguments: Any) -> Any:
        return _checked(self._driver, getattr(self._driver, name)(*arguments), what)

    def enter(self) -> None:
        """As Card.enter."""
        if _present.card is not self or _present.pid != os.getpid():
            _opened()
            self._call("choosing the card", "cuCtxSetCurrent", self._context)
            _present.card, _present.pid = self, os.getpid()

    def compile(self, source: str, text: str, headers: dict[str, str]) -> bytes:
        return compile_source(source, text, headers, self.architecture)[0]

    def load(self, image: bytes) -> Any:
        self.enter()
        result = self._driver.cuModuleLoadData(image)
        advice = None
        if any(_is(self._driver, result[0], name) for name in _TOO_NEW):
            found = int(self._call("asking the driver for its version", "cuDriverGetVersion"))
            advice = (
                f"The driver is for CUDA {found // 1000}.{found % 1000 // 10}, and the kernels were compiled by "
                f"{self.compiler}: install a newer driver, or packages of NVIDIA's that are not newer than it"
            )
        return _checked(self._driver, result, "loading kernels", advice)

    def function(self, module: Any, name: str) -> Any:
        return self._call(f"finding the kernel {name}", "cuModuleGetFunction", module, name.encode())

    def launch(
        self, function: Any, blocks: int, threads: int, shared: int, arguments: Any, overlaps: bool = False
    ) -> None:
        self.enter()
        if shared > PLENTY_SHARED and self._shared.get(int(function), 0) < shared:
            code = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("asking for shared memory", "cuFuncSetAttribute", function, code, shared)
            self._shared[int(function)] = shared
        if overlaps:
            start = overlapped_launch(self._driver, blocks, threads, shared, self.stream)
            self._call("launching a kernel", "cuLaunchKernelEx", start, function, ctypes.addressof(arguments), 0)
            return
        self._call(
            "launching a kernel", "cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared, self.stream,
            ctypes.addressof(arguments), 0,
        )  # fmt: skip

    def allocate(self, nbytes: int) -> int | None:
        self.enter()
        status, address = self._driver.cuMemAlloc(nbytes)
        if status == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            return None
        return int(_checked(self._driver, (status, address), f"allocating {nbytes:,} bytes"))

    def free(self, address: int) -> None:
        self.enter()
        self._call("freeing memory", "cuMemFree", address)

    def write(self, address: int, source: int, nbytes: int) -> None:
        """In pieces through two halves of memory that the card reads by itself: the one is filled while the other is
        copied. Less goes directly: the driver has copied it from pageable memory when the call returns."""
        self.enter()
        if nbytes < STAGED:
            self._call("copying to the card", "cuMemcpyHtoDAsync", address, source, nbytes, self.stream)
            return
        for at, place, done in self._pieces(nbytes):
            size = min(PIECE, nbytes - at)
            self._call("copying to the card", "cuEventSynchronize", done)
            ctypes.memmove(place, source + at, size)
            self._call("copying to the card", "cuMemcpyHtoDAsync", address + at, place, size, self.stream)
            self._call("copying to the card", "cuEventRecord", done, self.stream)

    def read(self, target: int, address: int, nbytes: int) -> None:
        self.enter()
        if nbytes < STAGED:
            self._call("copying from the card", "cuMemcpyDtoHAsync", target, address, nbytes, self.stream)
            self._call("copying from the card", "cuStreamSynchronize", self.stream)
            return
        waiting: list[tuple[int, int, Any]] = []
        for at, place, done in self._pieces(nbytes):
            if len(waiting) == 2:
                self._take(target, *waiting.pop(0), nbytes)
            self._call("copying from the card", "cuEventSynchronize", done)
            self._call(
                "copying from the card", "cuMemcpyDtoHAsync", place, address + at, min(PIECE, nbytes - at), self.stream
            )
            self._call("copying from the card", "cuEventRecord", done, self.stream)
            waiting.append((at, place, done))
        for piece in waiting:
            self._take(target, *piece, nbytes)

    def _take(self, target: int, at: int, place: int, done: Any, nbytes: int) -> None:
        self._call("copying from the card", "cuEventSynchronize", done)
        ctypes.memmove(target + at, place, min(PIECE, nbytes - at))

    def _pieces(self, nbytes: int) -> Iterator[tuple[int, int, Any]]:
        """Where each piece begins, the half of the staging memory that it passes through, and that half's event."""
        if not self._staging:
            memory = int(self._call("allocating host memory", "cuMemHostAlloc", 2 * PIECE, 1))  # of every context
            self._staging = [(memory + half * PIECE, self.new_event(False)) for half in range(2)]
        for number, at in enumerate(range(0, nbytes, PIECE)):
            yield at, *self._staging[number % 2]

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self.enter()
        self._call("copying", "cuMemcpyDtoDAsync", to, source, nbytes, self.stream)

    def copy_across(self, to: int, other: Card, source: int, nbytes: int) -> bool:
        if not isinstance(other, NvidiaCard):
            return False
        if other not in self._meetings:
            self._meetings[other] = (other.new_event(False), self.new_event(False)) if self._reaches(other) else None
        met = self._meetings[other]
        if met is None:
            return False
        written, read = met
        other.record_event(written, other.stream)
        self.hold_stream(self.stream, written)
        self._call(
            "copying between cards", "cuMemcpyPeerAsync", to, self._context, source, other._context, nbytes, self.stream
        )
        self.record_event(read, self.stream)
        other.hold_stream(other.stream, read)
        return True

    def can_reach(self, other: Card) -> bool:
        if other is self or not isinstance(other, NvidiaCard):
            return False
        self.enter()
        return bool(int(self._call(_ASKING, "cuDeviceCanAccessPeer", self._device, other._device)))

    def _reaches(self, other: NvidiaCard) -> bool:
        """Whether this card may read the other's memory, which it is allowed to from here on."""
        if not self.can_reach(other):
            return False
        self.enter()
        (status,) = self._driver.cuCtxEnablePeerAccess(other._context, 0)
        codes = self._driver.CUresult
        if status in (codes.CUDA_ERROR_TOO_MANY_PEERS, codes.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED):
            return False
        if status != codes.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:  # by another library
            _checked(self._driver, (status, None), _ASKING)
        return True

    def clear(self, address: int, nbytes: int) -> None:
        self.enter()
        self._call("clearing memory", "cuMemsetD8Async", address, 0, nbytes, self.stream)

    def shared_word(self) -> tuple[int, Any]:
        self.enter()
        seen = int(self._call("allocating host memory", "cuMemHostAlloc", 64, 2))  # CU_MEMHOSTALLOC_DEVICEMAP
        ctypes.memset(seen, 0, 64)
        address = int(self._call("mapping host memory", "cuMemHostGetDevicePointer", seen, 0))
        return address, ctypes.c_int32.from_address(seen)

    def synchronize(self) -> None:
        self.enter()
        self._call("waiting for the card", "cuCtxSynchronize")

    def new_stream(self, priority: int) -> Any:
        self.enter()
        # 1: not blocked by the driver's default stream
        return self._call("making a stream", "cuStreamCreateWithPriority", 1, priority)

    def end_stream(self, stream: Any) -> None:
        self.enter()
        self._call("ending a stream", "cuStreamDestroy", stream)

    def wait_for_stream(self, stream: Any) -> None:
        self.enter()
        self._call("waiting for a stream", "cuStreamSynchronize", stream)

    def stream_is_done(self, stream: Any) -> bool:
        self.enter()
        return self._is_done("asking a stream", self._driver.cuStreamQuery(stream))

    def new_event(self, timing: bool) -> Any:
        self.enter()
        return self._call("making an event", "cuEventCreate", 0 if timing else 2)  # CU_EVENT_DISABLE_TIMING

    def end_event(self, event: Any) -> None:
        self.enter()
        self._call("ending an event", "cuEventDestroy", event)

    def record_event(self, event: Any, stream: Any) -> None:
        self.enter()
        self._call("recording an event", "cuEventRecord", event, stream)

    def hold_stream(self, stream: Any, event: Any) -> None:
        self.enter()
        self._call("waiting for an event", "cuStreamWaitEvent", stream, event, 0)

    def wait_for_event(self, event: Any) -> None:
        self.enter()
        self._call("waiting for an event", "cuEventSynchronize", event)

    def event_is_done(self, event: Any) -> bool:
        self.enter()
        return self._is_done("asking an event", self._driver.cuEventQuery(event))

    def _is_done(self, what: str, result: tuple[Any, ...]) -> bool:
        if result[0] == self._driver.CUresult.CUDA_ERROR_NOT_READY:
            return False
        _checked(self._driver, result, what)
        return True

    def milliseconds(self, start: Any, end: Any) -> float:
        self.enter()
        return float(self._call("reading events", "cuEventElapsedTime", start, end))

    def free_memory(self) -> int:
        self.enter()
        return int(self._call("asking for free memory", "cuMemGetInfo")[0])

    def products(self) -> Products | None:
        self.enter()
        library = cublas.load()
        return None if library is None else Products(library)

    def start_product(
        self, products: Products, piece: Piece, kernel: str, pointers: Sequence[int], workspace: int
    ) -> None:
        self.enter()
        products.run(piece, kernel, pointers, workspace, int(self.stream))

    def begin_capture(self) -> None:
        self.enter()
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("beginning a graph", "cuStreamBeginCapture", self.stream, mode)

    def end_capture(self) -> Any:
        graph = self._call("ending a graph", "cuStreamEndCapture", self.stream)
        try:
            return _Graph(self._driver, self._call("preparing a graph", "cuGraphInstantiate", graph, 0))
        finally:
            self._call("freeing a graph", "cuGraphDestroy", graph)

    def run_graph(self, graph: Any) -> None:
        self.enter()
        self._call("running a graph", "cuGraphLaunch", graph.executable, self.stream)


class _Graph:
    """An executable graph, which ends with this object."""

    __slots__ = ("_driver", "executable")

    def __init__(self, driver: Any, executable: Any) -> None:
        self._driver, self.executable = driver, executable

    def __del__(self) -> None:
        if _pids == [os.getpid()]:  # a process that was forked has no part of it
            self._driver.cuGraphExecDestroy(self.executable)


def open_card(index: int) -> Card:
    """The card with this number. KernelError where the driver, the packages or the card are missing."""
    driver = _opened()
    there = int(_checked(driver, driver.cuDeviceGetCount(), "counting cards"))
    if not 0 <= index < there:
        raise KernelError(
            f"there is no card number {index}; this machine has {there}", where=f"cuda:{index}",
            hint="CUDA_VISIBLE_DEVICES chooses the cards that a process sees",
        )  # fmt: skip
    return NvidiaCard(driver, index)

"""A double of NVIDIA's driver for tests: the functions of cuda.bindings.driver that pyapp calls, over emulated cards.
It notices what the driver would refuse: unknown handles, a thread without a context, a forked process, memory of
another card.

Reference: the CUDA Driver API (https://docs.nvidia.com/cuda/cuda-driver-api).
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from pyapp.engine.gpu import nvidia

from . import emulated

CODES = {
    "CUDA_SUCCESS": 0, "CUDA_ERROR_INVALID_VALUE": 1, "CUDA_ERROR_OUT_OF_MEMORY": 2, "CUDA_ERROR_NOT_INITIALIZED": 3,
    "CUDA_ERROR_NO_DEVICE": 100, "CUDA_ERROR_INVALID_CONTEXT": 201, "CUDA_ERROR_NOT_READY": 600,
    "CUDA_ERROR_ILLEGAL_ADDRESS": 700, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": 704,
    "CUDA_ERROR_TOO_MANY_PEERS": 711, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED": 217, "CUDA_ERROR_LAUNCH_FAILED": 719,
    "CUDA_ERROR_HARDWARE_STACK_ERROR": 714, "CUDA_ERROR_ILLEGAL_INSTRUCTION": 715,
    "CUDA_ERROR_ECC_UNCORRECTABLE": 214, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": 222, "CUDA_ERROR_LAUNCH_TIMEOUT": 702,
    "CUDA_ERROR_MISALIGNED_ADDRESS": 716, "CUDA_ERROR_INVALID_ADDRESS_SPACE": 717, "CUDA_ERROR_INVALID_PC": 718,
}  # fmt: skip


class Driver:
    """The driver of a machine with `cards` cards of these capabilities and bytes of memory. `busy`: how often a query
    of an event or stream answers that it is not ready."""

    def __init__(self, cards: int = 1, capability: tuple[int, int] = (9, 0), memory: int = 1 << 28) -> None:
        self.CUresult = SimpleNamespace(**CODES)
        self.CUdevice_attribute = SimpleNamespace(
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=capability[0],
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=capability[1],
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=4,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=232448,
        )
        self.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
        self.CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
        self.cards = [emulated.EmulatedCard(memory) for _ in range(cards)]
        self.version, self.start_code = 13000, 0
        self.busy = 0
        self.module_code = 0  # what loading kernels answers
        self.launch_codes: list[int] = []  # what the next launches answer, before any runs
        self.instantiate_codes: list[int] = []  # what preparing the next graphs answers
        self.capturing = False
        self.reached, self.peer_code = True, 0  # whether cards reach each other; what permitting it answers
        self.copied: list[tuple[int, int]] = []  # (bytes, stream) of copies between cards
        self.permitted: set[tuple[int, int]] = set()  # (context, context of a card that it may read)
        self.waits: list[tuple[int, int]] = []  # (stream, event) of cuStreamWaitEvent
        self.launches: list[tuple[int, str]] = []  # (stream, kernel)
        self.overlapped: list[str] = []  # kernels of cuLaunchKernelEx
        self.CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6)
        self.CUlaunchAttribute = lambda: SimpleNamespace(value=SimpleNamespace())
        self.CUlaunchConfig = SimpleNamespace
        self.pinned: dict[int, Any] = {}
        self.streams: set[int] = set()
        self.events: dict[int, float | None] = {}  # when it was recorded
        self._numbers = itertools.count(1)
        self._current = threading.local()
        self._pid = os.getpid()
        self._functions: dict[int, Any] = {}
        self._granted: dict[int, int] = {}

    @property
    def card(self) -> emulated.EmulatedCard:
        assert os.getpid() == self._pid, "the driver was used in a process that was forked"
        return self.cards[self._current.index]

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, self.version

    def cuInit(self, flags: int) -> tuple[int]:
        return (self.start_code,)

    def cuGetErrorString(self, code: int) -> tuple[int, bytes]:
        return 0, next(name for name, value in CODES.items() if value == code).encode()

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return 0, len(self.cards)

    def cuDeviceGet(self, index: int) -> tuple[int, int]:
        return (0, index) if 0 <= index < len(self.cards) else (CODES["CUDA_ERROR_INVALID_VALUE"], -1)

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> tuple[int, int]:
        return 0, attribute

    def cuDeviceGetName(self, size: int, device: int) -> tuple[int, bytes]:
        return 0, f"double {device}".encode().ljust(size, b"\0")

    def cuDeviceTotalMem(self, device: int) -> tuple[int, int]:
        return 0, self.cards[device].total_memory

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:
        return 0, 100 + device

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:
        self._current.index = context - 100
        return (0,)

    def cuCtxSynchronize(self) -> tuple[int]:
        self.card.synchronize()
        return (0,)

    # ---- streams and events: everything runs at once

    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[int, int]:
        assert flags == 1, "a stream that waits for the driver's default stream"
        number = next(self._numbers)
        self.streams.add(number)
        return 0, number

    def cuStreamDestroy(self, stream: int) -> tuple[int]:
        self.streams.remove(stream)
        return (0,)

    def cuStreamSynchronize(self, stream: int) -> tuple[int]:
        assert stream in self.streams
        return (0,)

    def _ready(self) -> tuple[int]:
        self.busy -= self.busy > 0
        return (CODES["CUDA_ERROR_NOT_READY"] if self.busy else 0,)

    def cuStreamQuery(self, stream: int) -> tuple[int]:
        assert stream in self.streams
        return self._ready()

    def cuEventCreate(self, flags: int) -> tuple[int, int]:
        number = next(self._numbers)
        self.events[number] = None
        return 0, number

    def cuEventDestroy(self, event: int) -> tuple[int]:
        del self.events[event]
        return (0,)

    def cuEventRecord(self, event: int, stream: int) -> tuple[int]:
        assert stream in self.streams and event in self.events
        self.events[event] = time.perf_counter()
        return (0,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[int]:
        assert stream in self.streams and event in self.events
        self.waits.append((stream, event))
        return (0,)

    def cuEventSynchronize(self, event: int) -> tuple[int]:
        assert event in self.events
        return (0,)

    def cuEventQuery(self, event: int) -> tuple[int]:
        assert event in self.events
        return self._ready()

    def cuEventElapsedTime(self, start: int, end: int) -> tuple[int, float]:
        times = [self.events[event] for event in (start, end)]
        assert times[0] is not None and times[1] is not None
        return 0, 1000 * (times[1] - times[0])

    # ---- memory

    def cuMemAlloc(self, nbytes: int) -> tuple[int, int]:
        address = self.card.allocate(nbytes)
        return (CODES["CUDA_ERROR_OUT_OF_MEMORY"], 0) if address is None else (0, address)

    def cuMemFree(self, address: int) -> tuple[int]:
        self.card.free(address)
        return (0,)

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> tuple[int, int]:
        memory = (ctypes.c_ubyte * nbytes)()
        self.pinned[ctypes.addressof(memory)] = memory
        return 0, ctypes.addressof(memory)

    def cuMemFreeHost(self, address: int) -> tuple[int]:
        del self.pinned[address]
        return (0,)

    def cuMemHostGetDevicePointer(self, address: int, flags: int) -> tuple[int, int]:
        return 0, address

    def cuMemGetInfo(self) -> tuple[int, int, int]:
        return 0, self.card.free_memory(), self.card.total_memory

    def cuMemcpyHtoDAsync(self, to: int, source: int, nbytes: int, stream: int) -> tuple[int]:
        assert stream in self.streams
        self.card.write(to, source, nbytes)
        return (0,)

    def cuMemcpyDtoHAsync(self, to: int, source: int, nbytes: int, stream: int) -> tuple[int]:
        assert stream in self.streams
        self.card.read(to, source, nbytes)
        return (0,)

    def cuMemcpyDtoDAsync(self, to: int, source: int, nbytes: int, stream: int) -> tuple[int]:
        assert stream in self.streams
        self.card.copy(to, source, nbytes)
        return (0,)

    def cuDeviceCanAccessPeer(self, device: int, peer: int) -> tuple[int, int]:
        assert device != peer
        return 0, int(self.reached)

    def cuCtxEnablePeerAccess(self, context: int, flags: int) -> tuple[int]:
        own = 100 + self._current.index
        assert flags == 0 and own != context and (own, context) not in self.permitted
        self.permitted.add((own, context))
        return (self.peer_code,)

    def cuMemcpyPeerAsync(self, *arguments: int) -> tuple[int]:
        to, to_context, source, source_context, nbytes, stream = arguments
        assert stream in self.streams and (to_context, source_context) in self.permitted
        cards = [self.cards[context - 100] for context in (to_context, source_context)]
        ctypes.memmove(cards[0]._inside(to, nbytes), cards[1]._inside(source, nbytes), nbytes)
        self.copied.append((nbytes, stream))
        return (0,)

    def cuMemsetD8Async(self, to: int, value: int, nbytes: int, stream: int) -> tuple[int]:
        assert stream in self.streams and value == 0
        self.card.clear(to, nbytes)
        return (0,)

    # ---- kernels

    def cuModuleLoadData(self, image: bytes) -> tuple[int, Any]:
        assert not self.capturing, "kernels are loaded while a graph is captured"
        return (self.module_code, None) if self.module_code else (0, self.card.load(image))

    def cuModuleGetFunction(self, module: Any, name: bytes) -> tuple[int, int]:
        number = next(self._numbers)
        self._functions[number] = self.card.function(module, name.decode())
        return 0, number

    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> tuple[int]:
        assert attribute == 8
        self._granted[function] = value
        return (0,)

    def cuLaunchKernel(self, *arguments: Any) -> tuple[int]:
        function, blocks, _, _, threads, _, _, shared, stream, values, extra = arguments
        if self.launch_codes and (code := self.launch_codes.pop(0)):
            return (code,)
        assert stream in self.streams and extra == 0
        assert shared <= 48 << 10 or shared <= self._granted.get(function, 0), "shared memory that was not asked for"
        library, _, name = self._functions[function]
        count = library.emulator_arguments(name.encode()) if hasattr(library, "emulator_arguments") else 3
        pointers = (ctypes.c_void_p * count).from_address(values)
        self.launches.append((stream, name))
        self.card.launch(self._functions[function], blocks, threads, shared, pointers)
        return (0,)

    def cuLaunchKernelEx(self, config: Any, function: int, values: int, extra: int) -> tuple[int]:
        (attribute,) = config.attrs
        assert config.numAttrs == 1 and attribute.id == 6 and attribute.value.programmaticStreamSerializationAllowed
        sizes = [getattr(config, f"{of}Dim{axis}") for of in ("grid", "block") for axis in "XYZ"]
        self.overlapped.append(self._functions[function][2])
        return self.cuLaunchKernel(function, *sizes, config.sharedMemBytes, config.hStream, values, extra)

    def cuStreamBeginCapture(self, stream: int, mode: int) -> tuple[int]:
        assert stream in self.streams
        self.capturing = True
        self.card.begin_capture()
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> tuple[int, Any]:
        self.capturing = False
        return 0, self.card.end_capture()

    def cuGraphInstantiate(self, graph: Any, flags: int) -> tuple[int, Any]:
        code = self.instantiate_codes.pop(0) if self.instantiate_codes else 0
        return code, None if code else list(graph)

    def cuGraphDestroy(self, graph: Any) -> tuple[int]:
        return (0,)

    def cuGraphExecDestroy(self, graph: Any) -> tuple[int]:
        graph.clear()
        return (0,)

    def cuGraphLaunch(self, graph: Any, stream: int) -> tuple[int]:
        assert stream in self.streams
        self.card.run_graph(graph)
        return (0,)


def install(patch: pytest.MonkeyPatch, driver: Driver) -> Driver:
    """Puts the double where NVIDIA's packages are looked for; the emulator compiles."""
    emulated.open_emulated(None)  # compiles the kernels
    patch.setattr(nvidia, "find_driver", lambda: None)
    patch.setattr(nvidia, "_driver", lambda: driver)
    patch.setattr(nvidia, "_pids", [])
    patch.setattr(nvidia, "_present", nvidia._Present())
    patch.setattr(nvidia, "compiler_version", lambda: driver.cards[0].compiler)
    patch.setattr(nvidia.NvidiaCard, "compile", lambda self, *arguments: driver.cards[0].compile(*arguments))
    patch.setattr(nvidia.NvidiaCard, "products", lambda self: None)
    return driver

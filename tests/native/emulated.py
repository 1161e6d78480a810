"""The CUDA kernels in the emulator, behind the same interface as the host's library (kernels.py)."""

from __future__ import annotations

import ctypes
import os
import zlib
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from pyapp.engine.device import HiddenAddress
from pyapp.engine.gpu.sources import plans
from pyapp.engine.launch import MissingKernel
from tests.cuda.emulated import open_emulated
from tests.native.kernels import HEADER, Launch

SHARE = 4  # of the cases of a test, one in so many is run, unless PYAPP_EMULATED is "all"
# What CUDA's kernels do otherwise.
DIFFERENT = {
    "test_linear_with_odd_half_scales": "parts of a sum are scaled, then added: NaN where scales are infinite",
    "test_a_token_does_not_depend_on_the_others": "keys of a few tokens are summed in other parts than those of many",
    "test_a_row_is_the_same_in_any_company": "more than 8 rows of block types are summed in other parts",
    "test_four_rows_are_the_same_among_more": "the same",
    "test_windows_do_not_mix": "an infinite sample gives infinite power, not NaN",
}
# Under sanitizers (scripts/sanitize.py): the kernels of this CUDA source alone, a few cases of each that take seconds.
CHECKED = os.environ.get("PYAPP_CHECKED_SOURCE", "")
CHECKED_CASES, CHECKED_THREADS = 2, 1 << 14
SLOW = {"test_large_vocabularies", "test_frequencies"}  # run where PYAPP_EMULATED is "all"


def runs(name: str, function: str) -> bool:
    """Whether a test runs in the emulator: `name` is that of the case, `function` that of the test."""
    if function in DIFFERENT:
        return False
    if os.environ.get("PYAPP_EMULATED") == "all":
        return True
    return function not in SLOW and ("[" not in name or zlib.crc32(name.encode()) % SHARE == 0)


class EmulatedKernels:
    """The device over an emulated card. Arrays are copied there and back with each record; each piece of memory has
    guards, and lies as far off 64-byte alignment as the array."""

    mixed_error = 2.0**-16 + 2e-6  # of float32 with 16-bit weights: tensor cores take it as two parts of 8 bits
    # CUDA's own functions (CUDA Programming Guide, "Mathematical Functions"), in units in the last place
    exp_ulps, pow_ulps = 2.0, 2.0

    name = "CUDA's emulator"

    def __init__(self) -> None:
        self.device = open_emulated(None)
        self.seen: Counter[tuple[str, Any]] = Counter()  # kernels that were checked, with the type of their elements
        self.library = SimpleNamespace(pyapp_set_threads=lambda threads: None, pyapp_threads=lambda: 1)

    def run(self, kernel: str, work: int = 1000, **arguments: Any) -> int:
        """As Kernels.run. MissingKernel where CUDA does not have the kernel."""
        if kernel not in self.device.kernels:
            raise MissingKernel(f"CUDA has no kernel '{kernel}'")
        index, pointers, dims, floats = HEADER[kernel]
        if CHECKED and not self._is_checked(kernel, [int(arguments.get(name, 0)) for name in dims], arguments):
            raise MissingKernel(f"sanitizers have seen enough of '{kernel}'")
        if unknown := arguments.keys() - {*pointers, *dims, *floats}:
            raise TypeError(f"{kernel} has no argument {', '.join(unknown)}")
        spans = spans_of([value for value in arguments.values() if isinstance(value, np.ndarray) and value.size])
        places = []  # of a span: where it begins and ends here, the block there, and where it begins in the block
        packed = arguments.get("w")  # weights in blocks begin where 16 bytes do: tensors and their slices by bands do
        for start, end in spans:
            at = start % 64
            if isinstance(packed, np.ndarray) and packed.dtype == np.uint8 and start == packed.ctypes.data:
                at = at // 16 * 16
            block = self.device.allocate(at + end - start)
            assert block is not None
            self.device.write(block + at, ctypes.string_at(start, end - start))
            places.append((start, end, block, block.value + at))
        launch = Launch(index, work)
        for i, name in enumerate(pointers):
            launch.pointers[i] = self._address(arguments.get(name), places)
        for i, name in enumerate(dims):
            launch.dims[i] = int(arguments.get(name, 0))
        for i, name in enumerate(floats):
            launch.floats[i] = float(arguments.get(name, 0))
        code = self.device.run(bytearray(launch), 1) & 0xFF
        self.device.card.synchronize()
        code = code or self.device.take_status()[0]
        for start, end, block, address in places:
            back = bytearray(end - start)
            self.device.read(HiddenAddress(address), back)
            ctypes.memmove(start, bytes(back), end - start)
            self.device.free(block)  # checks the guards
        return code

    def _is_checked(self, kernel: str, dims: list[int], arguments: dict[str, Any]) -> bool:
        """Whether a case runs. Those of other sources do not: ThreadSanitizer sees one library in a process."""
        plan = plans(self.device.card.multiprocessors)[kernel]
        if plan.steps[0].source != CHECKED:
            return False
        key = kernel, arguments.get("type")
        threads = sum(step.blocks(dims) * step.threads for step in plan.steps)
        self.seen[key] += threads <= CHECKED_THREADS
        return threads <= CHECKED_THREADS and self.seen[key] <= CHECKED_CASES

    def not_checked(self) -> list[str]:
        """The kernels of the source of which no case has run."""
        seen = {kernel for kernel, _ in +self.seen}
        return [name for name, plan in plans().items() if plan.steps[0].source == CHECKED and name not in seen]

    def _address(self, value: Any, places: list[tuple[int, int, HiddenAddress, int]]) -> int:
        if value is None:
            return 0
        at = value.ctypes.data
        found = [address + at - start for start, end, _, address in places if start <= at < end]
        return found[0] if found else 64  # an empty array: memory that nobody may read


def spans_of(arrays: list[np.ndarray]) -> list[tuple[int, int]]:
    """Where the arrays lie; those that overlap are one piece of memory."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays):
        if spans and start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((start, end))
    return spans

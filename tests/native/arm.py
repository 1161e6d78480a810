"""The kernels' builds for ARM under qemu (`make test-arm`)."""

from __future__ import annotations

import os
import struct

from tests.native.kernels import ROOT
from tests.native.piped import PipedKernels, header_signature

FOLDER = ROOT / "build" / "arm"  # scripts/arm.py builds the library and the host
PROCESSORS = {"neon": "cortex-a57", "dotprod": "neoverse-n1"}
SYSTEM = "/usr/aarch64-linux-gnu"  # the C library of Debian's compiler for ARM
CHOSEN = os.environ.get("PYAPP_TEST_ARM") == "1"  # these kernels alone


class ArmKernels(PipedKernels):
    """The library on a processor with this instruction set."""

    pointer = "Q"

    def __init__(self, name: str) -> None:
        emulator = ["qemu-aarch64", "-L", SYSTEM, "-cpu", PROCESSORS[name]]
        super().__init__(name, [*emulator, str(FOLDER / "arm_host"), str(FOLDER / "libpyapp.so")])
        self.arrays = struct.unpack("<Q", self.read(8))[0]
        size = struct.unpack("<I", self.read(4))[0]
        assert self.read(size).decode() == name


def load_arm() -> list[ArmKernels]:
    """One for each instruction set. AssertionError where the library is not of this kernels.h."""
    found = [ArmKernels(name) for name in PROCESSORS]
    assert all(kernels.signature == header_signature() for kernels in found), "python -m scripts.arm builds the library"
    return found

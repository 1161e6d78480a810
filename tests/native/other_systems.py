"""The kernels' builds for ARM under qemu (`make test-arm`) and for Windows under Wine (`make test-windows`)."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence

from tests.native.kernels import ROOT
from tests.native.piped import PipedKernels, header_signature

CHOSEN = os.environ.get("PYAPP_TEST_SYSTEM")  # "arm" or "windows": these kernels alone
ARM_PROCESSORS = {"neon": "cortex-a57", "dotprod": "neoverse-n1"}
ARM_LIBRARIES = "/usr/aarch64-linux-gnu"  # the C library of Debian's compiler for ARM
WINDOWS_SETS = ("baseline", "avx2", "avx512")


class OtherSystemKernels(PipedKernels):
    """The library of another system in an emulator: `command` runs programs of that system."""

    pointer = "Q"

    def __init__(self, name: str, command: Sequence[str], program: str, environment: Mapping[str, str]) -> None:
        folder = ROOT / "build" / str(CHOSEN)  # scripts/other_systems.py builds the library and the program there
        super().__init__(name, [*command, str(folder / program), str(folder / "libpyapp.so")], environment)
        self.arrays = struct.unpack("<Q", self.read(8))[0]
        size = struct.unpack("<I", self.read(4))[0]
        self.instruction_set = self.read(size).decode()


def load_other_system() -> list[OtherSystemKernels]:
    """One for each instruction set, on Windows for those that this machine has. AssertionError where the library is not
    of this kernels.h.
    """
    if CHOSEN == "arm":
        emulators = {name: ["qemu-aarch64", "-L", ARM_LIBRARIES, "-cpu", cpu] for name, cpu in ARM_PROCESSORS.items()}
        found = [OtherSystemKernels(name, emulator, "piped_host", {}) for name, emulator in emulators.items()]
        assert [kernels.instruction_set for kernels in found] == [*ARM_PROCESSORS]
    else:
        silent = {"WINEDEBUG": "-all"}
        wishes = [{"PYAPP_INSTRUCTION_SET": name, **silent} for name in WINDOWS_SETS]
        found = [OtherSystemKernels("windows", ["wine"], "piped_host.exe", wish) for wish in wishes]
        found = list({kernels.instruction_set: kernels for kernels in found}.values())
    assert all(kernels.signature == header_signature() for kernels in found), "scripts/other_systems.py builds it"
    return found

"""The kernels' WebAssembly builds under node."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.native.kernels import ROOT
from tests.native.piped import PipedKernels, header_signature

HOST = Path(__file__).with_name("wasm_host.mjs")
LIBRARIES = {"simd128": "libpyapp_simd.wasm", "relaxed": "libpyapp_relaxed.wasm"}
# Node 20 has relaxed SIMD behind a flag, and its baseline compiler gets the dot product wrong.
FLAGS: dict[str, list[str]] = {"simd128": [], "relaxed": ["--experimental-wasm-relaxed-simd", "--no-liftoff"]}


class WasmKernels(PipedKernels):
    """One build, in a node process."""

    arrays = 8 << 20  # as in wasm_host.mjs

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name, ["node", *FLAGS[name], str(HOST), str(path)])


def load_wasm() -> list[WasmKernels]:
    """The builds that are there and up to date with kernels.h; none without node."""
    found = []
    for name, file in LIBRARIES.items():
        path = ROOT / "pyapp" / "_native" / file
        if shutil.which("node") and path.exists():
            kernels = WasmKernels(name, path)
            if kernels.signature == header_signature():
                found.append(kernels)
            else:
                kernels.process.kill()
    return found

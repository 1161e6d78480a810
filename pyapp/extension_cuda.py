"""User-defined CUDA kernels: the functions of a source, compiled by NVIDIA's runtime compiler for the card at hand.

    kernels = load("rms_norm.cu", rms_norm="y x weight | rows columns | epsilon")
    kernels.rms_norm(y, x, weight, rows, columns, 1e-5, blocks=rows, threads=256)

launches `extern "C" __global__ void rms_norm(float *y, const float *x, const float *weight, intptr_t rows,
intptr_t columns, float epsilon)`. See docs/custom_ops.md.
"""

from __future__ import annotations

import ctypes
import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .engine.device import Device
from .engine.gpu.card import compiled_text
from .engine.launch import capturing, record_call
from .engine.tensor import Tensor
from .engine.user_errors import describe
from .errors import KernelError
from .extension_arguments import Signature, c_type

MOST_BLOCKS, MOST_THREADS = (1 << 31) - 1, 1024
_KERNEL = re.compile(
    r"^(extern\s+\"C\"\s+)?__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^;{()]*)\)\s*\{",
    re.MULTILINE,
)


def _declarations(path: Path, text: str) -> dict[str, list[str]]:
    """The types of the arguments of the kernels of a source, by name. KernelError for one with a C++ name."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    found = {}
    inside = [text[match.end() :] for match in re.finditer(r'extern\s+"C"\s*\{', text)]
    for match in _KERNEL.finditer(text):
        external, name, arguments = match.groups()
        if external is None and not any(match[0] in part for part in inside):
            raise KernelError(f"the kernel {name} has a C++ name", where=str(path), hint='Write extern "C" before it')
        found[name] = [c_type(part) for part in arguments.split(",") if part.strip() not in ("", "void")]
    return found


def _whole(name: str, what: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"kernel {name}: {what} must be a whole number, got {describe(value)}") from None
    if not least <= number <= most:
        raise ValueError(f"kernel {name}: {what} is {number:,}, and may be {least:,} to {most:,}")
    return number


class CudaKernel(Signature):
    """A kernel of tensors, then whole numbers (`intptr_t`), then `float`s, as extension.Kernel. The tensors must be
    dense and on one card, where the kernel is launched in the current stream. Inside `capture` the call becomes part of
    the Graph.
    """

    def __init__(self, name: str, signature: str, of: CudaKernels, declared: Sequence[str] | None) -> None:
        super().__init__(name, signature, declared)
        self._of = of

    def __call__(self, *arguments: Any, blocks: Any, threads: Any = 128, shared: Any = 0) -> None:
        """Launches `blocks` blocks of `threads` threads, with `shared` bytes of dynamic shared memory each. TypeError
        or ValueError for arguments that do not fit, KernelError where it does not compile. What goes wrong while it
        runs, CUDA tells later.
        """
        tensors, sizes, floats = self.parted(arguments)
        blocks = _whole(self.name, "blocks", blocks, 0, MOST_BLOCKS)
        threads = _whole(self.name, "threads", threads, 1, MOST_THREADS)
        backend = self._card_of(tensors)
        shared = _whole(self.name, "shared", shared, 0, backend.card.most_shared)
        numbers: list[Any] = [ctypes.c_uint64(0 if x is None else x.address.value) for x in tensors]
        numbers += [*map(ctypes.c_int64, sizes), *map(ctypes.c_float, floats)]
        pointers = (ctypes.c_void_p * len(numbers))(*map(ctypes.addressof, numbers))
        function = self._of.function(backend, self.name)

        def run(kept: list[Any] = numbers) -> None:
            if blocks:
                backend.launch(function, blocks, threads, shared, pointers)

        run()
        if capturing():
            record_call(run, tuple(x for x in tensors if x is not None))

    def _card_of(self, tensors: Sequence[Tensor | None]) -> Any:
        devices: set[Device] = set()
        for name, x in zip(self.tensors, tensors, strict=True):
            if x is not None:
                if not hasattr(x.device.backend, "card"):
                    raise ValueError(
                        f"kernel {self.name}: {name}, {describe(x)}, is not on a card; call .to('cuda') first"
                    )
                devices.add(x.device)
        if len(devices) != 1:
            where = " and ".join(sorted(map(str, devices))) or "no card: it has no tensors"
            raise RuntimeError(f"kernel {self.name}: its tensors are on {where}; move them to one card")
        return devices.pop().backend

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.name}({self.signature}) of {self._of.path.name}>"


class CudaKernels:
    """The kernels of one CUDA source, as attributes."""

    def __init__(self, path: Path, signatures: dict[str, str]) -> None:
        try:
            self._text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise KernelError(f"the source cannot be read: {error}", where=str(path)) from error
        self.path = path
        declared = _declarations(path, self._text)
        self._functions: dict[tuple[int, str], tuple[Any, Any]] = {}  # of a card; the card is kept, so is its id
        for name, signature in signatures.items():
            if name not in declared:
                raise KernelError(f"there is no kernel {name!r}", where=str(path))
            setattr(self, name, CudaKernel(name, signature, self, declared[name]))

    def function(self, backend: Any, name: str) -> Any:
        """A kernel for a card, compiled where it was not."""
        key = id(backend), name
        if key not in self._functions:
            module = backend.card.load(compiled_text(backend.card, str(self.path.with_suffix("")), self._text, {}))
            self._functions[key] = backend.card.function(module, name), backend
        return self._functions[key][0]

    def __getattr__(self, name: str) -> CudaKernel:
        raise AttributeError(f"no kernel {name!r} was named in load()")


__all__ = ["CudaKernel", "CudaKernels"]

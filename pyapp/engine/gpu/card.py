"""What the CUDA device needs of a card's driver, and how compiled sources are kept on disk.

`nvidia.py` implements it with NVIDIA's driver; the tests have a card that runs the same sources on the processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import sources


class Card:
    """One card. Addresses are integers of the card's memory; everything runs in the order of the calls."""

    name: str  # "NVIDIA H200"
    architecture: str  # "sm_90"
    capability: tuple[int, int]
    total_memory: int  # bytes
    multiprocessors: int
    most_blocks: int  # of one launch: enough to fill the card a few times
    slab: int  # bytes that small blocks of memory are cut from; 0: each is allocated by itself
    compiler: str  # its name and version: part of the key of what is kept on disk
    stream: int = 0  # the driver's pointer to the order of the calls, for other libraries

    def enter(self) -> None:
        """Makes the card the one of this thread, for other libraries."""

    def compile(self, source: str, text: str, headers: dict[str, str]) -> bytes:
        """Compiles a source for this card. KernelError with the compiler's log."""
        raise NotImplementedError

    def load(self, image: bytes) -> Any:
        """A module of what `compile` returned."""
        raise NotImplementedError

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module, for `launch`."""
        raise NotImplementedError

    def launch(self, function: Any, blocks: int, threads: int, shared: int, arguments: Any) -> None:
        """Runs a kernel. `arguments`: a ctypes array of pointers to its arguments, which are copied before this
        returns."""
        raise NotImplementedError

    def allocate(self, nbytes: int) -> int | None:
        """Memory, aligned to 256 bytes; None where there is none left."""
        raise NotImplementedError

    def free(self, address: int) -> None:
        raise NotImplementedError

    def write(self, address: int, source: int, nbytes: int) -> None:
        """Copies from host memory at `source`, which may be changed when this returns."""
        raise NotImplementedError

    def read(self, target: int, address: int, nbytes: int) -> None:
        """Copies to host memory at `target`; waits for everything before."""
        raise NotImplementedError

    def copy(self, to: int, source: int, nbytes: int) -> None:
        raise NotImplementedError

    def clear(self, address: int, nbytes: int) -> None:
        """Fills with zeros."""
        raise NotImplementedError

    def shared_word(self) -> tuple[int, Any]:
        """64 bytes that the card and the host both see: the card's address, and a ctypes int32 of the host."""
        raise NotImplementedError

    def synchronize(self) -> None:
        raise NotImplementedError

    def free_memory(self) -> int:
        """Bytes that the driver can still give."""
        raise NotImplementedError

    def begin_capture(self) -> None:
        """Launches and copies from here on are recorded instead of run."""
        raise NotImplementedError

    def end_capture(self) -> Any:
        """What was recorded, for `run_graph`."""
        raise NotImplementedError

    def run_graph(self, graph: Any) -> None:
        raise NotImplementedError


def cache_folder() -> Path:
    """Where compiled kernels are kept: PYAPP_CUDA_CACHE, else `pyapp/cuda` in the user's folder for caches."""
    own = os.environ.get("PYAPP_CUDA_CACHE")
    if own:
        return Path(own)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pyapp" / "cuda"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyapp" / "cuda"


def compiled(card: Card, source: str) -> bytes:
    """A source compiled for the card: from the disk, where the same text was compiled before."""
    text, headers = sources.text_of(source), sources.headers_of(source)
    digest = hashlib.sha256(repr((card.compiler, card.architecture, text, sorted(headers.items()))).encode())
    path = cache_folder() / f"{source}-{card.architecture}-{digest.hexdigest()[:32]}.bin"
    try:
        return _checked(path.read_bytes())
    except (OSError, ValueError):
        image = card.compile(source, text, headers)
    with contextlib.suppress(OSError):  # a full or read-only disk: compiled again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(image).digest() + image)
        os.replace(file.name, path)
    return image


def _checked(data: bytes) -> bytes:
    """The image of a kept file. ValueError where it was cut or changed."""
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        raise ValueError("the file is damaged")
    return data[32:]

"""What the CUDA device needs of a card's driver, and how compiled sources are kept on disk.

`nvidia.py` implements it with NVIDIA's driver; the tests have a card that runs the same sources on the processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import sources
from .cublas import Piece, Products


class Card:
    """One card. Addresses are integers of the card's memory. What is launched in one stream runs in the order of the
    calls; `stream` is the one that calls launch in.
    """

    name: str  # "NVIDIA H200"
    architecture: str  # "sm_90a"
    capability: tuple[int, int]
    total_memory: int  # bytes
    multiprocessors: int
    most_blocks: int  # of one launch: enough to fill the card a few times
    most_shared: int  # bytes of dynamic shared memory of a block
    pairs = False  # whether two warpgroups of a block compute attention (native/cuda/attention_pairs.cu)
    overlap = False  # whether kernels of a Graph start before those in front have ended
    variants = True  # whether kernels that have variants are compiled one by one
    slab: int  # bytes that small blocks of memory are cut from; 0: each is allocated by itself
    stream: Any  # the present one
    compiler: str  # its name and version: part of the key of what is kept on disk

    def enter(self) -> None:
        """Makes the card the one of this thread, for other libraries."""

    def compile(self, source: str, text: str, headers: dict[str, str]) -> bytes:
        """Compiles a source for this card; `source`: its path without ".cu". KernelError with the compiler's log."""
        raise NotImplementedError

    def load(self, image: bytes) -> Any:
        """A module of what `compile` returned."""
        raise NotImplementedError

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module, for `launch`."""
        raise NotImplementedError

    def launch(
        self, function: Any, blocks: int, threads: int, shared: int, arguments: Any, overlaps: bool = False
    ) -> None:
        """Runs a kernel. `arguments`: a ctypes array of pointers to its arguments, which are copied before this
        returns. `overlaps`: it waits itself for those in front, so it may start before they have ended."""
        raise NotImplementedError

    def allocate(self, nbytes: int) -> int | None:
        """Memory, aligned to 256 bytes; None where there is none left."""
        raise NotImplementedError

    def free(self, address: int) -> None:
        raise NotImplementedError

    def write(self, address: int, source: int, nbytes: int) -> None:
        """Copies from host memory at `source`, which may be changed when this returns, in the present stream."""
        raise NotImplementedError

    def read(self, target: int, address: int, nbytes: int) -> None:
        """Copies to host memory at `target`; waits for everything before."""
        raise NotImplementedError

    def copy(self, to: int, source: int, nbytes: int) -> None:
        raise NotImplementedError

    def copy_across(self, to: int, other: Card, source: int, nbytes: int) -> bool:
        """Copies from another card's memory, after what its present stream has to do, and before what it is given next.
        False where the cards cannot reach each other."""
        return False

    def can_reach(self, other: Card) -> bool:
        """Whether it can read the memory of another card by itself."""
        return False

    def clear(self, address: int, nbytes: int) -> None:
        """Fills with zeros."""
        raise NotImplementedError

    def shared_word(self) -> tuple[int, Any]:
        """64 bytes that the card and the host both see: the card's address, and a ctypes int32 of the host."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Waits for all streams."""
        raise NotImplementedError

    def new_stream(self, priority: int) -> Any:
        """Another stream; a negative priority goes before others."""
        raise NotImplementedError

    def end_stream(self, stream: Any) -> None:
        """Gives a stream back, whose work is done first."""
        raise NotImplementedError

    def wait_for_stream(self, stream: Any) -> None:
        """Waits until a stream has nothing left to do."""
        raise NotImplementedError

    def stream_is_done(self, stream: Any) -> bool:
        raise NotImplementedError

    def new_event(self, timing: bool) -> Any:
        """A mark in a stream; `timing`: with the time at which it is reached."""
        raise NotImplementedError

    def end_event(self, event: Any) -> None:
        raise NotImplementedError

    def record_event(self, event: Any, stream: Any) -> None:
        """Sets the mark after what was launched in a stream."""
        raise NotImplementedError

    def hold_stream(self, stream: Any, event: Any) -> None:
        """What is launched in a stream from here on waits for the mark."""
        raise NotImplementedError

    def wait_for_event(self, event: Any) -> None:
        raise NotImplementedError

    def event_is_done(self, event: Any) -> bool:
        raise NotImplementedError

    def milliseconds(self, start: Any, end: Any) -> float:
        """Between two marks that have been reached."""
        raise NotImplementedError

    def free_memory(self) -> int:
        """Bytes that the driver can still give."""
        raise NotImplementedError

    def products(self) -> Products | None:
        """NVIDIA's library of products of matrices; None where it is not installed."""
        return None

    def start_product(
        self, products: Products, piece: Piece, kernel: str, pointers: Sequence[int], workspace: int
    ) -> None:
        """Starts a piece of a product of `products`, as a launch."""
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
    """Where compiled kernels are kept: PYAPP_CUDA_CACHE, else `pyapp/cuda` in the user's folder for caches. OSError
    for a user without one."""
    own = os.environ.get("PYAPP_CUDA_CACHE")
    if own:
        return Path(own)
    caches = os.environ.get("XDG_CACHE_HOME")
    if caches:
        return Path(caches) / "pyapp" / "cuda"
    try:
        return Path.home() / ".cache" / "pyapp" / "cuda"
    except RuntimeError as error:  # a container's user without a name
        raise OSError(str(error)) from error


def compiled(card: Card, source: str, kernel: str = "", variant: int = 0) -> bytes:
    """A source compiled for the card, or a variant of one of its kernels: from the disk, where the same text was
    compiled before."""
    text, headers = sources.text_of(source, kernel, variant, card.multiprocessors), sources.headers_of(source)
    return compiled_text(card, f"native/cuda/{source}", text, headers)


def compiled_text(card: Card, name: str, text: str, headers: dict[str, str]) -> bytes:
    """A text compiled for the card, as `compiled`; `name`: the path of its source without ".cu"."""
    digest = hashlib.sha256(repr((card.compiler, card.architecture, text, sorted(headers.items()))).encode())
    kept = f"{Path(name).name}-{card.architecture}-{digest.hexdigest()[:32]}.bin"
    try:
        return _checked((cache_folder() / kept).read_bytes())
    except (OSError, ValueError):
        image = card.compile(name, text, headers)
    with contextlib.suppress(OSError):  # a full or read-only disk: compiled again next time
        path = cache_folder() / kept
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(hashlib.sha256(image).digest() + image)
                file.close()
                os.replace(file.name, path)
            except OSError:
                os.unlink(file.name)
                raise
    return image


def _checked(data: bytes) -> bytes:
    """The image of a kept file. ValueError where it was cut or changed."""
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        raise ValueError("the file is damaged")
    return data[32:]

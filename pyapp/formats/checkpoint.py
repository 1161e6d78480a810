"""The interface of every model file: a configuration, metadata, and tensors that are read on demand.

The readers of the formats are subclasses of `Checkpoint`; `opening.open_checkpoint` finds the reader for a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine.blocks.layout import READABLE
from pyapp.engine.device import Device, as_device, cpu
from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError

from .source import ByteSource, close_source

# What to do about weights that another library has quantised, in its own form.
UNQUANTISED = "Take the model in floating point, with a type to convert to, or as a GGUF file"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as the file stores it.

    `dtype` is the name of a pyapp dtype, or of a type without a pyapp dtype ("float8_e8m0fnu" ...; see
    foreign_dtypes.py). `nbytes` counts bytes in the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


class Checkpoint(ABC):
    """An open model file: `format`, `config` (model hyper-parameters), `metadata` (str to str) and `tensors` (by name,
    in file order).

    A context manager; the source stays open for `read` until `close`.
    """

    format: str

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.config: dict[str, Any] = {}
        self.metadata: dict[str, str] = {}
        self.tensors: dict[str, TensorInfo] = {}

    @property
    def size(self) -> int:
        """Bytes of the file; of several, of all together."""
        return self.source.size

    def read(self, name: str, *, finite: bool = False, device: Device | str | None = None) -> Tensor:
        """The tensor of that name, on `device` (None: the CPU).

        Large tensors of files on disk are mapped where the format allows: they need no reading, and processes share
        their memory. Writes to such a tensor never reach the file. Tensors for other devices than the CPU are copied in
        pieces.

        With `finite`, NaN and infinite values raise ModelError. KeyError: no such name. ValueError: no such device.
        """
        if name not in self.tensors:
            raise KeyError(f"{self.source.name} has no tensor {name!r}; it has {_some(self.tensors)}")
        place = as_device(device)
        return self._read(self.tensors[name], finite, None if place is cpu else place)

    @abstractmethod
    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        """The tensor on a device (None: the CPU)."""

    @abstractmethod
    def read_bytes(self, name: str) -> bytes | memoryview:
        """The tensor's bytes as stored in the file (little-endian, row-major). KeyError: no such name."""

    def read_rows(self, name: str, *, finite: bool = False, device: Device | str | None = None) -> Tensor:
        """The rows of a stack of matrices (E, N, K) in blocks as one matrix (E * N, K), in the type of `read`. Else
        as `read`.
        """
        info, place = self.tensors[name], as_device(device)
        if info.dtype in READABLE and len(info.shape) == 3:
            info = replace(info, shape=(info.shape[0] * info.shape[1], info.shape[2]))
        return self._read(info, finite, None if place is cpu else place)

    def read_pieces(self, name: str, size: int) -> Iterator[bytes | memoryview]:
        """The bytes of `read_bytes` in pieces of `size` bytes; the last may be shorter. KeyError: no such name."""
        place = self._place(name)
        if place is None:
            data = memoryview(self.read_bytes(name)).cast("B")
            yield from (data[begin : begin + size] for begin in range(0, len(data), size))
            return
        source, offset, nbytes = place
        for begin in range(0, nbytes, size):
            yield source.read(offset + begin, min(size, nbytes - begin))

    def _place(self, name: str) -> tuple[ByteSource, int, int] | None:
        """The place of the bytes of `read_bytes`: source, offset, number; None if they are not one range of a file."""
        return None

    def forget(self, name: str) -> None:
        """Gives the memory of a mapped tensor that nobody uses any more back to the system."""
        place = self._place(name)
        if place is not None and hasattr(place[0], "forget"):
            place[0].forget(*place[1:])

    def close(self) -> None:
        close_source(self.source)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.source.name}: {self.format}, {len(self.tensors)} tensors>"


# -- helpers of the formats


def require(condition: bool, source: ByteSource, what: str, hint: str) -> None:
    """FileFormatError about this source unless the condition holds."""
    if not condition:
        raise FileFormatError(what, where=source.name, hint=hint)


def require_size(source: ByteSource, expected: int, because: str) -> None:
    """FileFormatError unless the source has exactly `expected` bytes; it names the number of missing or extra bytes."""
    missing = expected - source.size
    if missing > 0:
        raise FileFormatError(
            f"the file is truncated: {because} needs {expected:,} bytes, "
            f"{missing:,} are missing at the end ({source.size:,} are there)",
            where=source.name,
            hint="Download or copy it again",
        )
    if missing < 0:
        raise FileFormatError(
            f"the file is too long: {because} needs {expected:,} bytes, {-missing:,} follow that do not belong to it",
            where=source.name,
            hint="It is damaged or of another format: download it again",
        )


def _some(names: Iterable[str], limit: int = 5) -> str:
    listed = list(names)
    return ", ".join(listed[:limit]) + (f" and {len(listed) - limit} more" if len(listed) > limit else "") or "none"

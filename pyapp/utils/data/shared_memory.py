"""Send batches between processes: the bytes of tensors and arrays go through shared memory, the rest is pickled."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from itertools import accumulate
from multiprocessing.shared_memory import SharedMemory
from typing import Any

from ...engine.storage import Storage
from ...engine.tensor import Tensor
from .collating import mapped

SMALLEST = 1 << 16  # bytes: less goes through the pipe with the rest
ALIGNMENT = 64  # bytes

# A message: the pickled batch, the name of the shared memory (or None), and where each buffer lies (or its bytes).
Message = tuple[bytes, str | None, list[Any]]


class _Packer(pickle.Pickler):
    """Pickles a batch without the memory of tensors and arrays: `buffers` has it, and whether it is a tensor's."""

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._keep)
        self.buffers: list[tuple[memoryview, bool]] = []
        self._of_tensors: list[pickle.PickleBuffer] = []

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Storage):
            return NotImplemented
        data = value.bytes_view() if value.device.backend.host_visible else value.read()
        self._of_tensors.append(pickle.PickleBuffer(data))
        return _storage, (self._of_tensors[-1], value.device)

    def _keep(self, buffer: pickle.PickleBuffer) -> None:
        self.buffers.append((buffer.raw().cast("B"), any(buffer is other for other in self._of_tensors[-1:])))


def _storage(data: Any, device: Any) -> Storage:
    return Storage.of_bytes(memoryview(data), device)


def pack(batch: Any) -> Message:
    """The message of a batch. Large memory is copied to a new block of shared memory, which `unpack` removes; where
    there is no room for it, it travels in the message.
    """
    text = BytesIO()
    packer = _Packer(text)
    packer.dump(_compact(batch))
    ends = list(accumulate(-(-data.nbytes // ALIGNMENT) * ALIGNMENT for data, _ in packer.buffers))
    block = _new_block(ends[-1]) if ends and ends[-1] >= SMALLEST else None
    if block is None:
        return text.getvalue(), None, [(bytes(data), is_tensor) for data, is_tensor in packer.buffers]
    places = []
    assert block.buf is not None
    for (data, is_tensor), start in zip(packer.buffers, [0, *ends], strict=False):
        block.buf[start : start + data.nbytes] = data
        places.append(((start, data.nbytes), is_tensor))
    block.close()
    return text.getvalue(), block.name, places


def unpack(message: Message) -> Any:
    """The batch of a message, in memory of its own; removes the shared memory."""
    text, name, places = message
    if name is None:
        return pickle.loads(text, buffers=[data if is_tensor else bytearray(data) for data, is_tensor in places])
    block = SharedMemory(name)
    assert block.buf is not None
    views = [block.buf[start : start + nbytes] for (start, nbytes), _ in places]
    try:  # a tensor copies its bytes, an array keeps what it is given
        parts = [view if is_tensor else bytearray(view) for view, (_, is_tensor) in zip(views, places, strict=True)]
        return pickle.loads(text, buffers=parts)
    finally:
        for view in views:
            view.release()
        block.close()
        block.unlink()


def discard(message: Message) -> None:
    """Removes the shared memory of a message that nobody reads."""
    if message[1] is not None:
        with suppress(OSError):
            block = SharedMemory(message[1])
            block.close()
            block.unlink()


def _new_block(nbytes: int) -> SharedMemory | None:
    """New shared memory, or None where there is no room. Its pages are reserved at once: a write to a page that does
    not exist would end the process.
    """
    try:
        block = SharedMemory(create=True, size=nbytes)
    except OSError:
        return None
    try:
        with open(f"/dev/shm/{block.name.lstrip('/')}", "r+b") as file:  # its place on Linux
            os.posix_fallocate(file.fileno(), 0, nbytes)
    except FileNotFoundError:
        pass
    except OSError:
        block.close()
        block.unlink()
        return None
    return block


def _compact(value: Any) -> Any:
    """The batch with copies of tensors that are small parts of a larger memory: all of that would be sent."""
    if isinstance(value, Tensor):
        part = value.numel() * value.dtype.itemsize < value._storage.nbytes
        return value.detach().clone() if part and not value.dtype.is_quantized else value
    if isinstance(value, dict):
        return mapped(value, lambda key: _compact(value[key]))
    if isinstance(value, (list, tuple)):
        parts: Sequence[Any] = [_compact(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value

"""Small tensors that sessions write before each launch and read after it, without NumPy."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any

from .device import Device, cpu
from .dtype import int32
from .storage import Storage
from .tensor import Tensor, make


def int32_tensor(values: Sequence[int], device: Device = cpu) -> Tensor:
    """A new int32 tensor (N,) of these numbers."""
    return make(Storage.of_bytes(array("i", values).tobytes(), device), (len(values),), (1,), int32)


def writer(tensor: Tensor) -> Callable[..., None]:
    """A function that writes its N arguments into the memory of a dense tensor of N elements, as `assign` does.

    It is for what is written for each token: where the host sees the memory, a call runs no Python.
    """
    values = Struct(f"{tensor.numel()}{tensor.dtype.format}")
    if tensor.device.backend.host_visible:
        return partial(values.pack_into, tensor.data_view().cast("B"), 0)
    backend = tensor.device.backend

    def write(*numbers: Any) -> None:
        backend.write(tensor.address, values.pack(*numbers))

    return write


def reader(tensor: Tensor) -> Callable[[], Any]:
    """A function that returns the number in a tensor of one element, as `item` does; for what each token reads."""
    if tensor.device.backend.host_visible:
        return partial(tensor.data_view().__getitem__, 0)
    value = Struct(f"1{tensor.dtype.format}")
    backend, copied = tensor.device.backend, bytearray(value.size)

    def item() -> Any:
        backend.read(tensor.address, copied)
        return value.unpack(copied)[0]

    return item

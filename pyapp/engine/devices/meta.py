"""The meta device: tensors with a shape, a dtype and strides, and no elements.

Ops give tensors of the right shapes and compute nothing: every kernel runs here, and does nothing. What needs elements
raises NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..device import Backend, HiddenAddress
from ..native import HOST_KERNELS

_ADDRESS = HiddenAddress(64)  # of every block


class Meta(Backend):
    """Blocks without memory, all at one address."""

    kernels = HOST_KERNELS
    cache_limit = 0

    def allocate(self, nbytes: int) -> HiddenAddress:
        return _ADDRESS

    def free(self, address: HiddenAddress) -> None:
        pass

    def write(self, address: HiddenAddress, data: Any) -> None:
        pass

    def read(self, address: HiddenAddress, into: Any) -> None:
        raise NotImplementedError(
            "a tensor of the meta device has no elements to read or copy: give a module memory with "
            "to_empty(device='cpu') in place of to('cpu'), and load its state"
        )

    def copy(self, to: HiddenAddress, source: HiddenAddress, nbytes: int) -> None:
        pass

    def copy_across(self, to: HiddenAddress, other: Backend, source: Any, nbytes: int) -> bool:
        return True

    def run(self, records: bytearray, count: int) -> int:
        return 0

    def graph(self, records: bytearray, count: int) -> Callable[[], int]:
        return lambda: 0


def open_device(index: int | None) -> Backend:
    """The meta device; there is one."""
    return Meta()

"""Views of more dims than the kernels that copy them have."""

from __future__ import annotations

from .storage import Storage
from .tensor import Tensor, make


def with_gaps(x: Tensor) -> Tensor:
    """A view of another device as a view of the same strides on the CPU, and so with what lies between its elements:
    there NumPy brings it in order, which a device without a kernel would ask the CPU for."""
    reach = [(size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True)] if x.numel() else []
    first, last = (x.offset + sum(step for step in reach if (step > 0) == ahead) for ahead in (False, True))
    size = x.dtype.itemsize
    storage = Storage.of_bytes(x.storage.read(first * size, (last + 1 - first) * size if x.numel() else 0))
    return make(storage, x.shape, x.strides, x.dtype, x.offset - first)

"""Exchange of memory with other libraries by DLPack (https://dmlc.github.io/dlpack), through NumPy."""

from __future__ import annotations

from typing import Any

from ..declare import function, method
from ..lazy import np
from ..tensor import Tensor, adopt_array
from ..user_errors import describe


def _exchanged(x: Tensor) -> Any:
    """A NumPy view of the memory. BufferError where there can be none."""
    if x.requires_grad:
        raise BufferError(f"__dlpack__: {describe(x)} requires a gradient; give x.detach()")
    if not x.device.backend.host_visible:
        raise BufferError(f"__dlpack__: the host does not see the memory of {describe(x)}; give x.cpu()")
    if x.dtype.is_bits or x.dtype.is_quantized:
        raise BufferError(f"__dlpack__: NumPy, which makes the capsule, has no {x.dtype}; give x.float()")
    return x.array()


@method("__dlpack__")
def _capsule(x: Tensor, *, stream: Any = None, **wishes: Any) -> Any:
    """A capsule over the memory of x, for `from_dlpack` of other libraries. BufferError for tensors that require a
    gradient, of devices whose memory the host does not see, and of dtypes that NumPy lacks.
    """
    return _exchanged(x).__dlpack__(**wishes)


@method("__dlpack_device__")
def _device(x: Tensor) -> Any:
    """(kind of device, its number), as DLPack counts."""
    return _exchanged(x).__dlpack_device__()


class _Exporter:
    """An object that gives a capsule of the CPU's memory."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **wishes: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@function()
def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor on the memory of another library's array, which the host must see (a copy where it is read-only)."""
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = _Exporter(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(f"from_dlpack: takes an object with __dlpack__, not {type(ext_tensor).__name__}")
    try:
        return adopt_array(np.from_dlpack(ext_tensor))
    except BufferError as error:
        raise ValueError(f"from_dlpack: {type(ext_tensor).__name__} does not give its memory: {error}") from error

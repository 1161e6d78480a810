"""Functions of torch._utils that packages use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .engine.device import Device, as_device
from .engine.dtype import DType
from .engine.ops import cat
from .engine.tensor import Tensor
from .nn.parameter import Parameter
from .storage import TypedStorage, UntypedStorage, elements_of


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors, of one dtype, in one vector."""
    return cat([x.reshape(-1) for x in tensors]) if tensors else Tensor(())


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a vector of _flatten_dense_tensors, in the shapes of the tensors."""
    parts = flat.split([x.numel() for x in tensors]) if tensors else ()
    return tuple(part.view(x.shape) for part, x in zip(parts, tensors, strict=True))


def _element_size(dtype: DType) -> int:
    """The bytes of an element."""
    return dtype.itemsize


def _rebuild_tensor(
    storage: TypedStorage | UntypedStorage, storage_offset: int, size: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """A tensor over the memory of a storage."""
    return elements_of(storage, None).as_strided(tuple(size), tuple(stride), storage_offset)


def _rebuild_tensor_v2(
    storage: TypedStorage | UntypedStorage, storage_offset: int, size: Sequence[int], stride: Sequence[int],
    requires_grad: bool, backward_hooks: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """The tensor of a pickle, over the memory of its storage. ValueError for hooks, which no pickle has."""
    return _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, None, metadata)


def _rebuild_tensor_v3(
    storage: TypedStorage | UntypedStorage, storage_offset: int, size: Sequence[int], stride: Sequence[int],
    requires_grad: bool, backward_hooks: Any, dtype: DType | None, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """As _rebuild_tensor_v2, of plain bytes as elements of `dtype`."""
    if backward_hooks:
        raise ValueError("_rebuild_tensor: hooks are not restored; register them again")
    found = elements_of(storage, dtype).as_strided(tuple(size), tuple(stride), storage_offset)
    return found.requires_grad_() if requires_grad else found


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    """The Parameter of a pickle. ValueError for hooks, which no pickle has."""
    if backward_hooks:
        raise ValueError("_rebuild_parameter: hooks are not restored; register them again")
    return Parameter(data, requires_grad)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a CUDA device: of its name, of a Device or of the number itself; -1 for the CPU if that is allowed.
    None is the first device where `optional`. ValueError otherwise.
    """
    if isinstance(device, int):
        return device
    if device is None and optional:
        return 0
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if device.type == "cuda" and (device.index is not None or optional):
            return device.index or 0
        if device.type == "cpu" and allow_cpu:
            return -1
    raise ValueError(f"_get_device_index: takes a CUDA device with its number, not {device!r}")


def _get_available_device_type() -> str | None:
    """ "cuda" where there is such a device."""
    try:
        return as_device("cuda").type
    except ValueError:
        return None

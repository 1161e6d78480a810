"""Tensors over given memory: strides, buffers, storages, by torch's names."""

from __future__ import annotations

import builtins
from array import array
from collections.abc import Sequence
from math import prod
from typing import Any

from .. import dtype as _dtype
from ..declare import function, method
from ..device import cpu
from ..dtype import Default, as_dtype
from ..launch import refuse_capture
from ..lazy import np
from ..memory_format import order_of
from ..numpy_arrays import tensor_of
from ..shape import as_shape, contiguous_strides
from ..storage import Storage
from ..tensor import Tensor, adopt_array, check_device, make
from ..untyped_storage import TypedStorage, UntypedStorage
from ..user_errors import describe
from .create import as_tensor, construct, tensor
from .dlpack import from_dlpack


@method("resize_")
def _resize(x: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Gives x another dense shape in place. It keeps its elements as far as they fit; additional elements are
    uninitialised.

    RuntimeError for a tensor that requires a gradient.
    """
    if x.requires_grad:
        raise RuntimeError("resize_: this tensor requires a gradient")
    shape = as_shape(sizes)
    if any(size < 0 for size in shape):
        raise ValueError(f"resize_: a tensor cannot have the shape {shape}: sizes are not negative")
    if x.dtype.is_quantized:
        raise TypeError(f"resize_: a {x.dtype} matrix cannot be resized; convert it with .to(float32)")
    needed = (x.offset + prod(shape)) * x.dtype.itemsize
    if needed > x._storage.nbytes:
        refuse_capture("resize_")
        whole = Storage(needed, x.device)
        whole.copy_from(x._storage, 0, 0, x._storage.nbytes)
    else:
        whole = x._storage
    x.point_to(whole, shape, _dense_strides(shape, memory_format), x.dtype, x.offset)
    x.view_of = x.views = None
    return x


def _dense_strides(shape: tuple[int, ...], memory_format: Any = None) -> tuple[int, ...]:
    order = order_of("resize_", memory_format, len(shape))
    if order is None:
        return contiguous_strides(shape)
    steps = contiguous_strides(tuple(shape[d] for d in order))
    return tuple(steps[order.index(d)] for d in range(len(shape)))


@method()
def record_stream(x: Tensor, stream: Any) -> None:
    """Says that a stream of x's card, beside the one that x was made in, uses x: when x is gone, its memory serves the
    next tensor after what that stream has to do until then. No effect on the CPU, which has no streams.

    TypeError for what is not a stream, RuntimeError for a stream of another card.
    """
    if x.device.type == "cuda":
        if not hasattr(stream, "record_use"):
            raise TypeError(f"record_stream: takes a cuda.Stream, not {type(stream).__name__}")
        stream.record_use(x._storage)


@method("set_")
def _set(x: Tensor, source: Tensor) -> Tensor:
    """Makes x a view of another tensor's memory, in its shape."""
    if source.dtype is not x.dtype:
        raise RuntimeError(f"set_: {describe(source)} is of another dtype than {describe(x)}")
    x.data = source
    x.point_to(source._storage, source._shape, source.strides, source.dtype, source.offset)
    return x


@function()
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialised tensor with these strides."""
    shape, strides = as_shape((size,)), as_shape((stride,))
    check_device(device)
    if len(shape) != len(strides) or any(step < 0 for step in strides):
        raise ValueError(f"empty_strided: the strides {strides} do not fit the shape {shape}")
    span = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) if prod(shape) else 0
    kind = as_dtype(dtype or _dtype.Default.dtype)
    return make(Storage(span * kind.itemsize), shape, strides, kind).requires_grad_(requires_grad)


@function()
def empty_permuted(
    size: Any, physical_layout: Sequence[int], *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialised dense tensor with its dims in another order in memory: `physical_layout`, outermost first."""
    shape = as_shape((size,))
    if sorted(physical_layout) != list(builtins.range(len(shape))):
        raise RuntimeError(f"empty_permuted: {tuple(physical_layout)} does not name each of {len(shape)} dims once")
    strides, step = [0] * len(shape), 1
    for d in reversed(physical_layout):
        strides[d], step = step, step * max(shape[d], 1)
    return empty_strided(shape, strides, dtype=dtype, device=device, requires_grad=requires_grad)


@function()
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector of the bytes of a buffer from byte `offset` on; it shares the memory if the buffer is writable."""
    kind = as_dtype(dtype)
    try:
        view = memoryview(buffer).cast("B")
    except TypeError as error:
        raise ValueError(f"frombuffer: takes bytes or another buffer ({error})") from error
    length = (len(view) - offset) // kind.itemsize if count < 0 else count
    if not 0 <= offset < len(view) or length < 1 or offset + length * kind.itemsize > len(view):
        raise ValueError(f"frombuffer: {length} of {kind} from byte {offset} on are not in {len(view)} bytes")
    elements = np.frombuffer(view, kind.numpy_name, length, offset)
    found = tensor_of(elements) if not kind.is_bits else _bits(elements, kind)
    return found.requires_grad_(requires_grad)


def _bits(array: Any, kind: Any) -> Tensor:
    return adopt_array(array, kind)


@method("new_empty_strided")
def _new_empty_strided(
    x: Tensor, size: Any, stride: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return empty_strided(size, stride, dtype=dtype or x.dtype, device=device, requires_grad=requires_grad)


@method("new")
def _new(x: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """torch's older constructor in x's dtype: of sizes, or of data."""
    check_device(device)
    return construct(args if size is None else tuple(size), x.dtype)


@method()
def is_set_to(x: Tensor, tensor: Tensor) -> bool:
    """Whether both are views of the same memory in the same shape."""
    return (x.address, x._shape, x.strides) == (tensor.address, tensor._shape, tensor.strides)


@method()
def resize_as_(x: Tensor, other: Tensor, *, memory_format: Any = None) -> Tensor:
    """resize_ to the shape of another tensor."""
    return _resize(x, other._shape, memory_format=memory_format)


@method()
def storage_offset(x: Tensor) -> int:
    """The offset of the first element in the storage, in elements."""
    return x.offset


@method()
def untyped_storage(x: Tensor) -> UntypedStorage:
    """The bytes of which the tensor is a view, as a storage."""
    return UntypedStorage(x._storage)


@method()
def storage(x: Tensor) -> TypedStorage:
    """untyped_storage() as elements of the tensor's dtype: torch's older form."""
    return TypedStorage(wrap_storage=UntypedStorage(x._storage), dtype=x.dtype)


@function()
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """as_tensor, or with `copy` always a copy, with copy=False never one: ValueError where one would be needed.
    The bytes of a buffer are elements of the dtype (by default float32).
    """
    elements = getattr(obj, "as_elements", None)  # of an UntypedStorage
    if elements is not None:
        obj = elements(as_dtype(dtype or Default.dtype))
    elif type(obj).__name__ == "PyCapsule":
        obj = from_dlpack(obj)
    elif isinstance(obj, (bytes, bytearray, memoryview, array)):
        obj = frombuffer(obj, dtype=dtype or Default.dtype)
    if isinstance(obj, Tensor):
        found = obj.to(device or obj.device, dtype or obj.dtype, copy=bool(copy))
    else:
        found = tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)
    shared = (
        found is obj
        if isinstance(obj, Tensor)
        else isinstance(obj, np.ndarray) and found.device is cpu and np.shares_memory(found.array(), obj)
    )
    if copy is False and not shared:
        raise ValueError(f"asarray: copy=False, but {found.dtype} on {found.device} needs a copy of {describe(obj)}")
    return found.requires_grad_() if requires_grad and not found.requires_grad else found


@function()
def from_file(
    filename: str, shared: bool | None = None, size: int = 0, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A vector of `size` elements over a file that is mapped: what is written to it is written to the file if `shared`,
    which makes the file or lengthens it, and else is not. OSError if the file cannot be opened, ValueError if it is
    shorter.
    """
    check_device(device)
    kind = as_dtype(dtype or Default.dtype)
    return UntypedStorage.from_file(filename, bool(shared), size * kind.itemsize).as_elements(kind)

"""Conversion between dtypes and devices, copies."""

from __future__ import annotations

import importlib
from typing import Any

from ...declare import function, method
from ...device import Device
from ...device import cpu as host
from ...dtype import ALIASES, DTYPES, TYPED, as_dtype, bool_
from ...launch import refuse_capture
from ...numpy_arrays import array_of, tensor_of
from ...op import op, primitive
from ...quant import check_not_transposed, dequantize, quantize
from ...shape import kept_order
from ...storage import Storage
from ...tensor import Tensor, adopt_array, check_device, make
from ...user_errors import MISTAKES, names_itself, tell


@primitive(vjp=lambda g, _, x, dtype, *rest: (g.to(x.dtype),), saves="none")
def cast(x: Tensor, dtype: Any, device: Any = None) -> Tensor:
    """Another dtype: floats to integers truncate; to bfloat16 and float16 rounds to nearest even. Of complex numbers
    real dtypes keep the real part, but bool, which is true unless both parts are 0.
    """
    array = array_of(x)
    return tensor_of(array != 0 if x.dtype.is_complex and dtype is bool_ else array, dtype)


def _d_move(g: Tensor, _: Any, x: Tensor, device: Device) -> Any:
    return _move(g, x.device), None


@op(vjp=_d_move, saves="none")
def _move(x: Tensor, device: Device) -> Tensor:
    """A dense copy on another device."""
    refuse_capture("to(device)")
    return moved(x, device)


def moved(x: Tensor, device: Device) -> Tensor:
    """As `_move`, but allowed while a Graph is captured: for new tensors that no replay changes."""
    if not (x.dtype.is_quantized or x.is_contiguous()):
        x = row_major.call(x)
    size = x.dtype.itemsize
    nbytes = x._storage.nbytes if x.dtype.is_quantized else x.numel() * size
    storage = Storage.outside_graphs(nbytes, device)
    if nbytes:  # else the offset may be past the end
        storage.copy_from(x._storage, 0, x.offset * size, nbytes)
    return make(storage, x._shape, x.strides, x.dtype)


def _convert(x: Tensor, dtype: Any) -> Tensor:
    """x in another dtype, block formats among them."""
    if dtype.is_quantized:
        return quantize(dequantize(x), dtype)
    if x.dtype.is_quantized:
        x = dequantize(x)
    return x if x.dtype is dtype else cast(x, dtype)


@function(method=True)
@primitive(vjp=lambda g, _, x: (g,), saves="none")
def clone(x: Tensor) -> Tensor:
    """A copy without gaps, whose dims have the same order in memory."""
    array = x.array().copy(order="C" if kept_order(x._shape, x.strides) is None else "K")
    return adopt_array(array, x.dtype) if x.dtype.is_bits else tensor_of(array, x.dtype)


@method("_row_major")
@primitive(vjp=lambda g, _, x: (g,), saves="none", name="contiguous")
def row_major(x: Tensor) -> Tensor:
    """A dense row-major copy."""
    array = x.array().copy(order="C")
    return adopt_array(array, x.dtype) if x.dtype.is_bits else tensor_of(array, x.dtype)


def _formats() -> Any:
    return importlib.import_module("..memory_order", __package__)


clone.by_name = lambda x, memory_format=None: _formats().cloned(x, memory_format)


@method()
@names_itself
def to(
    x: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Another dtype and/or device: `x.to("float16")`, `x.to("q4_0")`, `x.to("cuda")`, `x.to(other)`; x itself when
    nothing changes. Block formats are for matrices and have no gradient. `memory_format`: the order in memory.
    """
    try:
        flags = [value for value in args if isinstance(value, bool)]  # non_blocking, which has no effect, and copy
        copy = flags[1] if len(flags) > 1 else copy
        for value in args:
            if isinstance(value, Tensor):
                dtype, device = value.dtype, value.device
            elif isinstance(value, bool):
                continue
            elif isinstance(value, (Device, int)):
                device = value
            elif isinstance(value, str) and value not in DTYPES and value not in ALIASES and _may_be_device(value):
                device = value
            else:
                dtype = value
        target = x.dtype if dtype is None else as_dtype(dtype)
        place = x.device if device is None else check_device(device)
        if target is x.dtype and place is x.device:
            x = x.clone() if copy else x
            return x if memory_format is None else _formats().in_format("to", x, memory_format)
        if target is not x.dtype:
            x = _convert(x, target)
        if place is not x.device:
            x = _move(x, place)
        return x if memory_format is None else _formats().in_format("to", x, memory_format)
    except MISTAKES as error:
        tell(error, "to", (x, *args), {"dtype": dtype, "device": device})
        raise


def _may_be_device(name: str) -> bool:
    """Whether a name may be a device: dtypes have digits in their names, devices only after a colon."""
    return name.partition(":")[0].isalpha()


@method()
@names_itself
def contiguous(x: Tensor, memory_format: Any = None) -> Tensor:
    """x itself if it is dense, else a dense row-major copy; or in another memory format."""
    try:
        if memory_format is not None:
            return _formats().contiguous_in(x, memory_format)
        if x.is_contiguous():
            return x
        if x.dtype.is_quantized:
            check_not_transposed(x, "contiguous")
        return row_major.call(x)
    except MISTAKES as error:
        tell(error, "contiguous", (x,), {})
        raise


_CONVERSIONS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "byte": "uint8", "char": "int8",
    "short": "int16", "int": "int32", "long": "int64", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip


def _conversion(dtype: str) -> Any:
    def convert(x: Tensor, memory_format: Any = None) -> Tensor:
        return to(x, dtype=dtype, memory_format=memory_format)

    return convert


for _name, _target in _CONVERSIONS.items():
    method(_name)(_conversion(_target))


@method("type")
def _type(x: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """torch's older name of the dtype, such as "torch.FloatTensor"; or x converted: to a dtype, or by an older name,
    "torch.LongTensor" or LongTensor."""
    if dtype is None:
        place = "" if x.device is host else f"{x.device.type}."
        return f"torch.{place}{next((name for name, kind in TYPED.items() if kind == x.dtype.name), x.dtype.name)}"
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
    return x.to(TYPED.get(name.removeprefix("torch."), dtype))


@method()
def cpu(x: Tensor) -> Tensor:
    """x on the CPU."""
    return x if x.device is host and type(x) is Tensor else to(x, "cpu")


@method()
def cuda(x: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """x on a GPU."""
    return to(x, "cuda" if device is None else device, memory_format=memory_format)

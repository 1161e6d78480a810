"""Tensors from nothing and from plain data."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..autograd import no_grad
from ..dtype import DType, as_dtype, of_number
from ..launch import KERNELS, launch
from ..lazy import np
from ..shape import as_shape
from ..tensor import Tensor, adopt_array, check_device, empty_contiguous
from .base import check_number, tensor_of

_FILL = KERNELS["fill_f32"]


def _finish(result: Tensor, device: Any, requires_grad: bool) -> Tensor:
    if device is not None and check_device(device) != result.device:
        result = result.to(device)
    return result.requires_grad_() if requires_grad else result


def empty(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """An uninitialised tensor."""
    kind = _dtype.Default.dtype if dtype is None else as_dtype(dtype)
    return _finish(empty_contiguous(as_shape(sizes if size is None else size), kind), device, requires_grad)


def full(size: Any, fill_value: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of one value; the dtype is the value's unless given."""
    if isinstance(fill_value, str):
        raise TypeError(f"full: takes a number, not {fill_value!r:.40}")
    kind = of_number(fill_value) if dtype is None else as_dtype(dtype)
    shape = as_shape(size) if not isinstance(size, int) else (size,)
    result = empty_contiguous(shape, kind)
    result.fill_(fill_value)
    return _finish(result, device, requires_grad)


def zeros(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    result = empty(*sizes, size=size, dtype=dtype)
    if result.storage.nbytes:
        fill_storage_with_zeros(result)
    return _finish(result, device, requires_grad)


def fill_storage_with_zeros(tensor: Tensor) -> None:
    """Zeroes a fresh dense tensor of any dtype, without NumPy."""
    words, rest = divmod(tensor.storage.nbytes, 4)
    launch(_FILL, words >> 10, tensor.storage.address, words, 0.0)
    if rest:
        tensor.storage.bytes_view()[words * 4 :] = bytes(rest)


def ones(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    shape = as_shape(sizes if size is None else size)
    return full(shape, 1, _dtype.Default.dtype if dtype is None else dtype, device, requires_grad)


def empty_like(input: Tensor, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised, with the shape and dtype of the input."""
    return empty(input.shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def zeros_like(input: Tensor, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros with the shape and dtype of the input."""
    return zeros(input.shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def ones_like(input: Tensor, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones with the shape and dtype of the input."""
    return ones(input.shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def full_like(
    input: Tensor, fill_value: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value in the shape and dtype of the input."""
    return full(input.shape, fill_value, dtype or input.dtype, device or input.device, requires_grad)


def _contains_tensor(data: Any) -> bool:
    return isinstance(data, Tensor) or (isinstance(data, (list, tuple)) and any(_contains_tensor(d) for d in data))


def _too_large(array: Any) -> bool:
    """Whether NumPy kept Python's integers because they fit none of its own."""
    return array.dtype == object and all(type(number) is int for number in array.reshape(-1))


def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor from numbers, nested lists, arrays or tensors. Python ints make int64, floats float32.

    ValueError where nested lists have different lengths.
    """
    if isinstance(data, Tensor):
        with no_grad():
            result = data.detach().clone() if dtype is None else data.detach().to(dtype, copy=True)
        return _finish(result, device, requires_grad)
    if _contains_tensor(data):
        data = [d.tolist() if isinstance(d, Tensor) else d for d in data]
    from_python = not isinstance(data, (np.ndarray, np.generic))
    wide = from_python and dtype is not None and as_dtype(dtype) is _dtype.uint64
    try:
        array = np.array(data, "uint64" if wide else None)  # which NumPy would take for floats
    except OverflowError as error:
        raise ValueError(f"tensor: {_dtype.uint64} cannot hold what {type(data).__name__} holds") from error
    except ValueError as error:
        raise ValueError(f"tensor: the nested lists do not have equal lengths ({error})") from error
    if array.dtype == "uint64" and from_python and dtype is None or _too_large(array):
        raise ValueError(f"tensor: there is a number outside int64 in {type(data).__name__}")
    if array.dtype == object or array.dtype.kind in "USV":
        raise (ValueError if array.ndim else TypeError)(
            f"tensor: cannot make numbers of {type(data).__name__} holding {array.dtype}"
        )
    if dtype is not None:
        if from_python and array.size and array.dtype.kind in "iuf" and as_dtype(dtype).category == 1:
            for value in (array.max(), array.min()):
                check_number("tensor", int(value) if np.isfinite(value) else float(value), as_dtype(dtype))
        return _finish(
            tensor_of(array.astype(np.float32) if as_dtype(dtype).is_bits else array, as_dtype(dtype)),
            device,
            requires_grad,
        )
    if from_python:
        kind = array.dtype.kind
        if kind == "f" or not array.size:
            return _finish(tensor_of(array, _dtype.Default.dtype), device, requires_grad)
        array = array.astype("int64" if kind in "iu" else "bool")
    return _finish(adopt_array(array), device, requires_grad)


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array (a copy where it is read-only or has negative strides)."""
    if not isinstance(array, (np.ndarray, np.generic)):
        raise TypeError(f"from_numpy: takes a NumPy array, not {type(array).__name__}")
    return adopt_array(np.asarray(array))


def arange(
    start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """start, start + step, … below end; int64 for ints, float32 otherwise."""
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ValueError("arange: step is 0")
    if (end - start) * step < 0:
        raise ValueError(f"arange: the step {step} leads from {start} away from {end}")
    whole = all(isinstance(v, int) for v in (start, end, step))
    kind = as_dtype(dtype) if dtype is not None else _dtype.int64 if whole else _dtype.Default.dtype
    values = np.arange(start, end, step, dtype="int64" if whole else "float64")
    return _finish(tensor_of(values, kind), device, requires_grad)


def linspace(
    start: float, end: float, steps: int, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` values from start to end, both included."""
    return _finish(
        tensor_of(np.linspace(start, end, steps), as_dtype(dtype or _dtype.Default.dtype)), device, requires_grad
    )


def eye(n: int, m: int | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal (n, m)."""
    return _finish(tensor_of(np.eye(n, m), as_dtype(dtype or _dtype.Default.dtype)), device, requires_grad)


def scalar(value: float, dtype: DType) -> Tensor:
    """A zero-dimensional tensor."""
    result = empty_contiguous((), dtype)
    result.data_view()[0] = value
    return result

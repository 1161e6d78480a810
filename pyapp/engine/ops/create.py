"""Functions that make tensors."""

from __future__ import annotations

import builtins
from functools import reduce
from math import ceil, isfinite
from operator import index
from typing import Any

from .. import dtype as _dtype
from .. import quant
from ..autograd import no_grad
from ..declare import function, method
from ..device import cpu
from ..dtype import TYPED, Default, DType, as_dtype, complex_of, of_number, promote
from ..element_types import CODES
from ..launch import KERNELS, Part
from ..lazy import np
from ..native import IN_BROWSER
from ..numpy_arrays import tensor_of
from ..operands import check_number
from ..shape import Size, as_shape, dense_layout
from ..storage import CAPTURES, Storage
from ..tensor import C_TYPES, Tensor, adopt_array, check_device, empty_contiguous, make, set_node, set_requires_grad
from .elementwise.cast import moved

_NOT_NUMBERS = {"O": "other objects", "U": "texts", "S": "bytes", "V": "records", "M": "dates", "m": "spans of time"}

LATE = 4 << 20  # bytes; large storages are in huge pages from this size on
_FILL, _FILL_ANY = KERNELS["fill_f32"], KERNELS["fill"]
_LARGEST = 3.4028234663852886e38  # float32


def finish(result: Tensor, device: Any, requires_grad: bool) -> Tensor:
    place = check_device(device)
    if place is not result.device:
        result = moved(result, place)
    return result.requires_grad_() if requires_grad else result


@function(factory=True)
def empty(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """An uninitialised tensor; of a block format, a matrix."""
    kind = _dtype.Default.dtype if dtype is None else as_dtype(dtype)
    shape = as_shape(sizes if size is None else size)
    make = quant.empty if kind.is_quantized else empty_contiguous
    made = make(shape, kind, check_device(device))
    return made.requires_grad_() if requires_grad else made


@function(factory=True)
def full(size: Any, fill_value: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor filled with one value; the default dtype is that of the value."""
    if isinstance(fill_value, str):
        raise TypeError(f"full: takes a number, not {fill_value!r:.40}")
    kind = of_number(fill_value) if dtype is None else as_dtype(dtype)
    shape = as_shape(size) if not isinstance(size, int) else (size,)
    result = empty_contiguous(shape, kind, check_device(device))
    if kind is not _dtype.float32 or type(fill_value) not in (int, float) or not -_LARGEST <= fill_value <= _LARGEST:
        result.fill_(fill_value)
    elif count := result.numel():
        _FILL.launch(count >> 10, result, count, fill_value)
    return result.requires_grad_() if requires_grad else result


@function(factory=True)
def zeros(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    result = empty(*sizes, size=size, dtype=dtype, device=device)
    if result._storage.nbytes:
        fill_storage_with_zeros(result)
    return result.requires_grad_() if requires_grad else result


def late_zeros(*shape: int, dtype: Any, device: Any) -> Tensor:
    """As `zeros`, for memory that is filled little by little, such as a cache's: natively a large one costs nothing
    until it is written.
    """
    kind, place = as_dtype(dtype), check_device(device)
    count, strides = dense_layout(shape)
    nbytes = count * kind.itemsize
    if IN_BROWSER or place is not cpu or nbytes < LATE or CAPTURES.count:
        return zeros(*shape, dtype=kind, device=place)
    from ..late_memory import late_zeros  # natively only

    return make(late_zeros(nbytes), tuple(shape), strides, kind)


def fill_storage_with_zeros(tensor: Tensor) -> None:
    """Zeroes a fresh dense tensor of any dtype, without NumPy."""
    words, rest = divmod(tensor._storage.nbytes, 4)
    _FILL.launch(words >> 10, tensor, words, 0.0)
    if rest:
        _FILL_ANY.launch(0, Part(tensor, words * 4), CODES[_dtype.uint8], rest, 0)


@function(factory=True)
def ones(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    shape = as_shape(sizes if size is None else size)
    return full(shape, 1, _dtype.Default.dtype if dtype is None else dtype, device, requires_grad)


@function(factory=True)
def empty_like(input: Tensor, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised, with the shape and dtype of the input."""
    made = empty(input._shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)
    return input._beside(made)


@function(factory=True)
def zeros_like(input: Tensor, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros with the shape and dtype of the input."""
    made = zeros(input._shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)
    return input._beside(made)


@function(factory=True)
def ones_like(input: Tensor, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones with the shape and dtype of the input."""
    made = ones(input._shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)
    return input._beside(made)


@function(factory=True)
def full_like(
    input: Tensor, fill_value: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value in the shape and dtype of the input."""
    return input._beside(full(input._shape, fill_value, dtype or input.dtype, device or input.device, requires_grad))


_DEEPEST = 64  # dims of a NumPy array


_OF_PYTHON = {bool: _dtype.bool_, int: _dtype.int64}


def _read_list(data: Any, kinds: set[DType], depth: int = 0) -> Any:
    """Nested lists, with numbers in place of tensors; adds the dtypes of what they hold to `kinds`: tensors, arrays and
    numbers of NumPy have their own. ValueError for lists nested deeper than a tensor has dims."""
    if depth >= _DEEPEST:
        raise ValueError(f"tensor: the lists are nested more than {_DEEPEST} deep")
    plain = True
    for kind in set(map(type, data)):
        if kind in (bool, int, float):
            kinds.add(_OF_PYTHON.get(kind, Default.dtype))
        elif issubclass(kind, (list, tuple, Tensor)):
            plain = False
        else:
            if kind is complex:
                kinds.add(complex_of(Default.dtype))
                continue
            found = (getattr(part, "dtype", None) for part in data if type(part) is kind)
            kinds.update(as_dtype(dtype) for dtype in found if getattr(dtype, "kind", "O") in "biufc")
    return data if plain else [_read_part(part, kinds, depth) for part in data]


def _read_part(part: Any, kinds: set[DType], depth: int) -> Any:
    if isinstance(part, Tensor):
        kinds.add(part.dtype)
        return part.item() if part.numel() == 1 else part.tolist()
    return _read_list(part, kinds, depth + 1) if isinstance(part, (list, tuple)) else part


def _too_large(array: Any) -> bool:
    """Whether NumPy kept Python integers because they fit none of its dtypes."""
    return array.dtype == object and all(type(number) is int for number in array.reshape(-1))


_PLAIN = frozenset((int, float, list))
_FEW = 64  # numbers that are written one by one: calls of NumPy cost more


def _of_few(data: Any, dtype: Any, device: Any) -> Tensor | None:
    """What `tensor` makes of a number, or of a list of a few numbers of one type, on the CPU; None where it has more to
    do."""
    numbers = data if type(data) is list else [data]
    types = set(map(type, numbers))
    if len(types) != 1 or len(numbers) > _FEW or CAPTURES.count or check_device(device) is not cpu:
        return None
    kind = Default.dtype if float in types else _dtype.int64 if int in types else None
    if kind not in C_TYPES or (dtype is not None and dtype is not kind):
        return None
    if kind is _dtype.int64 and not -(1 << 63) <= min(numbers) <= max(numbers) < 1 << 63:
        raise ValueError(f"tensor: there is a number outside int64 in {type(data).__name__}")
    made = empty_contiguous((len(numbers),) if numbers is data else (), kind)
    (C_TYPES[kind] * len(numbers)).from_address(made.address)[:] = numbers
    return made


@function(factory=True)
def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor from numbers, nested lists, arrays or tensors. Python ints make int64, floats float32;
    NumPy's numbers, arrays and tensors inside lists keep their dtype, or the one to which they are promoted together.

    ValueError for nested lists of different lengths.
    """
    if type(data) in _PLAIN:
        few = _of_few(data, dtype, device)
        if few is not None:
            return few.requires_grad_() if requires_grad else few
    if isinstance(data, Tensor):
        with no_grad():
            result = data.detach().to(data.dtype if dtype is None else dtype, copy=True)
            if device is not None:
                result = result.to(device=check_device(device))
        return result.requires_grad_() if requires_grad else result
    if dtype is not None and as_dtype(dtype).is_quantized:
        return finish(tensor(data, _dtype.float32).to(dtype), device, requires_grad)
    kinds: set[DType] = set()
    if isinstance(data, (list, tuple)):
        data = _read_list(data, kinds)
    from_python = not isinstance(data, (np.ndarray, np.generic))
    wide = from_python and dtype is not None and as_dtype(dtype) is _dtype.uint64
    try:
        array = np.array(data, "uint64" if wide else None)  # NumPy would convert them to floats
    except OverflowError as error:
        raise ValueError(f"tensor: {_dtype.uint64} cannot hold what {type(data).__name__} holds") from error
    except ValueError as error:
        raise ValueError(f"tensor: the nested lists do not have equal lengths ({error})") from error
    if _too_large(array) and dtype is not None and as_dtype(dtype).has_gradient:
        array = array.astype("float64")
    if array.dtype == "uint64" and from_python and dtype is None or _too_large(array):
        raise ValueError(f"tensor: there is a number outside int64 in {type(data).__name__}")
    if array.dtype.kind == "c" and dtype is not None and not as_dtype(dtype).is_complex:
        raise TypeError(f"tensor: {type(data).__name__} holds complex numbers, which {as_dtype(dtype)} does not hold")
    if array.dtype == object or array.dtype.kind in "USVmM":
        raise (ValueError if array.ndim else TypeError)(
            f"tensor: cannot make numbers of {type(data).__name__} holding {_NOT_NUMBERS[array.dtype.kind]}"
        )
    if dtype is not None:
        if from_python and array.size and array.dtype.kind in "iuf" and as_dtype(dtype).category == 1:
            for value in (array.max(), array.min()):
                check_number("tensor", value.item(), as_dtype(dtype))
        return finish(
            tensor_of(array.astype(np.float32) if as_dtype(dtype).is_bits else array, as_dtype(dtype)),
            device,
            requires_grad,
        )
    if from_python:
        if kinds:
            return finish(tensor_of(array, reduce(promote, kinds)), device, requires_grad)
        kind = array.dtype.kind
        if kind == "c":
            return finish(tensor_of(array, complex_of(Default.dtype)), device, requires_grad)
        if kind == "f" or not array.size:
            return finish(tensor_of(array, _dtype.Default.dtype), device, requires_grad)
        array = array.astype("int64" if kind in "iu" else "bool")
    return finish(adopt_array(array), device, requires_grad)


@function()
def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array (a copy if it is read-only or has negative strides)."""
    if not isinstance(array, (np.ndarray, np.generic)):
        raise TypeError(f"from_numpy: takes a NumPy array, not {type(array).__name__}")
    return adopt_array(np.asarray(array))


@function(factory=True)
def arange(
    start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """start, start + step, … below end; int64 for ints, float32 otherwise."""
    if end is None:
        start, end = 0, start
    if type(start) is type(end) is type(step) is int and dtype is None and step > 0 and start <= end:  # as most are
        return finish(adopt_array(np.arange(start, end, step, dtype="int64"), _dtype.int64), device, requires_grad)
    start, end, step = (v.item() if isinstance(v, Tensor | np.generic) else v for v in (start, end, step))
    if not all(isfinite(v) for v in (start, end, step)):
        raise ValueError(f"arange: {start}, {end} and {step} must be finite")
    if step == 0:
        raise ValueError("arange: step is 0")
    if (end - start) * step < 0:
        raise ValueError(f"arange: the step {step} leads from {start} away from {end}")
    whole = all(isinstance(v, int) for v in (start, end, step))
    if dtype is not None and as_dtype(dtype).is_complex:
        raise NotImplementedError(f"arange: counts in real numbers, not in {as_dtype(dtype)}; convert them with .to()")
    kind = as_dtype(dtype) if dtype is not None else _dtype.int64 if whole else _dtype.Default.dtype
    if whole or kind.category != 1:
        values = np.arange(start, end, step, dtype="int64" if whole else "float64")
    else:  # integers from fractions: as torch, which cuts start and step, but not to find the count
        values = int(start) + int(step) * np.arange(ceil((end - start) / step), dtype="int64")
    return finish(tensor_of(values, kind), device, requires_grad)


@function(factory=True)
def eye(n: int, m: int | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal (n, m)."""
    n, m = index(n), index(n if m is None else m)
    made = zeros(n, m, dtype=dtype, device=device)
    if length := builtins.min(n, m):
        make(made._storage, (length,), (m + 1,), made.dtype, made.offset).fill_(1)
    return made.requires_grad_() if requires_grad else made


def scalar(value: float, dtype: DType) -> Tensor:
    """A zero-dimensional tensor."""
    result = empty_contiguous((), dtype)
    result.data_view()[0] = value
    return result


def _new(create: Any) -> Any:
    def made(x: Tensor, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
        return create(*args, dtype=dtype or x.dtype, device=device or x.device, **kwargs)

    return made


for _create in (zeros, ones, empty, full):
    method("new_" + _create.__name__)(_new(_create))


@function(factory=True)
def scalar_tensor(value: Any, dtype: Any = None) -> Tensor:
    """A zero-dimensional tensor (default float32)."""
    check_number("scalar_tensor", value, as_dtype(dtype or Default.dtype))
    return tensor_of(np.asarray(value), as_dtype(dtype or Default.dtype))


@function()
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` itself if it is a tensor of that dtype; arrays share their memory if the device is the CPU; other data is
    copied."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device) if dtype is not None or device is not None else data
    if isinstance(data, np.ndarray):
        found, place = from_numpy(data), check_device(device)
        return found if dtype is None and place is found.device else found.to(dtype=dtype, device=place)
    return tensor(data, dtype=dtype, device=device)


@method("new_tensor")
def _new_tensor(x: Tensor, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return tensor(data, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


@function()
def fill(x: Tensor, value: Any) -> Tensor:
    """A tensor like x, filled with one value."""
    return x * 0 + value if isinstance(value, Tensor) and value.requires_grad else full_like(x, float(value))


@function()
def range(
    start: float = 0, end: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, … up to and including end; torch's older arange."""
    if end is None:
        start, end = 0, start
    count = int(np.floor((end - start) / step)) + 1
    values = start + np.arange(count, dtype="float64") * step
    return tensor(values, dtype=dtype or _dtype.Default.dtype, device=device, requires_grad=requires_grad)


def construct(args: tuple[Any, ...], kind: DType) -> Tensor:
    """The result of Tensor(*args): an uninitialised tensor of the given sizes, or data in the dtype `kind`.

    TypeError for a single number that is not a size.
    """
    if not args:
        return empty_contiguous((0,), kind)
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype is not kind:
            raise TypeError(f"{_name(kind)}: got a tensor of {args[0].dtype}; convert it with .to({kind.name})")
        return args[0].detach()
    if len(args) == 1 and isinstance(args[0], Storage):
        raise TypeError(f"{_name(kind)}: takes sizes or data, not a storage")
    if len(args) == 1 and isinstance(args[0], (list, tuple, builtins.range, np.ndarray)) and type(args[0]) is not Size:
        return tensor(list(args[0]) if isinstance(args[0], builtins.range) else args[0], dtype=kind, device=cpu)
    return empty_contiguous(as_shape(args), kind)


def _name(kind: DType) -> str:
    found = {dtype: name for name, dtype in TYPED.items()}.get(kind.name)
    return "Tensor" if kind is Default.dtype or found is None else found


def _construct(cls: type, *args: Any, device: Any = None) -> Any:
    """torch's older constructor: uninitialised of given sizes, or from data, in the default dtype."""
    if device is not None and check_device(device) is not cpu:
        raise ValueError(f"Tensor: begins on the CPU; move it with .to({str(device)!r})")
    source = construct(args, Default.dtype)
    made: Any = object.__new__(cls)
    made.point_to(source._storage, source._shape, source.strides, source.dtype, source.offset)
    set_requires_grad(made, False)
    set_node(made, None)
    return made


Tensor.__init__ = lambda made, *args, **kwargs: None  # type: ignore[method-assign]
Tensor.__new__ = staticmethod(_construct)  # type: ignore[method-assign]

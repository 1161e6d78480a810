"""Tensor: a strided view of a storage, with the feel of torch.Tensor. Operations are installed on it by `ops/`."""

from __future__ import annotations

import ctypes
import importlib
import struct
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, overload
from weakref import ref

from . import dtype as _dtype
from .device import Device, as_device, cpu, get_default_device
from .dtype import DType, as_dtype
from .grad_mode import STATE
from .launch import note_gradient, refuse_capture
from .lazy import np
from .shape import Shape, Size, contiguous_strides, dense_layout, is_contiguous, normalize_dim
from .storage import CAPTURES, Storage

if TYPE_CHECKING:
    import numpy

    from .autograd import Node
    from .tensor_methods import TensorMethods

    Array = numpy.ndarray[Any, Any]


else:
    TensorMethods = object  # ops attach their methods by name


class _ArrayInterface:
    """Lets NumPy view the memory of a tensor that is not dense and keeps its storage alive meanwhile."""

    __slots__ = ("__array_interface__", "storage")

    def __init__(self, tensor: Tensor) -> None:
        size = tensor.dtype.itemsize
        # The stride of a dim of one element, which is never gone, may be greater than NumPy takes.
        steps = zip(tensor._shape, tensor.strides, strict=True)
        self.storage = tensor._storage
        self.__array_interface__ = {
            "version": 3, "data": (tensor.address, False), "typestr": _numpy_kind(tensor.dtype.numpy_name).str,
            "shape": tensor._shape, "strides": tuple([stride * size if n > 1 else 0 for n, stride in steps]),
        }  # fmt: skip


def _dense_array(tensor: Tensor) -> Array:
    """NumPy's view of a dense tensor's memory, which keeps its storage alive: in a fifth of the time."""
    memory: Any = (ctypes.c_ubyte * (tensor.numel() * tensor.dtype.itemsize)).from_address(tensor.address)
    memory.owner = tensor._storage  # which lives as long as the array
    return np.ndarray(tensor._shape, _numpy_kind(tensor.dtype.numpy_name), memory)


@cache
def _numpy_kind(name: str) -> Any:
    return np.dtype(name)


_new = object.__new__
_sized = tuple.__new__
_PACKAGE = __name__.partition(".")[0]
set_attribute = object.__setattr__  # of a tensor, without the question whether it is guarded
_GEOMETRY = ("_storage", "_shape", "strides", "dtype", "device", "offset", "address")


class _Slots:
    """The attributes of every tensor, in slots, which Python reads fastest."""

    __slots__ = (*_GEOMETRY, "_requires_grad", "node")


# As assignments do, a third of their time: the guard is not asked.
set_requires_grad = vars(_Slots)["_requires_grad"].__set__
set_node = vars(_Slots)["node"].__set__


class _Unguarded(_Slots):
    """A tensor while it is made, whose geometry can be assigned."""


_PARTS = ("real", "imag")
_GUARDED = frozenset((*_GEOMETRY, "shape", "storage", *_PARTS))
_HOW_TO_CHANGE = {
    "shape": "use reshape() or resize_()", "strides": "use as_strided()", "dtype": "use to(dtype)",
    "device": "use to(device)",
}  # fmt: skip


class Tensor(_Slots, TensorMethods):
    """`shape`, `strides` (elements) and `offset` into `_storage`; `dtype`, `device`; `address`, where the first element
    lies on its device; and, for autograd, `requires_grad`, `grad`, `node`. The engine itself reads and writes
    `_requires_grad` and `_grad`, which check nothing, and `_shape`, a plain tuple, which Python reads much faster;
    `_storage` is the engine's, `storage()` has torch's form.

    What says where the elements lie is given together (`make`, `Tensor.point_to`) and cannot be assigned: a kernel
    trusts it.
    """

    _storage: Storage
    _shape: Shape
    strides: Shape
    dtype: DType
    address: Any  # an int; a HiddenAddress where the host cannot see the memory
    device: Device
    offset: int
    _requires_grad: bool
    node: Node | None
    _grad: Tensor | None = None
    is_parameter: bool = False  # marked by nn.Parameter
    _is_buffer: bool = False  # marked by nn.Buffer, with:
    persistent: bool = True  # whether a module saves it
    shard_groups: tuple[Any, ...] = ()  # of a parameter: the processes that divide it, from the outside
    part: Any = None  # of such a parameter: what this process has (nn.part)
    dense: bool = True  # every element has its place in memory
    weak: bool = False  # made from a bare Python number: does not widen what it meets
    hooks: list[Any] | None = None
    after_hooks: list[Any] | None = None
    view_of: tuple[Any, tuple[Any, ...], Tensor] | None = None  # of a view: its op, arguments, memory's owner
    views: list[ref[Tensor]] | None = None  # views of this tensor that autograd must know when it is written

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.partition(".")[0] != _PACKAGE:
            importlib.import_module(".subclasses", __package__).begin(cls)

    __array_priority__ = 1000  # NumPy's operators leave the work to ours

    if TYPE_CHECKING:  # what autograd.py and ops/ (create, elementwise/cast, operators, index) give it

        def __init__(self, *args: Any, device: Any = None) -> None: ...
        def backward(
            self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
            inputs: Tensor | Sequence[Tensor] | None = None,
        ) -> None: ...  # fmt: skip
        def _accumulate(self, other: Tensor) -> None: ...
        def _row_major(self) -> Tensor: ...

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _GUARDED:
            if name in _PARTS:
                getattr(self, name).copy_(value)
                return
            hint = f"; {_HOW_TO_CHANGE[name]}" if name in _HOW_TO_CHANGE else ""
            raise AttributeError(f"{name}: a tensor's {name} cannot be assigned{hint}")
        set_attribute(self, name, value)

    def point_to(self, storage: Storage, shape: Shape, strides: Shape, dtype: DType, offset: int = 0) -> None:
        """Has this tensor show other memory. The caller answers for it that the elements lie in the storage."""
        found = make(storage, shape, strides, dtype, offset)
        for name in _GEOMETRY:
            set_attribute(self, name, getattr(found, name))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.point_to(*(state.pop(name) for name in _STATE))
        for name, value in state.items():
            set_attribute(self, name, value)

    # -- where the elements are

    @property
    def shape(self) -> Size:
        """The size of each dim."""
        return _sized(Size, self._shape)

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def is_leaf(self) -> bool:
        return self.node is None

    @property
    def _own_part(self) -> Tensor:
        """What this process has of it: the tensor itself, except of a DTensor."""
        return self

    def _beside(self, made: Tensor, random: bool = False) -> Tensor:
        """A new tensor to compute with this one: itself; of a DTensor another one. `random`: all its processes take the
        numbers of the first."""
        return made

    @property
    def _version(self) -> int:
        return self._storage.version

    def dim(self) -> int:
        return len(self._shape)

    def numel(self) -> int:
        return prod(self._shape)

    if TYPE_CHECKING:

        @overload
        def size(self) -> tuple[int, ...]: ...
        @overload
        def size(self, dim: int) -> int: ...

    def size(self, dim: int | None = None) -> Any:
        """The shape, as a tuple that can count its elements, or the size of one dim."""
        if dim is not None:
            return self._shape[normalize_dim(dim, len(self._shape), "size")]
        return _sized(Size, self._shape)

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[normalize_dim(dim, len(self._shape), "stride")]

    def element_size(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self._storage.nbytes if self.dtype.is_quantized else self.numel() * self.dtype.itemsize

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie densely row by row, or in another order: channels_last."""
        if memory_format is None:  # called for each operand of most ops
            return self.strides == dense_layout(self._shape)[1] or is_contiguous(self._shape, self.strides)
        name = getattr(memory_format, "name", None)
        if not isinstance(name, str):
            raise TypeError(f"is_contiguous: memory_format is one of torch's, not {type(memory_format).__name__}")
        if name.startswith("channels_last"):
            order = (0, *range(2, self.ndim), 1) if self.ndim == 4 + name.endswith("3d") else ()
            return bool(order) and is_contiguous(
                tuple(self._shape[d] for d in order), tuple(self.strides[d] for d in order)
            )
        return self.strides == dense_layout(self._shape)[1] or is_contiguous(self._shape, self.strides)

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def data_ptr(self) -> int:
        return self.address

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-dim tensor")
        return self._shape[0]

    # -- to and from plain data

    @classmethod
    def from_buffer(cls, data: Any, shape: Sequence[int], dtype: DType | str) -> Tensor:
        """Copies `data` (bytes or memoryview, row-major, little-endian) into a new tensor of the CPU.

        ValueError when its length is not the shape's.
        """
        kind, sizes = as_dtype(dtype), tuple(map(index, shape))
        count, strides = dense_layout(sizes)
        nbytes = count * kind.itemsize or _no_bytes(kind)
        source = memoryview(data).cast("B")
        if len(source) != nbytes:
            raise ValueError(f"from_buffer: {sizes} of {kind} holds {nbytes} bytes, the buffer {len(source)}")
        return make(Storage.of_bytes(source), sizes, strides, kind)

    def assign(self, values: Any) -> None:
        """Writes numbers into a dense tensor, in row-major order: one number, or a flat sequence of as many as there
        are elements. The memory stays where it is, so a Graph that reads it sees them at its next replay.

        ValueError for another count; TypeError or ValueError for numbers that the dtype cannot hold; RuntimeError in a
        capture, whose replay would not write them.
        """
        refuse_capture("assign")
        self.assign_constants(values)

    def assign_constants(self, values: Any) -> None:
        """As `assign`, also while a Graph is captured: for memory outside the Graph, which no replay writes."""
        kind, count = self.dtype, self.numel()
        if isinstance(values, (int, float)):
            values = (values,)
        if kind.is_bits or kind is _dtype.float16 or not kind.format:
            raise TypeError(f"assign: takes tensors of whole numbers, float32 or float64, not {kind}")
        if len(values) != count or not self.is_contiguous():
            raise ValueError(f"assign: {len(values)} numbers do not fill a dense tensor of shape {self.shape}")
        try:
            data = struct.pack(f"{count}{kind.format}", *values)
        except (struct.error, OverflowError) as error:
            raise ValueError(f"assign: {kind} cannot hold these numbers: {error}") from error
        self._storage.write(self.offset * kind.itemsize, data)
        self._storage.version += 1

    def read_values(self) -> memoryview:
        """A copy of the elements of a dense tensor, flat and typed, read from its device. RuntimeError in a capture."""
        refuse_capture("reading a tensor")
        size = self.dtype.itemsize
        if self.dtype.is_complex:
            raise TypeError(f"read_values: a memoryview has no {self.dtype}: read the parts, view_as_real(x)")
        return memoryview(self._storage.read(self.offset * size, self.numel() * size)).cast(self.dtype.format)  # type: ignore[call-overload]

    def data_view(self) -> Any:
        """The elements of a dense tensor as a flat, typed memoryview: of the CPU's memory itself, writable; of other
        devices a copy that cannot be written. RuntimeError in a capture, which would keep what it reads."""
        refuse_capture("data_view")
        if not self.is_contiguous():
            raise ValueError(f"data_view: a tensor of shape {self.shape} with strides {self.strides} is not contiguous")
        size = self.dtype.itemsize
        if self.dtype.is_quantized:
            raise TypeError(f"data_view: a {self.dtype} tensor has no elements to view: convert it with .to(float32)")
        if self.dtype.is_complex:
            raise TypeError(f"data_view: a memoryview has no {self.dtype}: view the parts, view_as_real(x)")
        if not self.device.backend.host_visible:
            return self.read_values().toreadonly()
        memory = (ctypes.c_ubyte * (self.numel() * size)).from_address(self.address)
        memory.owner = self._storage  # type: ignore[attr-defined]  # which lives as long as the view
        return memoryview(memory).cast("B").cast(self.dtype.format)  # type: ignore[call-overload]

    def array(self) -> Array:
        """A NumPy view of the stored elements (bfloat16 and 8-bit floats as their bits); of memory that the host cannot
        see a copy, which cannot be written. RuntimeError in a capture, which would keep what it reads."""
        refuse_capture("a NumPy array of a tensor")
        return self.constant_array()

    def constant_array(self) -> Array:
        """As `array`, also while a Graph is captured: for elements that no replay changes."""
        if self.dtype.is_quantized:
            raise TypeError(f"a {self.dtype} tensor has no elements to view: convert it with .to(float32)")
        if 0 in self._shape:
            return np.empty(self._shape, self.dtype.numpy_name)
        if self.device.backend.host_visible:
            return _dense_array(self) if self.is_contiguous() else np.asarray(_ArrayInterface(self))
        size = self.dtype.itemsize
        span = 1 + sum((n - 1) * step for n, step in zip(self._shape, self.strides, strict=True))
        flat = np.frombuffer(bytes(self._storage.read(self.offset * size, span * size)), self.dtype.numpy_name)
        return np.lib.stride_tricks.as_strided(
            flat, self._shape, tuple(step * size for step in self.strides), writeable=False
        )

    def array_to_check(self) -> Array:
        """As `array`, for elements that decide whether arguments are valid and nothing else: what traces a call lets
        them be read."""
        refuse_capture("a NumPy array of a tensor")
        return _elements_of(self)

    def numpy(self, *, force: bool = False) -> Array:
        """A NumPy array that shares the memory; bfloat16 and 8-bit floats, which NumPy lacks, are copied to float32.

        RuntimeError where the tensor requires a gradient, of which NumPy would not know, unless inside no_grad() or
        with `force`.
        """
        if self._requires_grad and not force and STATE.enabled:
            raise RuntimeError(
                "numpy(): Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead"
            )
        return self.to(_dtype.float32).array() if self.dtype.is_bits else self.array()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        array = self.numpy()
        return array.astype(dtype) if dtype is not None else array.copy() if copy else array

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Tensor:
        """A tensor of what a function of NumPy made of this one; uint8 for bools, as in torch."""
        return adopt_array(np.asarray(array.astype("uint8") if array.dtype == bool else array))

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        kind, shape = C_TYPES.get(self.dtype), self._shape
        if kind is not None and 0 < len(shape) < 3 and self.device is cpu and not CAPTURES.count:
            count, strides = dense_layout(shape)
            if count <= _FEW and (self.strides == strides or count < 2):  # without NumPy's array
                values = (kind * count).from_address(self.address)[:]
                size = shape[-1]
                return values if len(shape) == 1 else [values[i * size : i * size + size] for i in range(shape[0])]
        return self.detach().numpy().tolist()

    def item(self) -> Any:
        """The value of a tensor of one element."""
        read = _READERS.get(self.dtype)
        if read is not None and self.device is cpu and not CAPTURES.count and (not self._shape or self.numel() == 1):
            return read(self.address).value
        if self.numel() != 1:
            raise ValueError(
                f"item: a Tensor with {self.numel()} elements cannot be converted to Scalar: a tensor of shape "
                f"{self.shape} holds {self.numel()} elements, not one"
            )
        kind = self.dtype
        if kind is not _dtype.bfloat16 and (kind.is_bits or not kind.format):
            return self.detach().numpy().reshape(-1)[0].item()
        refuse_capture("item")
        if self.device is not cpu:
            data: Any = self._storage.read(self.offset * kind.itemsize, kind.itemsize)
        else:
            data = ctypes.string_at(self.address, kind.itemsize)
        if kind.itemsize == 2 and kind.is_floating_point:
            return struct.unpack("<e", data)[0] if kind is _dtype.float16 else struct.unpack("<f", b"\0\0" + data)[0]
        return memoryview(data).cast(kind.format)[0]  # type: ignore[call-overload]

    def __float__(self) -> float:
        return float(self._real_item("float"))

    def __int__(self) -> int:
        return int(self._real_item("int"))

    def __complex__(self) -> complex:
        return complex(self.item())

    def _real_item(self, name: str) -> Any:
        """item(). RuntimeError for a number with an imaginary part."""
        value = self.item()
        if isinstance(value, complex):
            if value.imag:
                raise RuntimeError(f"{name}: {value} has an imaginary part; take .real or .imag of the tensor first")
            return value.real
        return value

    def __index__(self) -> int:
        if self.dtype.has_gradient or self.numel() != 1:
            raise TypeError(f"a tensor of {self.dtype} and shape {self.shape} cannot be an index")
        return int(self.item())

    def __bool__(self) -> bool:
        if self._shape and self.numel() != 1:
            raise ValueError(
                "Boolean value of Tensor with more than one value is ambiguous: the truth of a tensor of shape "
                f"{self.shape} is ambiguous: use .any() or .all()"
            )
        return bool(self.item())

    def __iter__(self) -> Any:
        if not self._shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        same = self == value
        if not isinstance(same, Tensor):
            raise TypeError(f"in: a tensor holds numbers, not {type(value).__name__}")
        return bool(same.any())

    __hash__ = object.__hash__

    def __getstate__(self) -> dict[str, Any]:
        """The state for copy.deepcopy and pickle: shared memory stays shared; the place in a graph is dropped, and the
        gradient of a parameter, as torch does.
        RuntimeError in a capture, whose replay would not copy again."""
        refuse_capture("a deep copy or a pickle of a tensor")
        kept = {name: getattr(self, name) for name in (*_STATE, "_requires_grad")} | {"node": None}
        left_out: tuple[str, ...] = ("hooks", "after_hooks", "view_of", "views")
        if self.is_parameter:
            left_out += ("_grad",)
        return kept | {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol: only leaves "
                "can be copied, not the graph of a computed tensor: detach() first"
            )
        made = memo[id(self)] = _new(type(self))
        made.__setstate__(deepcopy(self.__getstate__(), memo))
        return made

    def __repr__(self) -> str:
        from .display import tensor_repr  # late: few tensors are shown

        text = tensor_repr(self)
        return f"Parameter containing:\n{text}" if self.is_parameter else text

    def __format__(self, spec: str) -> str:
        if self._shape and spec:
            raise TypeError(f"format {spec!r} is for one number, not for a tensor of shape {self.shape}")
        return repr(self) if self._shape else format(self.item(), spec)

    # -- autograd

    @property
    def requires_grad(self) -> bool:
        """Whether backward() computes a gradient for it; of a leaf it can be set. RuntimeError for integers."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        if not isinstance(on, bool):
            raise RuntimeError(f"requires_grad: takes True or False, not {on!r}")
        if on and not self.dtype.has_gradient:
            raise RuntimeError(
                "requires_grad: Only Tensors of floating point and complex dtype can require gradients: only "
                f"floating-point and complex tensors have gradients, not {self.dtype}"
            )
        if self.node is not None:
            raise RuntimeError("requires_grad: this tensor was computed from others that have gradients; use detach()")
        self._requires_grad = on

    def requires_grad_(self, on: bool = True) -> Tensor:
        """Sets `requires_grad`; that of a computed tensor, which is True, may be set to True again."""
        if self.node is None or on is not True:
            self.requires_grad = on
        return self

    @property
    def grad(self) -> Tensor | None:
        """The sum of the gradients of all backward() calls, in the shape and dtype of the tensor; None before.
        RuntimeError if a tensor of another shape, dtype or device is assigned.
        """
        if CAPTURES.count:
            note_gradient(self, self._grad)
        return self._grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        if CAPTURES.count:
            note_gradient(self)
        if gradient is None:
            set_attribute(self, "_grad", None)
            return
        if not isinstance(gradient, Tensor):
            raise TypeError(f"grad: takes a Tensor or None, not {type(gradient).__name__}")
        if gradient is self:
            raise RuntimeError("grad: a tensor cannot be its own gradient")
        for name in ("dtype", "device", "shape"):
            own, its = getattr(self, name), getattr(gradient, name)
            if own != its:
                raise RuntimeError(f"grad: the gradient has the {name} {its}, the tensor {own}")
        self._grad = gradient

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def detach(self) -> Tensor:
        """The same memory outside any gradient computation."""
        return make(self._storage, self._shape, self.strides, self.dtype, self.offset)

    @property
    def data(self) -> Tensor:
        """The same memory outside any gradient computation, which does not notice what is written through it. Assigned
        another tensor, this one shows that one's memory, in its shape and dtype.
        """
        owner = self._storage.owner
        memory = owner if isinstance(owner, Storage) else self._storage
        own = Storage.adopt(memory.address, memory.nbytes, memory, memory.device)  # with a version of its own
        return make(own, self._shape, self.strides, self.dtype, self.offset)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data: takes a Tensor, not {type(value).__name__}")
        if self._requires_grad and not value.dtype.has_gradient:
            raise RuntimeError(f"data: this tensor requires a gradient, which {value.dtype} does not have")
        version, shown = self._storage.version, value.data
        self.point_to(shown._storage, shown._shape, shown.strides, shown.dtype, shown.offset)
        self._storage.version = version
        self.view_of = self.views = None


OWN_METHODS = frozenset(vars(Tensor))  # what is not attached to it in ops/


_STATE = ("_storage", "_shape", "strides", "dtype", "offset")
_FEW = 64  # elements
# What reads one element of the CPU's memory.
C_TYPES: dict[DType, Any] = {
    _dtype.float32: ctypes.c_float, _dtype.float64: ctypes.c_double, _dtype.int64: ctypes.c_int64,
    _dtype.int32: ctypes.c_int32, _dtype.int16: ctypes.c_int16, _dtype.uint8: ctypes.c_uint8,
    _dtype.bool_: ctypes.c_bool,
}  # fmt: skip
_elements_of = Tensor.constant_array
_READERS: dict[DType, Any] = {kind: c_type.from_address for kind, c_type in C_TYPES.items()}


def _no_bytes(dtype: DType) -> int:
    """0. TypeError for block formats, whose elements have no size of their own."""
    if dtype.is_quantized:
        raise TypeError(f"{dtype} holds matrices in blocks, not single elements: make one with empty() or quantize()")
    return 0


def make(storage: Storage, shape: Shape, strides: Shape, dtype: DType, offset: int = 0) -> Tensor:
    """A tensor from its parts, on the device of its storage."""
    made: Any = _new(_Unguarded)
    made._storage = storage
    made._shape = shape
    made.strides = strides
    made.dtype = dtype
    made.device = storage.device
    made.offset = offset
    made.address = storage.address + offset * dtype.itemsize if offset else storage.address
    made._requires_grad = False
    made.node = None
    made.__class__ = Tensor  # from here on the geometry is guarded; slots of a Tensor cost three times as much to set
    return made


def empty_contiguous(
    shape: Shape, dtype: DType = _dtype.float32, device: Device = cpu, layout: tuple[int, Shape] | None = None
) -> Tensor:
    """An uninitialised dense tensor. ValueError for a negative size, MemoryError where there is no memory for it.
    `layout`: what dense_layout(shape) gives, where the caller has it.
    """
    count, strides = layout or dense_layout(shape)
    storage = Storage(count * dtype.itemsize or _no_bytes(dtype), device)
    made: Any = _new(_Unguarded)  # as make, without its frame
    made._storage = storage
    made._shape = shape
    made.strides = strides
    made.dtype = dtype
    made.device = device
    made.offset = 0
    made.address = storage.address
    made._requires_grad = False
    made.node = None
    made.__class__ = Tensor
    return made


_KINDS: dict[Any, DType] = {}  # by NumPy's dtypes, whose names take long to find


def _dtype_of(array: Array) -> DType:
    """TypeError for objects and texts."""
    found = _KINDS.get(array.dtype)
    if found is None:
        if array.dtype.kind in "OSU":
            what = "objects" if array.dtype.kind == "O" else "texts"
            raise TypeError(f"an array of {what} (shape {array.shape}) is not a tensor: turn them into numbers first")
        found = _KINDS[array.dtype] = as_dtype(array.dtype)
    return found


_byte_of: Any = ctypes.c_ubyte.from_buffer


def _address_of(array: Array) -> int:
    """Where the elements of a contiguous array that may be written lie."""
    try:
        return ctypes.addressof(_byte_of(array))  # a twentieth of the time of __array_interface__
    except (BufferError, TypeError, ValueError):  # no elements, or a dtype that buffers do not have
        return array.__array_interface__["data"][0]


def adopt_array(array: Array, dtype: DType | None = None) -> Tensor:
    """A tensor over a NumPy array's memory; copied where strides are negative or broken, or the array is read-only."""
    kind = _dtype_of(array) if dtype is None or array.dtype.hasobject else dtype
    flags, shape = array.flags, array.shape
    if flags.c_contiguous and flags.writeable and shape and array.dtype.isnative:
        return make(Storage.adopt(_address_of(array), array.nbytes, array), shape, contiguous_strides(shape), kind)
    size = array.itemsize
    if not array.flags.writeable or any(s < 0 or s % size for s in array.strides) or array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    shape = array.shape
    if not shape:
        array = array.reshape(1)  # NumPy's scalars show a temporary
    if array.flags.c_contiguous:
        return make(Storage.adopt(_address_of(array), array.nbytes, array), shape, contiguous_strides(shape), kind)
    address = array.__array_interface__["data"][0]
    strides = tuple(s // size for s in array.strides)
    span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if array.size else 0
    return make(Storage.adopt(address, span * size, array), shape, strides, kind)


def check_device(device: Device | str | None) -> Device:
    """The device of a creation function."""
    return get_default_device() if device is None else as_device(device)

"""What flows through an ONNX graph: tensors, arrays of element types without a pyapp dtype, sequences (lists), maps
(dicts), and None for an absent optional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

from pyapp.engine import Tensor, as_dtype
from pyapp.engine.budget import Budget, OverBudget, current, half_of_memory
from pyapp.engine.device import Device, cpu
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.formats.foreign_dtypes import code_table
from pyapp.formats.onnx_file import BITS, ELEMENT_TYPES, SparseTensor, StoredTensor, read_tensor, unpack_small

INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
DENSE = frozenset((*INTEGERS, "bool", "float16", "bfloat16", "float32", "float64"))  # elements that tensors have
SMALL_INTEGERS = {"uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1)}  # lowest and highest value
# 8-bit and smaller floats: bits of the exponent, bits of the fraction, bias, largest value, whether it has infinity.
SMALL_FLOATS = {
    "float8_e4m3fn": (4, 3, 7, 448.0, False),
    "float8_e4m3fnuz": (4, 3, 8, 240.0, False),
    "float8_e5m2": (5, 2, 15, 57344.0, True),
    "float8_e5m2fnuz": (5, 2, 16, 57344.0, False),
    "float4_e2m1fn": (2, 1, 1, 6.0, False),
    "float6_e2m3fn": (2, 3, 1, 7.5, False),
    "float6_e3m2fn": (3, 2, 3, 28.0, False),
}

MORE_MEMORY = "If you trust the file, raise its memory_limit: onnx.load(file, memory_limit=bytes)"


class ForeignArray:
    """An array of an `element` type that tensors do not have: "string" (a NumPy array of str), "complex64" and
    "complex128", "uint4" … "int2" (in int8 or uint8), floats of 8 bits and fewer (in float32, whose values are exactly
    theirs)."""

    __slots__ = ("array", "element")

    def __init__(self, element: str, array: Any) -> None:
        self.element, self.array = element, array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return int(self.array.ndim)

    @property
    def device(self) -> Device:
        return cpu

    def numel(self) -> int:
        return int(self.array.size)

    def numpy(self) -> Any:
        return self.array

    def __repr__(self) -> str:
        return f"ForeignArray({self.element!r}, {self.array!r})"


Value: TypeAlias = "Tensor | ForeignArray | list[Any] | dict[Any, Any] | None"


def element_of(x: Any) -> str:
    """The element type of a tensor or array."""
    return x.element if isinstance(x, ForeignArray) else str(x.dtype.name)


class _Watch:
    """What operators read on the host. While a plan is made, `hit` says whether a step read a value that is not known
    before the run (`ids`); the arrays of known ones (`known`) are kept in `arrays`, because a tensor cannot be read
    while kernels are recorded.
    """

    ids: frozenset[int] = frozenset()
    known: frozenset[int] = frozenset()
    hit = False
    arrays: dict[Any, tuple[Any, Any]] = {}  # each plan has its own

    def read(self, x: Any) -> Any:
        """The elements of a tensor as a NumPy array."""
        kept = self.arrays.get(id(x))
        if kept is not None:
            return kept[1]
        if id(x) in self.ids:
            self.hit = True
        array = x.detach().cpu().numpy()
        if id(x) in self.known:
            self.arrays[id(x)] = x, array
        return array

    def knows(self, x: Any) -> bool:
        """Whether a tensor has the same elements at every run of the plan."""
        return id(x) in self.known or id(x) in self.arrays

    def remember(self, name: str, owners: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """What is computed of `owners`, once if they are known."""
        key = (name, *map(id, owners))
        kept = self.arrays.get(key)
        if kept is None:
            kept = owners, compute()
            if all(id(owner) in self.known for owner in owners):
                self.arrays[key] = kept
        return kept[1]


WATCH = _Watch()


def array_of(x: Any) -> Any:
    """The elements as a NumPy array; of bfloat16 in float32."""
    return x.array if isinstance(x, ForeignArray) else WATCH.read(x)


def made_of(array: Any, element: str | None = None, device: Any = None) -> Any:
    """A value of a NumPy array: a tensor, or a ForeignArray for the element types that tensors do not have."""
    array = np.asarray(array)
    if element is None:
        kind = array.dtype.name
        element = "string" if array.dtype.kind in "OUS" else kind
    if element not in DENSE:
        return ForeignArray(element, array.astype(object) if element == "string" else array)
    if element == "bfloat16":
        made = Tensor.from_buffer(np.ascontiguousarray(array, np.float32).tobytes(), array.shape, "float32")
        made = made.to(as_dtype("bfloat16"))
    else:
        made = Tensor.from_buffer(np.ascontiguousarray(array, element).tobytes(), array.shape, element)
    return made if device is None or device is cpu else made.to(device)


def like(x: Any, array: Any) -> Any:
    """A NumPy array as a value of the element type and on the device of x."""
    return made_of(array, element_of(x), x.device)


def ints(x: Any) -> list[int]:
    """The numbers of a tensor that says a shape, axes, a count …"""
    if x is None:
        raise ValueError("an input that says a shape or axes is missing")
    if isinstance(x, ForeignArray) or x.dtype.category != 1:
        raise TypeError(f"expected whole numbers, got {element_of(x)}")
    return [int(value) for value in array_of(x).reshape(-1)]


def scalar(x: Any, default: Any = None) -> Any:
    """The number in a tensor of one element; the default if x is absent."""
    if x is None:
        return default
    if x.numel() != 1:
        raise ValueError(f"expected one number, got a tensor of shape {x.shape}")
    return x.array.reshape(-1)[0] if isinstance(x, ForeignArray) else array_of(x).reshape(-1)[0].item()


def floats(x: Any) -> list[float]:
    """The numbers of a tensor."""
    return [float(value) for value in array_of(x).reshape(-1)]


def element_name(code: int) -> str:
    """The element type of a code. ValueError for an unknown one."""
    found = ELEMENT_TYPES.get(code)
    if found is None:
        raise ValueError(f"the element type {code} is unknown; known are 1 to {max(ELEMENT_TYPES)}")
    return found


def text(value: bytes | str) -> str:
    """The text of an attribute."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def from_stored(stored: StoredTensor | SparseTensor, device: Any = None) -> Any:
    """The value of a tensor of the file."""
    if isinstance(stored, SparseTensor):
        return _from_sparse(stored, device)
    element, shape = stored.element, stored.shape
    if element == "string":
        texts = [text.decode("utf-8", "surrogateescape") for text in stored.texts or ()]
        return ForeignArray("string", np.array(texts, object).reshape(shape))
    if element in DENSE:
        return read_tensor(stored, device=device)
    data = stored.read()
    if element in SMALL_INTEGERS:
        return ForeignArray(element, unpack_small(element, data, stored.numel).reshape(shape))
    if element.startswith("complex"):
        return ForeignArray(element, np.frombuffer(data, element).reshape(shape))
    if BITS[element] < 8:
        codes = unpack_small("uint4", data, stored.numel)
    else:
        codes = np.frombuffer(data, np.uint8)
    return ForeignArray(element, code_table(element)[codes].reshape(shape))


def read_now(value: Any) -> Any:
    """An attribute; of a tensor with its bytes, because the file is closed when a node first runs."""
    if isinstance(value, SparseTensor):
        return replace(value, values=read_now(value.values), indices=read_now(value.indices))
    if isinstance(value, StoredTensor) and value.place is not None:
        return replace(value, data=bytes(value.read()), place=None)
    return value


def _from_sparse(stored: SparseTensor, device: Any) -> Any:
    values, indices = array_of(from_stored(stored.values)), array_of(from_stored(stored.indices))
    count = prod(stored.shape)
    try:
        check_room(stored.shape, stored.name, values.dtype.itemsize)
    except OverBudget as error:
        raise ModelError(f"the sparse tensor {stored.name!r}: {error}", hint=MORE_MEMORY) from None
    dense = np.zeros(stored.shape, values.dtype)
    if indices.ndim == 1:
        if indices.size and not 0 <= indices.min() <= indices.max() < count:
            raise ModelError(f"the sparse tensor {stored.name!r} of shape {stored.shape} has indices outside of it")
        dense.reshape(-1)[indices] = values
    else:
        if indices.size and ((indices < 0) | (indices >= np.array(stored.shape))).any():
            raise ModelError(f"the sparse tensor {stored.name!r} of shape {stored.shape} has indices outside of it")
        dense[tuple(indices.T)] = values
    return made_of(dense, stored.values.element, device)


def codes_of(x: ForeignArray) -> Any:
    """The bits of floats of 8 bits and fewer, as uint8."""
    table = code_table(x.element)
    codes = {float(value).hex() if value == value else "nan": code for code, value in reversed(list(enumerate(table)))}
    flat = [codes[float(v).hex() if v == v else "nan"] for v in x.array.reshape(-1)]
    return np.array(flat, np.uint8).reshape(x.shape)


def rounded_to(element: str, array: Any, saturate: bool = True) -> Any:
    """float32 or float64 numbers → the nearest of a small float type, ties to even, in float32. Too large ones become
    the
    largest with `saturate`, else infinite, or NaN where the type has no infinity (OCP 8-bit floating point, 5.2.1;
    the table of ONNX's Cast)."""
    exponent_bits, fraction_bits, bias, largest, infinite = SMALL_FLOATS[element]
    wide = array.astype(np.float64)
    size = np.abs(wide)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.where(size > 0, size, 1.0)))
        exponent = np.maximum(np.where(np.isfinite(exponent), exponent, 0), 1 - bias)
        step = np.ldexp(1.0, (exponent - fraction_bits).astype(np.int64))
        nearest = np.rint(size / step) * step
    beyond = nearest > largest
    if element == "float4_e2m1fn" or element.startswith("float6"):
        nearest = np.where(beyond, largest, np.where(np.isnan(wide), 0.0, nearest))  # they have no NaN: 0
        return np.copysign(nearest, wide).astype(np.float32)
    outside = np.inf if infinite else np.nan
    if saturate:
        # The infinities of types without them are NaN in the fnuz types only where ONNX's table says so.
        nearest = np.where(beyond, largest, nearest)
    else:
        nearest = np.where(beyond, outside, nearest)
    signed = np.copysign(nearest, wide)
    if element.endswith("fnuz"):
        signed = np.where(signed == 0, 0.0, signed)  # they have no -0
    return np.where(np.isnan(wide), np.nan, signed).astype(np.float32)


def rounded_to_scale(array: Any, saturate: bool = True, mode: str = "up") -> Any:
    """Positive numbers → powers of two (float8_e8m0fnu), rounded "up", "down" or to the "nearest" (ties up)."""
    wide = np.abs(array.astype(np.float64))
    with np.errstate(all="ignore"):
        exponent = np.log2(wide)
        if mode == "down":
            whole = np.floor(exponent)
        elif mode == "up":
            whole = np.ceil(exponent)
        else:
            low = np.floor(exponent)
            whole = np.where(wide >= 1.5 * np.exp2(low), low + 1, low)
        over = whole > 127
        found = np.exp2(np.clip(whole, -127, 127))
    found = np.where(over & ~np.asarray(saturate), np.nan, found)
    return np.where(np.isnan(wide), np.nan, found).astype(np.float32)


def axes_of(axes: Iterable[int], rank: int) -> list[int]:
    """Axes counted from the front. ValueError for those that the tensor does not have."""
    found = []
    for axis in axes:
        if not -rank <= axis < max(rank, 1):
            raise ValueError(f"axis {axis} is out of range for a tensor with {rank} dims")
        found.append(axis % rank if rank else 0)
    return found


def check_room(shape: Sequence[int], what: str, itemsize: int = 4) -> None:
    """Checks that there is room for an array whose shape comes from a file: OverBudget where its bytes are more than
    the run may take (`OnnxModule.memory_limit`), ValueError for a negative size."""
    count = 1
    for size in shape:
        if size < 0:
            raise ValueError(f"{what}: the shape {tuple(shape)} has a negative size")
        count *= size
    budget = current() or Budget(half_of_memory())
    try:
        budget.check(count * itemsize)
    except OverBudget as error:
        raise OverBudget(f"a tensor of shape {tuple(shape)} has {count:,} elements, too many: {error}") from None

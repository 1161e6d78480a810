"""What ported scripts ask for beside the ops: memory by torch's older names, questions with one answer here, a few ops.

Tensors are dense, of one process, and on the CPU: `to_sparse` gives the tensor itself, and so do `to_dense`,
`pin_memory` and `share_memory_`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from .. import dtype as _dtype
from ..dtype import as_dtype
from ..lazy import np
from ..op import describe
from ..shape import as_shape
from ..storage import Storage
from ..tensor import Tensor, check_device, make
from .base import array_of, computed, tensor_of
from .create import full_like, tensor
from .index_more import index_put, scatter_reduce
from .random import Generator, rand, randn
from .rearrange import pad
from .shape_more import tensor_split

# -- memory


def _resize(x: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """x in another shape, in place, dense: with the same elements as far as they go, and others that are not set.

    RuntimeError for a tensor that requires a gradient.
    """
    if x.requires_grad:
        raise RuntimeError("resize_: this tensor requires a gradient")
    shape = as_shape(sizes)
    needed = (x.offset + prod(shape)) * x.dtype.itemsize
    if needed > x.storage.nbytes:
        whole = Storage(needed)
        if x.storage.nbytes:
            whole.bytes_view()[: x.storage.nbytes] = x.storage.bytes_view()
        x.storage = whole
    seen = make(x.storage, shape, _row_major(shape), x.dtype, x.offset)
    x.shape, x.strides = seen.shape, seen.strides
    x.seen_through = x.views = None
    return x


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    from ..shape import contiguous_strides

    return contiguous_strides(shape)


def _set(x: Tensor, source: Tensor) -> Tensor:
    """x shows the memory of another tensor, in its shape."""
    if source.dtype is not x.dtype:
        raise RuntimeError(f"set_: {describe(source)} is of another dtype than {describe(x)}")
    x.data = source
    x.storage = source.storage
    return x


def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialised tensor whose elements lie `stride` apart."""
    shape, strides = as_shape((size,)), as_shape((stride,))
    check_device(device)
    if len(shape) != len(strides) or any(step < 0 for step in strides):
        raise ValueError(f"empty_strided: the strides {strides} do not fit the shape {shape}")
    span = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) if prod(shape) else 0
    kind = as_dtype(dtype or _dtype.Default.dtype)
    return make(Storage(span * kind.itemsize), shape, strides, kind).requires_grad_(requires_grad)


def empty_permuted(
    size: Any, physical_layout: Sequence[int], *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialised tensor, dense with its dims in another order: `physical_layout` from outside in."""
    shape = as_shape((size,))
    if sorted(physical_layout) != list(builtins.range(len(shape))):
        raise RuntimeError(f"empty_permuted: {tuple(physical_layout)} is no order of {len(shape)} dims")
    strides, step = [0] * len(shape), 1
    for d in reversed(physical_layout):
        strides[d], step = step, step * max(shape[d], 1)
    return empty_strided(shape, strides, dtype=dtype, device=device, requires_grad=requires_grad)


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector over the bytes of a buffer, which it shares where they can be written, from byte `offset` on."""
    kind = as_dtype(dtype)
    view = memoryview(buffer).cast("B")
    length = (len(view) - offset) // kind.itemsize if count < 0 else count
    if not 0 <= offset < len(view) or length < 1 or offset + length * kind.itemsize > len(view):
        raise ValueError(f"frombuffer: {length} of {kind} from byte {offset} on are not in {len(view)} bytes")
    array = np.frombuffer(view, kind.numpy_name, length, offset)
    found = tensor_of(array) if not kind.is_bits else _bits(array, kind)
    return found.requires_grad_(requires_grad)


def _bits(array: Any, kind: Any) -> Tensor:
    from ..tensor import adopt_array

    return adopt_array(array, kind)


def _new_empty_strided(
    x: Tensor, size: Any, stride: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return empty_strided(size, stride, dtype=dtype or x.dtype, device=device, requires_grad=requires_grad)


class _UntypedStorage:
    """A storage as torch.Tensor.untyped_storage() gives it: bytes, of which tensors are views."""

    def __init__(self, x: Tensor) -> None:
        self._storage = x.storage

    def data_ptr(self) -> int:
        return self._storage.address

    def nbytes(self) -> int:
        return self._storage.nbytes

    size = __len__ = nbytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _UntypedStorage) and other._storage is self._storage

    __hash__ = object.__hash__


# -- ops


def dsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along dim 2."""
    return tensor_split(x, indices_or_sections, 2)


def fill(x: Tensor, value: Any) -> Tensor:
    """A tensor like x, of one value."""
    return x * 0 + value if isinstance(value, Tensor) and value.requires_grad else full_like(x, float(value))


def constant_pad_nd(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """pad with a constant."""
    return _pad(x, list(pad), value=value)


_pad = pad


def narrow_copy(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """narrow, with memory of its own."""
    return x.narrow(dim, start, length).clone()


def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """x with elements of source, in order, at places in the flattened x; with `accumulate` added."""
    flat = index_put(x.reshape(-1), (index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    return x.copy_(put(x.clone(), index, source, accumulate))


def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """scatter_reduce of whole slices along a dim: "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ValueError(f"index_reduce: the reduction is prod, mean, amax or amin, not {reduce!r}")
    d = dim % x.ndim
    shape = [1] * x.ndim
    shape[d] = -1
    at = index.to("int64").reshape(shape).expand(*source.shape)
    return scatter_reduce(x, d, at, source, reduce, include_self=include_self)


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


def histogram(
    x: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """(counts, edges) of the elements: `bins` of equal width over `range`, or between given edges."""
    computed("histogram")
    edges = array_of(bins) if isinstance(bins, Tensor) else bins
    weights = None if weight is None else array_of(weight).reshape(-1)
    limits = None if range is None else (range[0], range[1])
    found, at = np.histogram(array_of(x).reshape(-1), edges, limits, weights=weights, density=density)
    return tensor_of(found, x.dtype), tensor_of(at, x.dtype)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None,
    layout: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I0(beta √(1 - x²)) / I0(beta), x from -1 to 1."""
    if window_length < 2:
        return tensor(np.ones(window_length), dtype=dtype or _dtype.Default.dtype)
    values = np.kaiser(window_length + periodic, beta)[:window_length]
    return tensor(values, dtype=dtype or _dtype.Default.dtype, device=device, requires_grad=requires_grad)


def is_same_size(x: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return x.shape == other.shape


def frobenius_norm(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares."""
    return x.norm(2, dim, keepdim)


def nuclear_norm(x: Tensor, keepdim: bool = False) -> Tensor:
    """The sum of a matrix' singular values."""
    from .decompose import matrix_norm

    return matrix_norm(x, "nuc", keepdim=keepdim)


# -- random numbers, in place


def _geometric(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Writes how many trials of probability p a success took."""
    if not 0 < p < 1:
        raise ValueError(f"geometric_: the probability lies between 0 and 1, not {p}")
    u = rand(x.shape, generator=generator).clamp(2.0**-25)
    return x.copy_((u.log() / float(np.log1p(-p))).ceil().clamp(1))


def _log_normal(x: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Writes exp of normal numbers."""
    return x.copy_((randn(x.shape, generator=generator) * std + mean).exp())


def _cauchy(x: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Writes numbers of the Cauchy distribution."""
    u = rand(x.shape, generator=generator)
    return x.copy_((u - 0.5).mul(np.pi).tan() * sigma + median)


# -- Python functions


def _apply(x: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Writes what a Python function makes of each element."""
    found = [callable(value) for value in x.reshape(-1).tolist()]
    return x.copy_(tensor(found).reshape(x.shape))


def _map(x: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Writes what a Python function makes of each pair of elements."""
    pairs = zip(x.reshape(-1).tolist(), other.expand(*x.shape).reshape(-1).tolist(), strict=True)
    return x.copy_(tensor([callable(a, b) for a, b in pairs]).reshape(x.shape))


# -- answers


def _itself(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return x


def _nothing(*args: Any, **kwargs: Any) -> None:
    """There are no streams."""


def _no(*_: Any) -> bool:
    return False


def _layout(_: Tensor) -> Any:
    from ..layout import strided

    return strided


def _dequantize(x: Tensor) -> Tensor:
    from ..quant import dequantize

    return dequantize(x) if x.dtype.is_quantized else x


_METHODS: dict[str, Any] = {
    "adjoint": lambda x: x.mT, "apply_": _apply, "as_subclass": _itself, "cauchy_": _cauchy, "coalesce": _itself,
    "conj": _itself, "conj_physical": _itself, "is_conj": _no, "is_neg": _no, "real": property(_itself),
    "cuda": lambda x, device=None, *_, **__: x.to("cuda" if device is None else device), "dequantize": _dequantize,
    "dsplit": dsplit, "geometric_": _geometric, "histogram": histogram, "index_reduce": index_reduce,
    "index_reduce_": lambda x, *args, **kwargs: x.copy_(index_reduce(x.clone(), *args, **kwargs)),
    "indices": lambda x: x.nonzero().t(), "is_inference": _no, "is_meta": property(_no), "is_mps": property(_no),
    "is_nested": property(_no), "is_pinned": _no, "is_quantized": property(lambda x: x.dtype.is_quantized),
    "is_same_size": is_same_size, "is_set_to": lambda x, y: (x.address, x.shape, x.strides) == (
        y.address, y.shape, y.strides
    ), "is_shared": _no, "is_sparse": property(_no), "layout": property(_layout), "log_normal_": _log_normal,
    "map_": _map, "name": property(lambda _: None), "narrow_copy": narrow_copy,
    "new_empty_strided": _new_empty_strided, "output_nr": property(lambda _: 0), "pin_memory": _itself,
    "put": put, "put_": _put, "record_stream": _nothing, "resize_": _resize,
    "resize_as_": lambda x, other, **_: _resize(x, other.shape), "resolve_conj": _itself, "resolve_neg": _itself,
    "set_": _set, "share_memory_": _itself, "to_dense": _itself, "to_sparse": _itself,
    "unsafe_chunk": lambda x, *args: x.chunk(*args), "unsafe_split": lambda x, *args: x.split(*args),
    "unsafe_split_with_sizes": lambda x, sizes, dim=0: x.split(list(sizes), dim),
    "untyped_storage": lambda x: _UntypedStorage(x),
    "values": lambda x: x[x != 0],
}  # fmt: skip
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)

"""What torch's tensors are asked that has a constant answer here, and the rest of their small methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import subclasses
from ..declare import attribute, function, method
from ..memory_format import layout, memory_format, strided
from ..quant import dequantize as _dequantized
from ..tensor import Tensor
from ..user_errors import describe
from .complex_numbers import checked
from .create import tensor


@function(method=True)
def is_same_size(x: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return x._shape == other._shape


@method("apply_")
def _apply(x: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces each element by what a Python function makes of it."""
    found = [callable(value) for value in x.reshape(-1).tolist()]
    return x.copy_(tensor(found).reshape(x._shape))


@method("map_")
def _map(x: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Writes the results of a Python function of each pair of elements."""
    pairs = zip(x.reshape(-1).tolist(), other.expand(*x._shape).reshape(-1).tolist(), strict=True)
    return x.copy_(tensor([callable(a, b) for a, b in pairs]).reshape(x._shape))


@method("map2_")
def _map2(x: Tensor, first: Tensor, second: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Writes the results of a Python function of each three elements."""
    wide = (t.expand(*x._shape).reshape(-1).tolist() for t in (x, first, second))
    return x.copy_(tensor([callable(*three) for three in zip(*wide, strict=True)]).reshape(x._shape))


@method()
def dim_order(x: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dims from the one with the widest steps in memory to the one with the narrowest. With `ambiguity_check`
    (True, or a list of memory formats, one of which may fit) RuntimeError where the steps allow several orders.
    """
    formats = ambiguity_check if isinstance(ambiguity_check, (list, tuple)) else ()
    if not isinstance(ambiguity_check, bool) and (
        not isinstance(ambiguity_check, (list, tuple)) or not all(isinstance(f, memory_format) for f in formats)
    ):
        raise TypeError(f"dim_order: ambiguity_check is a bool or a list of memory formats, not {ambiguity_check!r}")
    fitting = [f for f in formats if x.is_contiguous(memory_format=f)]
    several = len({step for step, n in zip(x.strides, x._shape, strict=True) if n > 1}) < x.ndim
    if ambiguity_check and several and len(fitting) != 1:
        raise RuntimeError(f"dim_order: the strides {x.strides} of {describe(x)} allow several orders of its dims")
    if fitting and fitting[0].name.startswith("channels_last"):
        return (0, *range(2, x.ndim), 1)
    return tuple(sorted(range(x.ndim), key=lambda d: -x.strides[d]))


def _itself(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return checked(x)


def _no(x: Tensor, *_: Any) -> bool:
    checked(x)
    return False


@function(method=True)
def dequantize(x: Tensor) -> Tensor:
    """A block-quantised tensor as float32; other tensors unchanged."""
    return _dequantized(x) if x.dtype.is_quantized else x


@function(method=True)
def get_device(x: Tensor) -> int | None:
    """The device's index; -1 for the CPU."""
    return -1 if x.device.type == "cpu" else x.device.index


@method()
def as_subclass(x: Tensor, cls: type) -> Any:
    """The same memory, with its place in the graph, as a tensor of a class that derives from Tensor."""
    return subclasses.as_subclass(x, cls)


function("is_inference", method=True)(_no)
for _name in ("pin_memory", "share_memory_"):
    method(_name)(_itself)
for _name in ("is_pinned", "is_shared"):
    method(_name)(_no)
for _name in ("is_mps", "is_nested"):
    attribute(_name)(_no)


@attribute("is_cpu")
def _is_cpu(x: Tensor) -> bool:
    """Whether the memory is the CPU's."""
    return x.device.type == "cpu"


@attribute("is_cuda")
def _is_cuda(x: Tensor) -> bool:
    """Whether the memory is a GPU's."""
    return x.device.type == "cuda"


@attribute("is_meta")
def _is_meta(x: Tensor) -> bool:
    """Whether it has a shape and no elements."""
    return x.device.type == "meta"


@attribute("is_quantized")
def _is_quantized(x: Tensor) -> bool:
    """Whether the dtype is a block format."""
    return x.dtype.is_quantized


@attribute("itemsize")
def _itemsize(x: Tensor) -> int:
    """Bytes of an element."""
    return x.element_size()


@attribute("layout")
def _layout(x: Tensor) -> layout:
    """The layout of the elements: strided."""
    return strided


@attribute("name")
def _name_of(x: Tensor) -> None:
    """None: tensors have no names."""


@attribute("output_nr")
def _output_nr(x: Tensor) -> int:
    """0: ops have one result."""
    return 0

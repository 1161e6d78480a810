"""Functions of dtypes: promotion and permitted conversions."""

from __future__ import annotations

from typing import Any

from ..declare import function, method
from ..dtype import DType, as_dtype, promote
from ..operands import common_dtype
from ..tensor import Tensor
from ..user_errors import describe


@function(method=True)
def is_floating_point(x: Tensor) -> bool:
    """Whether the dtype of x is a float."""
    return x.dtype.is_floating_point


@function(method=True)
def is_complex(x: Tensor) -> bool:
    """Whether the dtype of x is complex."""
    if not isinstance(x, Tensor):
        raise TypeError(f"is_complex: takes a tensor, not {describe(x)}")
    return x.dtype.is_complex


@function()
def promote_types(type1: Any, type2: Any) -> DType:
    """The common dtype of tensors of two dtypes."""
    return promote(as_dtype(type1), as_dtype(type2))


@function()
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The common dtype of two tensors or numbers."""
    for x in (tensor1, tensor2):
        if not isinstance(x, (Tensor, int, float, complex)):
            raise TypeError(f"result_type: takes tensors and numbers, not {describe(x)}")
    return common_dtype(tensor1, tensor2)


@function()
def can_cast(from_: Any, to: Any) -> bool:
    """Whether a write in place may convert these dtypes: not from a float to an integer, nor from a number to bool."""
    return as_dtype(from_).category <= as_dtype(to).category


@method("type_as")
def _type_as(x: Tensor, other: Tensor) -> Tensor:
    return x.to(other.dtype)


@function(method=True)
def is_signed(x: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return x.dtype.name[0] != "u" and x.dtype.category > 0

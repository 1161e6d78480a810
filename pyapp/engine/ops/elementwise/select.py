"""Choose elements by a condition: where, masked_fill, heaviside."""

from __future__ import annotations

from typing import Any

from ... import dtype as _dtype
from ...declare import function, method
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import op, primitive
from ...operands import check_number, common_dtype, same_device, unbroadcast
from ...tensor import Tensor
from ...user_errors import describe

_OPERANDS = (Tensor, int, float, complex)


def _d_where(g: Tensor, _: Any, condition: Tensor, a: Any, b: Any) -> Any:
    return (
        None,
        unbroadcast(_where(condition, g, 0.0), a) if isinstance(a, Tensor) and a.requires_grad else None,
        unbroadcast(_where(condition, 0.0, g), b) if isinstance(b, Tensor) and b.requires_grad else None,
    )


@primitive(vjp=_d_where)
def _where(condition: Tensor, a: Any, b: Any) -> Tensor:
    kind = common_dtype(a, b)
    return tensor_of(np.where(array_of(condition).astype(bool), array_of(a, kind), array_of(b, kind)), kind)


_where.reads = lambda _: (0,)


@function()
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds, else `other`; broadcast. With only a condition: the indices where it holds, by
    dim.
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if isinstance(condition, Tensor) and condition.dtype is not _dtype.bool_ and condition.dtype is not _dtype.uint8:
        raise TypeError(
            "where: expected condition to be a boolean tensor: the condition is a tensor of bools, not "
            f"{describe(condition)}"
        )
    for value in (input, other):
        if not isinstance(value, _OPERANDS) and (not hasattr(value, "__float__") or hasattr(value, "__len__")):
            raise TypeError(
                f"where: expects tensors or numbers, got {describe(value)}: convert it with pyapp.tensor(...)"
            )
    same_device("where", condition, input, other)
    if isinstance(input, int) or isinstance(other, int):
        kind = common_dtype(input, other)
        for value in (input, other):
            if kind.category == 1:
                check_number("where", value, kind)
    return _where(condition, input, other)


@function(method=True, in_place=True)
@op()
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask holds, else x; in x's dtype. TypeError for a mask that is not of bools."""
    if not isinstance(mask, Tensor) or mask.dtype is not _dtype.bool_:
        raise TypeError(
            f"masked_fill: only supports boolean masks: the mask is a tensor of bools, not {describe(mask)}"
        )
    if isinstance(value, Tensor) and value.ndim:
        raise ValueError(f"masked_fill: the value is a number or a tensor without dims, not {describe(value)}")
    if isinstance(value, Tensor) and value.dtype.is_floating_point and x.dtype.category == 1:
        value = value.item()
    check_number("masked_fill", value, x.dtype)
    if isinstance(value, float) and x.dtype.category == 1:
        value = int(value)  # else the other elements would be converted to float32
    found = where(mask, value, x)
    return found if found.dtype is x.dtype else found.to(x.dtype)


@function(method=True, in_place=True)
def heaviside(x: Tensor, values: Tensor) -> Tensor:
    """0 below zero and for NaN, 1 above, `values` at zero; both have the same dtype. No gradient."""
    if not isinstance(values, Tensor) or x.dtype is not values.dtype:
        raise TypeError(f"heaviside: {describe(x)} and {describe(values)} differ in dtype")
    return where(x.detach() == 0, values.detach(), (x.detach() > 0).to(x.dtype))


@method("where")
def _where_of(x: Tensor, condition: Tensor, other: Any) -> Tensor:
    """x where the condition holds, else other."""
    return where(condition, x, other)

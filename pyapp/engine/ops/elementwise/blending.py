"""Sums of three tensors in one pass: lerp, addcmul, addcdiv."""

from __future__ import annotations

from typing import Any

from ...declare import function
from ...op import claims_in_place, op
from ...operands import common_dtype, unbroadcast
from ...tensor import Tensor
from ...user_errors import describe
from ..element_updates import element_function, element_update
from .arithmetic import _IN_PROGRAMS, _in_float32


def _lerp_by_tensor_values(x: Any, end: Any, weight: Any) -> Any:
    near = weight.abs() < 0.5
    return x.where(near, end) + (end - x) * weight.where(near, weight - 1.0)


def _from_start(x: Any, end: Any, weight: Any) -> Any:
    return x + (end - x) * weight


def _from_end(x: Any, end: Any, weight: Any) -> Any:
    return end - (end - x) * weight


def _with_product(x: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    return x + tensor1 * value * tensor2


def _with_quotient(x: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    return x + tensor1 * value / tensor2


_lerp_from_start = element_function(_from_start, 2, 1)
_lerp_from_end = element_function(_from_end, 2, 1)
_lerp_by_tensor = element_function(_lerp_by_tensor_values, 3)
_addcmul = element_function(_with_product, 3, 1)
_addcdiv = element_function(_with_quotient, 3, 1)
_move_from_start, _move_from_end = element_update(_from_start, 2, 1), element_update(_from_end, 2, 1)
_add_product, _add_quotient = element_update(_with_product, 3, 1), element_update(_with_quotient, 3, 1)


@claims_in_place("lerp")
def _lerp_in_place(x: Tensor, end: Any, weight: Any) -> bool:
    if type(weight) is not float and type(weight) is not int:
        return False
    return _move_from_start(x, end, weight) if abs(weight) < 0.5 else _move_from_end(x, end, 1 - weight)


@claims_in_place("addcmul")
def _addcmul_in_place(x: Tensor, tensor1: Any, tensor2: Any, value: float = 1) -> bool:
    return _add_product(x, tensor1, tensor2, value)


@claims_in_place("addcdiv")
def _addcdiv_in_place(x: Tensor, tensor1: Any, tensor2: Any, value: float = 1) -> bool:
    return _add_quotient(x, tensor1, tensor2, value)


def _d_lerp_of_alike(g: Tensor, _: Any, x: Tensor, end: Tensor, weight: Any) -> Any:
    moves = isinstance(weight, Tensor) and weight.requires_grad
    return (
        unbroadcast(g * (1 - weight), x) if x.requires_grad else None,
        unbroadcast(g * weight, end) if end.requires_grad else None,
        unbroadcast(g * (end - x), weight) if moves else None,
    )


@op(vjp=_d_lerp_of_alike, name="_lerp_of_alike")
def _lerp_of_alike(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    """lerp of tensors of one dtype, by real weights."""
    if isinstance(weight, Tensor):
        return _in_float32(_lerp_by_tensor, x, end, weight)
    compute, share = (_lerp_from_start, weight) if weight.__abs__() < 0.5 else (_lerp_from_end, 1 - weight)
    return compute(x, end, share) if x.dtype in _IN_PROGRAMS else _in_float32(compute, x, end, share)


def _read_of_lerp(edges: tuple[Any, ...]) -> tuple[int, ...]:
    """The ends if the weight wants a gradient, the weight if an end does; see read_crosswise."""
    start, end, weight = (edge is not None for edge in edges)
    return (*((0, 1) if weight else ()), *((2,) if start or end else ()))


_lerp_of_alike.reads = _read_of_lerp


@function(method=True, in_place=True)
def lerp(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    """x + weight (end - x), from the nearer of both ends, so that a weight of 1 gives `end`. TypeError for integers."""
    if not (x.dtype.has_gradient or end.dtype.has_gradient):
        raise TypeError(f"lerp: takes floating-point tensors, not {describe(x)} and {describe(end)}")
    if x.dtype is end.dtype and not isinstance(weight, complex):
        by_tensor = isinstance(weight, Tensor)
        if not by_tensor or weight.dtype is x.dtype:
            learns = x._requires_grad or end._requires_grad or (by_tensor and weight._requires_grad)
            compute: Any = _lerp_of_alike if learns else _lerp_of_alike.definition
            found: Tensor = compute(x, end, weight)
            return found
    if isinstance(weight, Tensor):
        return _in_float32(_lerp_by_tensor, x, end, weight)
    near = weight.__abs__() < 0.5
    if isinstance(weight, complex):
        return x + (end - x) * weight if near else end - (end - x) * (1 - weight)
    from_one, share = (_lerp_from_start, weight) if near else (_lerp_from_end, 1 - weight)
    return _in_float32(from_one, x, end, share)


@function(method=True, in_place=True)
def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    """x + value tensor1 tensor2; of integers with the whole part of value."""
    if isinstance(value, float) and common_dtype(x, tensor1, tensor2).category < 2:
        value = int(value)
    if x.dtype in _IN_PROGRAMS and x.dtype is tensor1.dtype is tensor2.dtype:
        return _addcmul(x, tensor1, tensor2, value)
    return _in_float32(_addcmul, x, tensor1, tensor2, value)


@function(method=True, in_place=True)
def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    """x + value tensor1 / tensor2. TypeError where both are integers."""
    if not (tensor1.dtype.has_gradient or tensor2.dtype.has_gradient):
        raise TypeError(f"addcdiv: divides floating-point tensors, not {describe(tensor1)} by {describe(tensor2)}")
    if x.dtype in _IN_PROGRAMS and x.dtype is tensor1.dtype is tensor2.dtype:
        return _addcdiv(x, tensor1, tensor2, value)
    return _in_float32(_addcdiv, x, tensor1, tensor2, value)

"""Python's operators on tensors."""

from __future__ import annotations

from typing import Any

from ..declare import method
from ..dtype import as_dtype
from ..lazy import np
from ..numpy_arrays import tensor_of
from ..op import Op
from ..operands import as_tensor, is_half
from ..tensor import Tensor
from ..user_errors import names_itself
from .elementwise.arithmetic import abs, add, div, floor_divide, mul, neg, pow, remainder, sub
from .elementwise.bitwise import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from .elementwise.compare import eq, ge, gt, le, lt, ne


def _with_array(operation: Op, x: Tensor, array: Any) -> tuple[Tensor, Tensor]:
    """A tensor and a NumPy array in the dtype that NumPy computes with, as in torch (int64 and float32: float64)."""
    other = tensor_of(array).to(device=x.device)
    if x.dtype.is_bits or x.dtype.is_quantized:
        return x, other
    found = np.result_type(x.dtype.numpy_name, array)
    kind = as_dtype("float64" if operation is div and found.kind in "biu" else found.name)
    return x.to(kind), other.to(kind)


def _reflected(operation: Op) -> Any:
    commutes, inverts = operation in (add, mul), operation is div

    def operator(self: Tensor, other: Any) -> Any:
        if commutes and (type(other) is float or type(other) is int):
            return operation.call(self, other)
        if isinstance(other, (Tensor, int, float, complex)) or hasattr(other, "__float__"):
            if type(other) is np.ndarray:
                x, y = _with_array(operation, self, other)
                return operation.call(y, x)
            if inverts and self.dtype.itemsize == 2 and is_half(self) and type(other) in (int, float):
                return self.reciprocal() * other  # as torch, which rounds the inverse
            return operation.call(as_tensor(other, self), self)
        return NotImplemented

    return names_itself(operator)


def _accepting(operation: Op, in_place: Any = None) -> Any:
    """The operator: leaves what is neither tensor nor number to the other operand; one in place leaves arrays to the
    operator that gives a new tensor, as in torch."""
    call = in_place or operation.call

    def operator(self: Tensor, other: Any) -> Any:
        if isinstance(other, (Tensor, int, float, complex)):
            return call(self, other)
        if hasattr(other, "__float__"):
            if type(other) is not np.ndarray:
                return call(self, other)
            if in_place is None:
                return call(*_with_array(operation, self, other))
        return NotImplemented

    if in_place is not None:
        operator.in_place_of = in_place.in_place_of  # type: ignore[attr-defined]
    return names_itself(operator)


_OPERATORS = {
    "add": add, "sub": sub, "mul": mul, "truediv": div, "pow": pow, "floordiv": floor_divide, "mod": remainder,
    "eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge,
    "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor,
    "lshift": bitwise_left_shift, "rshift": bitwise_right_shift,
}  # fmt: skip
for _name, _op in _OPERATORS.items():
    method(f"__{_name}__")(_accepting(_op))
    if _name not in ("eq", "ne", "lt", "le", "gt", "ge"):
        method(f"__r{_name}__")(_reflected(_op))
        method(f"__i{_name}__")(_accepting(_op, getattr(Tensor, _op.name + "_")))
method("__neg__")(neg)
method("__abs__")(abs)
method("__invert__")(bitwise_not)
method("__pos__")(names_itself(lambda x: x))

"""Bits of integers: and, or, xor, not, shifts."""

from __future__ import annotations

from typing import Any

from ....errors import UnsupportedTypeError
from ...declare import function
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import Op, primitive
from ...operands import common_dtype
from ...tensor import Tensor
from ...user_errors import describe
from .builders import binary

bitwise_and = binary("bitwise_and", lambda: np.bitwise_and, None, out="integers alone")
bitwise_or = binary("bitwise_or", lambda: np.bitwise_or, None, out="integers alone")
bitwise_xor = binary("bitwise_xor", lambda: np.bitwise_xor, None, out="integers alone")


@function(method=True, in_place=True)
@primitive()
def bitwise_not(x: Tensor) -> Tensor:
    """Flips the bits of integers, or bools."""
    if x.dtype.is_floating_point:
        raise UnsupportedTypeError(f"bitwise_not: takes integers or bool, not {describe(x)}")
    return tensor_of(~array_of(x), x.dtype)


def _shift(name: str, compute: Any) -> Op:
    made = binary(name, compute, None, out="integers alone")
    host: Any = made.host

    def checked(a: Tensor, b: Any) -> Tensor:
        if common_dtype(a, b).category != 1:
            raise UnsupportedTypeError(f"{name}: takes integers, not {describe(a)} and {describe(b)}")
        return host(a, b)

    made.host = checked
    return made


bitwise_left_shift = _shift("bitwise_left_shift", lambda: np.left_shift)
bitwise_right_shift = _shift("bitwise_right_shift", lambda: np.right_shift)

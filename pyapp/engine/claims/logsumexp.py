"""logsumexp of few elements, in one launch."""

from __future__ import annotations

from typing import Any

from ..dtype import float32 as _F32
from ..element_types import CODES, opcodes
from ..launch import KERNELS as K
from ..launch import launch_all
from ..op import claims
from ..operands import dense
from ..shape import reduced_dims
from ..tensor import Tensor, empty_contiguous
from .reduce import _OPCODES, _REDUCE, _plan

_AT_ONCE = 1 << 13  # elements whose intermediate results stay in cache
_MOST = float.fromhex("0x1.fffffep127")  # of float32
_SUB, _MAXIMUM, _MINIMUM, _ADD = K["sub_f32"], K["maximum_f32"], K["minimum_f32"], K["add_f32"]


@claims("logsumexp")
def _logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Any:
    """Of few elements: the definition's kernels in one launch."""
    count = x.numel()
    if x.dtype is not _F32 or not 0 < count <= _AT_ONCE:
        return NotImplemented
    x = dense(x)
    dims = tuple(sorted(reduced_dims(dim, len(x._shape), "logsumexp")))
    result, order, slots = _plan(x._shape, x.strides, dims, keepdim)
    if order is not None:
        x = dense(x.permute(order))
    outer, middle, inner = slots[:3]
    rows, kind = outer * inner, CODES[_F32]
    y, top = empty_contiguous(result, _F32, x.device), empty_contiguous((rows,), _F32, x.device)
    less = empty_contiguous((count,), _F32, x.device)
    if inner == 1 or outer == 1:
        repeat = middle if inner == 1 else 1
        subtract: tuple[Any, ...] = (_SUB, less, x, top, count, count, rows, 1, repeat, 0.0)
    else:
        subtract = (
            K["binary"], less, x, top, opcodes("binary")["sub"].code, kind, 3, outer, middle, inner, 0, 0, 0,
            middle * inner, inner, 1, 0, 0, 0, inner, 0, 1, 0, 0, 0, 0,
        )  # fmt: skip
    launch_all(
        count >> 9,
        (_REDUCE, top, x, _OPCODES["max"].code, kind, kind, *slots, 0.0),
        (_MAXIMUM, top, top, None, rows, rows, 1, 1, 1, -_MOST),  # the difference of infinities would be NaN
        (_MINIMUM, top, top, None, rows, rows, 1, 1, 1, _MOST),
        subtract,
        (K["exp_f32"], less, less, count),
        (_REDUCE, y, less, _OPCODES["sum"].code, kind, kind, outer, middle, inner, middle * inner, inner, 1, 0.0),
        (K["log_f32"], y, y, rows),
        (_ADD, y, y, top, rows, rows, rows, 1, 1, 0.0),
    )
    return y

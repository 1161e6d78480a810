"""scatter_reduce by products and extremes."""

from __future__ import annotations

from math import inf
from typing import Any

from ..element_types import opcodes
from ..op import claims
from ..operands import dense
from ..ops.scattering import REDUCTIONS
from ..tensor import Tensor
from .indexing import _chosen_along, _put
from .selection import _SET, _index_of_rows, _scatter_into


@claims("_scatter_extreme")
def _scatter_extreme(x: Tensor, source: Tensor, dim: int, index: Tensor, reduce: str, include_self: bool) -> Any:
    opcode = opcodes("scatter")[REDUCTIONS[reduce]]
    if x.dtype not in opcode.types:
        return NotImplemented
    if not include_self:
        start = 1.0 if reduce == "prod" else -inf if reduce == "amax" else inf
        if not x.dtype.is_floating_point:
            signed = x.dtype.name[0] != "u"
            largest = 2 ** (8 * x.dtype.itemsize - signed) - 1
            start = 1 if reduce == "prod" else largest if reduce == "amin" else -largest - 1 if signed else 0
        x = _scatter_into(x, dim, index, start, _SET)
        if x is NotImplemented:
            return x
    if (
        source._shape == index._shape
        and source.dtype is x.dtype
        and (rows := _index_of_rows(x, dim, index)) is not None
    ):
        y = dense(x)._row_major()
        chosen = _chosen_along(y, dim, rows)
        if chosen is not None and _put(chosen, source, REDUCTIONS[reduce]):
            return y
    return _scatter_into(x, dim, index, source, opcode.code)

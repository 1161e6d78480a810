"""Linear recurrences (native/linear_scan.c, selective_scan.c)."""

from __future__ import annotations

from typing import Any

from ..dtype import float32
from ..launch import KERNELS
from ..native import IN_BROWSER
from ..op import claims
from ..operands import dense
from ..ops.recurrences import linear_scan as _linear_scan_op  # noqa: F401 (defines the op)
from ..tensor import Tensor, empty_contiguous

_LINEAR_SCAN, _SELECTIVE_SCAN = KERNELS["linear_scan_f32"], KERNELS["selective_scan_f32"]


@claims("linear_scan")
def _linear_scan(a: Tensor, b: Tensor, start: Tensor | None = None, reverse: bool = False) -> Any:
    if not a.dtype is b.dtype is float32 or a.ndim < 2 or a._shape != b._shape or a._shape[1] < 1:
        return NotImplemented
    if start is not None:
        if start.dtype is not float32 or start._shape != (a._shape[0], *a._shape[2:]):
            return NotImplemented
        start = dense(start)
    outer, length = a._shape[:2]
    count = a.numel()
    y = empty_contiguous(a._shape, float32, a.device)
    inner = count // max(outer * length, 1)
    _LINEAR_SCAN.launch(count >> 10, y, dense(a), dense(b), start, outer, length, inner, int(reverse))
    return y


@claims("_advance_states")
def _advance_states(state: Tensor, x: Tensor, *rest: Tensor) -> Any:
    if IN_BROWSER or not state.is_contiguous() or any(t.dtype is not float32 for t in (state, x, *rest)):
        return NotImplemented  # the page has no room for the kernel
    (texts, tokens, channels), size = x._shape, state._shape[2]
    y = empty_contiguous(x._shape, float32, x.device)
    _SELECTIVE_SCAN.launch(
        x.numel() * size >> 7, y, state, dense(x), *(dense(t) for t in rest), texts, tokens, channels, size
    )  # fmt: skip
    state._storage.version += 1
    return y

"""Losses and their gradients."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..dtype import DType
from ..element_types import CODES
from ..launch import KERNELS as K
from ..launch import launch_all
from ..op import claims
from ..operands import dense
from ..ops.elementwise.compare import maximum
from ..tensor import Tensor, empty_contiguous
from .layouts import in_type

_F32 = _dtype.float32
_I32, _I64 = _dtype.int32, _dtype.int64
_CROSS_ENTROPY, _CROSS_ENTROPY_BACKWARD = K["cross_entropy"], K["cross_entropy_backward"]
_CROSS_ENTROPY_F32, _SUM_ROWS, _DIV_F32 = K["cross_entropy_f32"], K["sum_rows_f32"], K["div_f32"]


def _sums_in(logits: DType) -> DType | None:
    """The dtype of the kernels' losses; None for logits that they do not support."""
    if not logits.is_floating_point or logits.is_storage_only:
        return None
    return logits if logits is _dtype.float64 else _F32


def _class_numbers(targets: Tensor) -> Tensor:
    """Dense int32 or int64."""
    return dense(targets if targets.dtype is _I32 else in_type(targets, _I64))


@claims("_cross_entropy")
def _cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int, full: bool) -> Any:
    wide = _sums_in(logits.dtype)
    if wide is None:
        return NotImplemented
    rows, columns = logits.shape
    fast = logits.dtype is _F32
    logits, targets = dense(logits), _class_numbers(targets)
    id_bytes = targets.dtype.itemsize
    loss = empty_contiguous((rows,), wide, logits.device)
    if fast:
        mean = empty_contiguous((), wide, logits.device)
        count = empty_contiguous((), wide, logits.device)
        launch_all(
            logits.numel() >> 7,
            (_CROSS_ENTROPY_F32, loss, None, count, logits, targets, None, rows, columns, ignore_index, id_bytes),
            (_SUM_ROWS, mean, loss, 1, rows, rows),
            (_DIV_F32, mean, mean, count, 1, 1, 1, 0, 0, 0.0),
        )
        return mean  # NaN where no target counts, as in torch
    weights = empty_contiguous((rows,), wide, logits.device)
    _CROSS_ENTROPY.launch(
        logits.numel() >> 7, loss, weights, logits, targets, None,
        rows, columns, ignore_index, CODES[logits.dtype], CODES[targets.dtype], 0.0,
    )  # fmt: skip
    return in_type(loss.sum() / weights.sum(), wide if full else logits.dtype)


@claims("cross_entropy_backward")
def _cross_entropy_backward(g: Tensor, logits: Tensor, targets: Tensor, ignore_index: int, full: bool) -> Any:
    wide = _sums_in(logits.dtype)
    if wide is None:
        return NotImplemented
    rows, columns = logits.shape
    fast = logits.dtype is _F32
    logits, targets = dense(logits), _class_numbers(targets)
    gradient = empty_contiguous(logits.shape, logits.dtype, logits.device)
    if fast:
        _CROSS_ENTROPY_F32.launch(
            logits.numel() >> 7, None, gradient, None, logits, targets, in_type(g, wide), rows, columns, ignore_index,
            targets.dtype.itemsize,
        )  # fmt: skip
        return (gradient,)
    kept = in_type((targets != ignore_index).sum(), wide)
    each = in_type(g, wide) / maximum.forward(kept, 1.0)  # where no target counts, the gradient is 0
    _CROSS_ENTROPY_BACKWARD.launch(
        logits.numel() >> 7, gradient, each.expand(rows).contiguous(), logits, targets, None,
        rows, columns, ignore_index, CODES[logits.dtype], CODES[targets.dtype], 0.0,
    )  # fmt: skip
    return (gradient,)

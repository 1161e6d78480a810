"""Losses and their gradients."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..dtype import DType
from ..element_types import CODES
from ..launch import KERNELS as K
from ..launch import launch_all
from ..native import IN_BROWSER
from ..op import claims
from ..operands import dense
from ..ops.elementwise.compare import maximum
from ..tensor import Tensor, empty_contiguous
from .layouts import in_type

_F32 = _dtype.float32
_I32, _I64 = _dtype.int32, _dtype.int64
_CROSS_ENTROPY, _CROSS_ENTROPY_BACKWARD = K["cross_entropy"], K["cross_entropy_backward"]
_NLL_LOSS_F32, _CROSS_ENTROPY_F32 = K["nll_loss_f32"], K["cross_entropy_f32"]
_PLANES = K["cross_entropy_planes_f32"]
_SUM_ROWS, _DIV_F32 = K["sum_rows_f32"], K["div_f32"]


def _sums_in(logits: DType) -> DType | None:
    """The dtype of the kernels' losses; None for logits that they do not support."""
    if not logits.is_floating_point or logits.is_storage_only:
        return None
    return logits if logits is _dtype.float64 else _F32


def _class_numbers(targets: Tensor) -> Tensor:
    """Dense int32 or int64."""
    return dense(targets if targets.dtype is _I32 else in_type(targets, _I64))


def _mean_of(kernel: Any, work: int, loss: Tensor, scores: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    """The mean () of a loss of rows, or of places; NaN where no target counts, as in torch."""
    rows = loss.numel()
    mean = empty_contiguous((), _F32, scores.device)
    count = empty_contiguous((), _F32, scores.device)
    launch_all(
        work,
        (kernel, loss, None, count, scores, targets, None, *scores._shape, ignore_index, targets.dtype.itemsize),
        (_SUM_ROWS, mean, loss, 1, rows, rows),
        (_DIV_F32, mean, mean, count, 1, 1, 1, 0, 0, 0.0),
    )
    return mean


@claims("_cross_entropy_planes")
def _cross_entropy_planes(logits: Tensor, targets: Tensor, ignore_index: int) -> Any:
    if IN_BROWSER or logits.dtype is not _F32:
        return NotImplemented
    loss = empty_contiguous(targets._shape, _F32, logits.device)
    return _mean_of(_PLANES, logits.numel() >> 7, loss, dense(logits), _class_numbers(targets), ignore_index)


@claims("cross_entropy_planes_backward")
def _cross_entropy_planes_backward(g: Tensor, logits: Tensor, targets: Tensor, ignore_index: int) -> Any:
    if IN_BROWSER or not logits.dtype is g.dtype is _F32:
        return NotImplemented
    return _gradient_of(_PLANES, logits.numel() >> 7, g, dense(logits), targets, ignore_index)


def _gradient_of(
    kernel: Any, work: int, g: Tensor, scores: Tensor, targets: Tensor, ignore_index: int
) -> tuple[Tensor]:  # fmt: skip
    targets = _class_numbers(targets)
    gradient = empty_contiguous(scores._shape, _F32, scores.device)
    kernel.launch(
        work, None, gradient, None, scores, targets, g, *scores._shape, ignore_index, targets.dtype.itemsize
    )  # fmt: skip
    return (gradient,)


@claims("_nll_loss")
def _nll_loss(scores: Tensor, targets: Tensor, ignore_index: int) -> Any:
    if IN_BROWSER or scores.dtype is not _F32:
        return NotImplemented
    rows = scores._shape[0]
    loss = empty_contiguous((rows,), _F32, scores.device)
    return _mean_of(_NLL_LOSS_F32, rows >> 6, loss, dense(scores), _class_numbers(targets), ignore_index)


@claims("nll_loss_backward")
def _nll_loss_backward(g: Tensor, scores: Tensor, targets: Tensor, ignore_index: int) -> Any:
    if IN_BROWSER or not scores.dtype is g.dtype is _F32:
        return NotImplemented
    return _gradient_of(_NLL_LOSS_F32, scores.numel() >> 10, g, scores, targets, ignore_index)


@claims("_cross_entropy")
def _cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int, full: bool) -> Any:
    wide = _sums_in(logits.dtype)
    if wide is None:
        return NotImplemented
    rows, columns = logits._shape
    fast = logits.dtype is _F32
    logits, targets = dense(logits), _class_numbers(targets)
    loss = empty_contiguous((rows,), wide, logits.device)
    if fast:
        return _mean_of(_CROSS_ENTROPY_F32, logits.numel() >> 7, loss, logits, targets, ignore_index)
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
    rows, columns = logits._shape
    fast = logits.dtype is _F32
    logits, targets = dense(logits), _class_numbers(targets)
    gradient = empty_contiguous(logits._shape, logits.dtype, logits.device)
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


def _rows_of_weighted(
    logits: Tensor, targets: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The loss of each row, and the weight of its target."""
    rows, columns = logits._shape
    loss, weights = (empty_contiguous((rows,), logits.dtype, logits.device) for _ in range(2))
    _CROSS_ENTROPY.launch(
        logits.numel() >> 7, loss, weights, logits, targets, weight,
        rows, columns, ignore_index, CODES[logits.dtype], CODES[targets.dtype], smoothing,
    )  # fmt: skip
    return loss, weights


def _takes_weighted(logits: Tensor, weight: Tensor | None) -> bool:
    """Whether the kernel adds in the dtype of the logits, and the weights are of it."""
    wide = logits.dtype in (_F32, _dtype.float64) and logits.numel() > 0
    return wide and (weight is None or (weight.dtype is logits.dtype and weight.device is logits.device))


@claims("_weighted_cross_entropy")
def _weighted_cross_entropy(
    logits: Tensor, targets: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int
) -> Any:
    if not _takes_weighted(logits, weight):
        return NotImplemented
    weight = weight if weight is None else dense(weight)
    loss, weights = _rows_of_weighted(dense(logits), _class_numbers(targets), weight, smoothing, ignore_index)
    return loss.sum() / weights.sum()


@claims("_cross_entropy_rows")
def _cross_entropy_rows(
    logits: Tensor, targets: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int
) -> Any:
    if not _takes_weighted(logits, weight):
        return NotImplemented
    weight = weight if weight is None else dense(weight)
    return _rows_of_weighted(dense(logits), _class_numbers(targets), weight, smoothing, ignore_index)[0]


def _gradient_of_weighted(
    mean: bool, g: Tensor, logits: Tensor, targets: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int
) -> Any:
    """From the gradient of each row's loss, or of their mean; of rows that do not count nothing is read."""
    if not _takes_weighted(logits, weight) or g.dtype is not logits.dtype:
        return NotImplemented
    if weight is not None and weight.requires_grad:
        return NotImplemented
    weight = weight if weight is None else dense(weight)
    logits, targets, each = dense(logits), _class_numbers(targets), g
    if mean:
        if weight is None:
            total = in_type((targets != ignore_index).sum(), logits.dtype)
        else:
            total = _rows_of_weighted(logits, targets, weight, smoothing, ignore_index)[1].sum()
        each = (g / total).expand(logits._shape[:1])
    gradient = empty_contiguous(logits._shape, logits.dtype, logits.device)
    _CROSS_ENTROPY_BACKWARD.launch(
        logits.numel() >> 7, gradient, dense(each), logits, targets, weight,
        *logits._shape, ignore_index, CODES[logits.dtype], CODES[targets.dtype], smoothing,
    )  # fmt: skip
    return gradient, None, None, None, None


@claims("cross_entropy_rows_backward")
def _cross_entropy_rows_backward(*args: Any) -> Any:
    return _gradient_of_weighted(False, *args)


@claims("weighted_cross_entropy_backward")
def _weighted_cross_entropy_backward(*args: Any) -> Any:
    return _gradient_of_weighted(True, *args)

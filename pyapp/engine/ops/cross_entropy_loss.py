"""The cross entropy of rows of logits, and of log-probabilities."""

from __future__ import annotations

from .. import dtype as _dtype
from ..declare import function
from ..op import op
from ..operands import is_half
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import fused_gradient
from .create import ones
from .view import reshaped


@op()
def _cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int, wide: bool) -> Tensor:
    """Mean of -log softmax(logits)[target] over rows that are not ignored; `wide`: in float32."""
    if wide:
        logits = logits.to(_dtype.float32)
    return _mean_of_targets(logits.log_softmax(-1), targets, ignore_index)


cross_entropy_backward = fused_gradient(_cross_entropy)


def _mean_of_targets(scores: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    ignored = targets == ignore_index
    safe = targets.masked_fill(ignored, 0).to(_dtype.int64)
    rows = -scores.gather(1, safe.unsqueeze(1)).squeeze(1)
    # Ignored rows are replaced: multiplied by 0 they would have NaN for gradients where there is no other row.
    return rows.masked_fill(ignored, 0.0).sum() / (~ignored).to(rows.dtype).sum()


@op()
def _nll_loss(scores: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    """Mean of -scores[target] over rows that are not ignored."""
    return _mean_of_targets(scores, targets, ignore_index)


nll_loss_backward = fused_gradient(_nll_loss)


@function()
def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100, wide: bool = False) -> Tensor:
    """Mean negative log-likelihood in nats.

    logits (..., C), integer targets (...). NaN when every target is ignored, as in torch. `wide`: in float32, for
    logits of 16 bits.
    """
    if logits._shape[:-1] != targets._shape:
        raise ValueError(f"cross_entropy: targets {describe(targets)} do not fit logits {describe(logits)}")
    count = targets.numel()
    return _cross_entropy(reshaped(logits, (count, logits._shape[-1])), reshaped(targets, (count,)), ignore_index, wide)


@op()
def _cross_entropy_planes(logits: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    """cross_entropy of logits (B, C, P) and targets (B, P)."""
    return cross_entropy(logits.transpose(1, 2), targets, ignore_index)


cross_entropy_planes_backward = fused_gradient(_cross_entropy_planes)


def _rows_and_weights(
    logits: Tensor, targets: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The loss of each row (N,), and the weight of its target; both 0 where it is ignored."""
    scores = logits.log_softmax(-1)
    ignored = targets == ignore_index
    safe = targets.masked_fill(ignored, 0).to(_dtype.int64)
    own = -scores.gather(1, safe.unsqueeze(1)).squeeze(1)  # (N,)
    factor = ones(safe._shape, dtype=scores.dtype, device=scores.device)  # (N,)
    if weight is not None:
        factor = weight.gather(0, safe)
    values = own * factor * (1 - smoothing)
    if smoothing:
        values = values - (scores if weight is None else scores * weight).sum(-1) * (smoothing / scores._shape[-1])
    return values.masked_fill(ignored, 0.0), factor.masked_fill(ignored, 0.0)


@op()
def _weighted_cross_entropy(
    logits: Tensor, targets: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int
) -> Tensor:
    """The mean of logits (N, C) and targets (N,), with class weights (C,) and label smoothing: as torch's."""
    values, factor = _rows_and_weights(logits, targets, weight, smoothing, ignore_index)
    return values.sum() / factor.sum()


weighted_cross_entropy_backward = fused_gradient(_weighted_cross_entropy)


@op()
def _cross_entropy_rows(
    logits: Tensor, targets: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int
) -> Tensor:
    """The losses (N,) of which _weighted_cross_entropy is the mean."""
    return _rows_and_weights(logits, targets, weight, smoothing, ignore_index)[0]


cross_entropy_rows_backward = fused_gradient(_cross_entropy_rows)


def weighted_cross_entropy(
    logits: Tensor, targets: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int, mean: bool = True
) -> Tensor:
    """The mean of logits (..., C) and integer targets (...), with class weights (C,) and label smoothing; or the loss
    of each target (...).
    """
    if is_half(logits):
        wide = weight if weight is None else weight.to(_dtype.float32)
        losses = weighted_cross_entropy(logits.to(_dtype.float32), targets, wide, smoothing, ignore_index, mean)
        return losses.to(logits.dtype)
    count, classes = targets.numel(), logits._shape[-1]
    compute = _weighted_cross_entropy if mean else _cross_entropy_rows
    try:
        losses = compute(
            reshaped(logits, (count, classes)), reshaped(targets, (count,)), weight, smoothing, ignore_index
        )
        return losses if mean else reshaped(losses, targets._shape)
    except IndexError:
        found = f"{int(targets.amin())} .. {int(targets.amax())}"
        raise IndexError(f"cross_entropy: targets {found} are outside 0 .. {classes - 1}") from None


def cross_entropy_of_planes(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """cross_entropy of logits (B, C, ...) and targets (B, ...)."""
    batch, classes = logits._shape[:2]
    places = targets.numel() // max(batch, 1)
    return _cross_entropy_planes(
        reshaped(logits, (batch, classes, places)), reshaped(targets, (batch, places)), ignore_index
    )


def nll_loss(scores: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """The mean of -scores[target] of log-probabilities scores (..., C) and integer targets (...)."""
    if is_half(scores):
        return nll_loss(scores.to(_dtype.float32), targets, ignore_index).to(scores.dtype)
    count = targets.numel()
    return _nll_loss(reshaped(scores, (count, scores._shape[-1])), reshaped(targets, (count,)), ignore_index)

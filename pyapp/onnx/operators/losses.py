"""Losses."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import array_of, made_of, text


def _likelihood(logs: Tensor, target: Tensor, weight: Any, ignore: int | None, reduction: str) -> Tensor:
    """-log p of the targets (N, D…) from log-probabilities (N, C, D…), weighed by class."""
    labels = array_of(target).astype(np.int64)
    kept = np.ones(labels.shape, bool) if ignore is None else labels != ignore
    safe = np.where(kept, labels, 0)
    if safe.size and not 0 <= safe.min() <= safe.max() < logs.shape[1]:
        raise IndexError(f"a target is outside of the {logs.shape[1]} classes")
    index = made_of(safe[:, None], device=logs.device)
    found = -ops.gather(logs, 1, index).squeeze(1)
    factor = made_of(kept, device=logs.device).to(logs.dtype)
    if weight is not None:
        factor = factor * ops.index_select(weight, 0, index.reshape(-1)).reshape(found.shape)
    found = found * factor
    if reduction == "none":
        return found
    if reduction == "sum":
        return found.sum()
    if reduction != "mean":
        raise ValueError(f"reduction is {reduction!r}, expected none, sum or mean")
    return found.sum() / factor.sum()


@operator("NegativeLogLikelihoodLoss", reads=(1,))
def negative_log_likelihood_loss(
    x: Tensor, target: Tensor, weight: Any = None, *, ignore_index: int | None = None, reduction: bytes = b"mean"
) -> Tensor:
    return _likelihood(x, target, weight, ignore_index, text(reduction))


@operator("SoftmaxCrossEntropyLoss", reads=(1,))
def softmax_cross_entropy_loss(
    scores: Tensor, labels: Tensor, weight: Any = None, *, ignore_index: int | None = None, reduction: bytes = b"mean"
) -> Any:
    logs = ops.log_softmax(scores, 1)
    return _likelihood(logs, labels, weight, ignore_index, text(reduction)), logs

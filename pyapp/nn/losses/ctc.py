"""Connectionist temporal classification (Graves et al. 2006, "Connectionist temporal classification: labelling
unsegmented sequence data with recurrent neural networks").
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ...engine.autocast import in_full_precision
from ...engine.lazy import np
from ...engine.numpy_arrays import array_of
from ...engine.ops import from_numpy, where
from ...engine.ops.ctc import ctc_losses
from ...engine.user_errors import describe
from .reduction import loss_layer, reduce

__all__ = ["CTCLoss", "ctc_loss"]
__top_level__ = ["ctc_loss"]


def _lengths(name: str, given: Any, count: int, most: int) -> Any:
    array = np.asarray(array_of(given) if isinstance(given, Tensor) else given, dtype=np.int64).reshape(-1)
    if array.shape != (count,) or (array.size and (array.min() < 0 or array.max() > most)):
        raise ValueError(f"ctc_loss: {name} must be {count} numbers from 0 to {most}, got {array.tolist()}")
    return array


@in_full_precision
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability of targets (N, S), or (sum of lengths,), under log_probs (T, N, C) (after log_softmax),
    with blanks and repetitions removed. "mean" first divides each loss by its target's length. A target longer than its
    input allows gives inf, or 0 with `zero_infinity`. Without N: (T, C), (S,).
    """
    if log_probs.ndim == 2:
        flat = ctc_loss(
            log_probs.unsqueeze(1), targets.unsqueeze(0), np.asarray(array_of(input_lengths)).reshape(1),
            np.asarray(array_of(target_lengths)).reshape(1), blank, "none", zero_infinity,
        )  # fmt: skip
        lone = flat / max(int(array_of(target_lengths)), 1) if reduction == "mean" else flat
        return lone.squeeze(0) if reduction == "none" else lone.sum()
    if log_probs.ndim != 3 or targets.ndim not in (1, 2) or targets.dtype.category != 1:
        raise ValueError(
            f"ctc_loss: takes (T, N, C) and integer targets, got {describe(log_probs)}, {describe(targets)}"
        )
    steps, count, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise ValueError(f"ctc_loss: blank {blank} is not one of {classes} classes")
    inputs = _lengths("input_lengths", input_lengths, count, steps)
    most = targets.shape[-1]
    wanted = _lengths("target_lengths", target_lengths, count, most)
    labels = targets.array().astype(np.int64)
    if targets.ndim == 1:
        if wanted.sum() != most:
            raise ValueError(f"ctc_loss: target_lengths add up to {wanted.sum()}, the targets are {most}")
        starts = np.concatenate([[0], np.cumsum(wanted)[:-1]]).astype(np.int64)
        places = starts[:, None] + np.arange(int(wanted.max()) if count else 0, dtype=np.int64)
        labels = labels[np.minimum(places, max(most - 1, 0))] if most else np.zeros((count, 0), np.int64)
    used = labels[np.arange(labels.shape[1]) < wanted[:, None]]
    if used.size and (used.min() < 0 or used.max() >= classes):
        raise ValueError(f"ctc_loss: targets {used.min()} .. {used.max()} are outside 0 .. {classes - 1}")
    labels = np.where(np.arange(labels.shape[1]) < wanted[:, None], labels, blank)
    ids, times, lengths = (from_numpy(a.astype(np.int32)).to(log_probs.device) for a in (labels, inputs, wanted))
    losses = ctc_losses(log_probs, ids, times, lengths, blank)
    if zero_infinity:
        losses = where(losses.isinf(), 0.0, losses)
    if reduction == "mean":
        divisors = from_numpy(np.maximum(wanted, 1)).to(losses.dtype)
        losses = losses / divisors.to(losses.device)
    return reduce("ctc_loss", losses, reduction)


CTCLoss = loss_layer("CTCLoss", ctc_loss, 4)

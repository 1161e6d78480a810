"""Connectionist temporal classification (Graves et al. 2006, "Connectionist temporal classification: labelling
unsegmented sequence data with recurrent neural networks").
"""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, float32, get_num_threads, int32, int64
from ..engine.autograd import STATE
from ..engine.devices.cpu import claims
from ..engine.launch import KERNELS, launch
from ..engine.lazy import np
from ..engine.op import describe, primitive
from ..engine.ops import where
from ..engine.ops.base import array_of, computed, dense, tensor_of
from ..engine.storage import Storage
from ..engine.tensor import empty_contiguous
from .losses import _reduce


def _shifted(rows: Any, by: int) -> Any:
    """Columns moved by `by` to the right (or left), -inf from outside."""
    out = np.full_like(rows, -np.inf)
    if by > 0:
        out[:, by:] = rows[:, :-by]
    else:
        out[:, :by] = rows[:, -by:]
    return out


def _three(stay: Any, one: Any, two: Any) -> Any:
    """log(exp a + exp b + exp c), -inf for none."""
    top = np.maximum(np.maximum(stay, one), two)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return safe + np.log(np.exp(stay - safe) + np.exp(one - safe) + np.exp(two - safe))


class _Paths:
    """The states of all samples: labels with blanks between and around, (N, 2 S + 1)."""

    def __init__(self, log_probs: Any, labels: Any, input_lengths: Any, target_lengths: Any, blank: int) -> None:
        count, longest = labels.shape
        self.labels = np.full((count, 2 * longest + 1), blank, np.int64)
        self.labels[:, 1::2] = labels
        self.inputs, self.targets = input_lengths, target_lengths
        self.scores = np.take_along_axis(  # (T, N, 2 S + 1)
            log_probs, np.broadcast_to(self.labels, (len(log_probs), *self.labels.shape)), 2
        ).astype("float64")
        same = np.ones_like(self.labels, bool)
        same[:, 2:] = self.labels[:, 2:] == self.labels[:, :-2]
        self.may_skip = np.where(same | (self.labels == blank), -np.inf, 0.0)  # into a state from two before
        self.at = np.arange(self.labels.shape[1])
        ends = 2 * target_lengths[:, None] - self.at
        self.end = np.where((ends == 0) | (ends == 1), 0.0, -np.inf)

    def forward(self) -> Any:
        """alpha (T, N, 2 S + 1): log-probability of all ways to be in a state at a time."""
        alpha = np.full_like(self.scores, -np.inf)
        if len(alpha):
            alpha[0, :, :2] = self.scores[0, :, :2]
        for t in range(1, len(alpha)):
            before = alpha[t - 1]
            alpha[t] = self.scores[t] + _three(before, _shifted(before, 1), _shifted(before, 2) + self.may_skip)
        return alpha

    def losses(self, alpha: Any) -> Any:
        """-log of the probability of each target."""
        samples = np.arange(len(self.inputs))
        last = np.where((self.inputs > 0)[:, None], alpha[np.maximum(self.inputs - 1, 0), samples], -np.inf)
        ends = last + self.end
        even, odd = (np.max(ends + np.where(self.at % 2 == k, 0, -np.inf), 1) for k in (0, 1))
        total = _three(even, odd, np.array(-np.inf))
        return np.where((self.inputs == 0) & (self.targets == 0), 0.0, -total)

    def gradient(self, alpha: Any, losses: Any, shape: tuple[int, ...]) -> Any:
        """d(loss of a sample) / d(log_probs): minus the share of the ways that pass there."""
        beta = np.full_like(self.scores[0], -np.inf) if len(alpha) else None
        grad = np.zeros(shape)
        skip = _shifted(self.may_skip, -2)
        rows = np.arange(shape[1])[:, None]
        for t in range(len(alpha) - 1, -1, -1):
            onward = _three(beta, _shifted(beta, -1), _shifted(beta, -2) + skip)
            starts = (self.inputs - 1 == t)[:, None]
            beta = self.scores[t] + np.where(starts, self.end, np.where(self.inputs[:, None] - 1 > t, onward, -np.inf))
            with np.errstate(invalid="ignore"):
                share = np.exp(alpha[t] + beta - self.scores[t] + losses[:, None])
            share = np.where(self.inputs[:, None] > t, share, 0.0)
            np.add.at(grad[t], (rows, self.labels), -share)
        return grad


def _launched(
    grad: Tensor | None, log_probs: Tensor, labels: Any, input_lengths: Any, target_lengths: Any, blank: int
) -> Tensor:
    """The losses (N,), by the kernel; writes d loss / d log_probs into `grad` (T, N, C) if there is one."""
    steps, count, classes = log_probs.shape
    most, workspaces = labels.shape[1], min(count, get_num_threads())
    loss = empty_contiguous((count,))
    ids, times, lengths = (tensor_of(array, int32) for array in (labels, input_lengths, target_lengths))
    room = (steps + 7) * (_up(2 * most + 1) + 32)
    scratch = Storage(4 * room * workspaces)
    launch(
        KERNELS["ctc_f32"], steps * count * (2 * most + 1) >> 4, loss.address, grad.address if grad is not None else 0,
        log_probs.address, ids.address, times.address, lengths.address, scratch.address,
        steps, count, classes, most, blank, room, workspaces,
    )  # fmt: skip
    return loss


def _up(size: int) -> int:
    return (size + 15) // 16 * 16


def _d_ctc(g: Tensor, _: Any, log_probs: Tensor, *rest: Any) -> Any:
    if STATE.enabled:
        raise RuntimeError("ctc_loss: the second derivative is not there")
    weight = array_of(g)[None, :, None]  # zero where an infinite loss was replaced
    if log_probs.dtype is float32:
        grad = empty_contiguous(log_probs.shape)
        _launched(grad, dense(log_probs), *rest)
        shares = grad.array()
    else:
        paths = _Paths(array_of(log_probs), *rest)
        alpha = paths.forward()
        shares = paths.gradient(alpha, paths.losses(alpha), log_probs.shape)
    return (tensor_of(np.where(weight == 0, 0.0, shares * weight), log_probs.dtype),)


@primitive(vjp=_d_ctc, name="_ctc", method=False)
def _ctc(log_probs: Tensor, labels: Any, input_lengths: Any, target_lengths: Any, blank: int) -> Tensor:
    """(T, N, C) → (N,)."""
    computed("ctc_loss")
    paths = _Paths(array_of(log_probs), labels, input_lengths, target_lengths, blank)
    return tensor_of(paths.losses(paths.forward()), log_probs.dtype)


@claims("_ctc")
def _ctc_kernel(log_probs: Tensor, *rest: Any) -> Any:
    return _launched(None, dense(log_probs), *rest) if log_probs.dtype is float32 else NotImplemented


def _lengths(name: str, given: Any, count: int, most: int) -> Any:
    array = np.asarray(array_of(given) if isinstance(given, Tensor) else given, dtype=np.int64).reshape(-1)
    if array.shape != (count,) or (array.size and (array.min() < 0 or array.max() > most)):
        raise ValueError(f"ctc_loss: {name} must be {count} numbers from 0 to {most}, got {array.tolist()}")
    return array


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability that log_probs (T, N, C) (after log_softmax) spell targets (N, S), or (sum of lengths,),
    blanks and repetitions left out. "mean" divides each loss by its target's length first. A target that does not fit
    gives inf, or 0 with `zero_infinity`. Without N: (T, C), (S,).
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
    losses = _ctc(log_probs, labels, inputs, wanted, blank)
    if zero_infinity:
        losses = where(losses.isinf(), 0.0, losses)
    if reduction == "mean":
        losses = losses / tensor_of(np.maximum(wanted, 1), int64).to(losses.dtype)
    return _reduce("ctc_loss", losses, reduction)

"""Connectionist temporal classification (Graves et al. 2006, "Connectionist temporal classification: labelling
unsegmented sequence data with recurrent neural networks"): the loss of each sample, and its gradient.

Both take log_probs (T, N, C), int32 labels (N, S) padded with any class, valid int32 input_lengths and target_lengths
(N,), and the blank class. On the CPU, NumPy computes dtypes other than float32.
"""

from __future__ import annotations

from typing import Any

from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import primitive
from ..tensor import Tensor
from .elementwise.select import where


def _shifted(rows: Any, by: int) -> Any:
    """Columns moved by `by` to the right (or left), -inf from outside."""
    out = np.full_like(rows, -np.inf)
    if by > 0:
        out[:, by:] = rows[:, :-by]
    else:
        out[:, :by] = rows[:, -by:]
    return out


def _three(stay: Any, one: Any, two: Any) -> Any:
    """log(exp a + exp b + exp c); -inf if all are -inf."""
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
        self.may_skip = np.where(same, -np.inf, 0.0)  # to a state from the state two before
        self.at = np.arange(self.labels.shape[1])
        ends = 2 * target_lengths[:, None] - self.at
        self.end = np.where((ends == 0) | (ends == 1), 0.0, -np.inf)

    def forward(self) -> Any:
        """alpha (T, N, 2 S + 1): the log-probability of all paths to a state at a time."""
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
        """d(loss of a sample) / d(log_probs): minus the posterior probability of the state."""
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


def _paths_of(log_probs: Tensor, labels: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> _Paths:
    arrays = [array_of(x) for x in (log_probs, labels, input_lengths, target_lengths)]
    return _Paths(arrays[0], arrays[1], arrays[2], arrays[3], blank)


def _no_second(*_: Any) -> Any:
    raise RuntimeError("ctc_loss: there is no second derivative")


@primitive(vjp=_no_second, name="_ctc_gradient")
def ctc_gradient(
    log_probs: Tensor, labels: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    """The derivative of each sample's loss by log_probs, (T, N, C)."""
    paths = _paths_of(log_probs, labels, input_lengths, target_lengths, blank)
    alpha = paths.forward()
    return tensor_of(paths.gradient(alpha, paths.losses(alpha), log_probs._shape), log_probs.dtype)


def _d_ctc(g: Tensor, _: Any, log_probs: Tensor, *rest: Any) -> Any:
    weight = g.reshape(1, -1, 1)  # zero where an infinite loss was replaced: its gradient is not a number
    gradient = ctc_gradient(log_probs, *rest)
    return (where(weight == 0, gradient.new_zeros(()), gradient * weight),)


@primitive(vjp=_d_ctc, name="_ctc")
def ctc_losses(log_probs: Tensor, labels: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """-log of the probability of each target, (N,); inf if the target is too long for the input."""
    paths = _paths_of(log_probs, labels, input_lengths, target_lengths, blank)
    return tensor_of(paths.losses(paths.forward()), log_probs.dtype)

"""Softmax over many classes, with the rare classes in clusters (Grave et al. 2016,
https://arxiv.org/abs/1609.04309).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...engine import Tensor, ops
from ...engine.lazy import np
from ...engine.ops import from_numpy
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..module import Module
from .containers import ModuleList, Sequential
from .linear import Linear

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class AdaptiveSoftmaxOutput(NamedTuple):
    """`output` (N,): the log-probability of each target; `loss`: minus the mean of `output`."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """input (N, in_features) or (in_features,), targets (N,) or () of `n_classes`, the frequent ones first. The first
    `cutoffs[0]` classes are in the head. Cluster i, up to the next cutoff, has its features reduced by div_value^(i +
    1).
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        limits = [int(c) for c in cutoffs]
        if not limits or limits != sorted(set(limits)) or limits[0] < 1 or limits[-1] >= n_classes:
            raise ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs must rise between 1 and {n_classes - 1}, got {limits}"
            )
        made = {"device": device, "dtype": dtype}
        self.in_features, self.n_classes, self.div_value = in_features, n_classes, div_value
        self.cutoffs = [*limits, n_classes]
        self.shortlist_size, self.n_clusters = limits[0], len(limits)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner, size = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, inner, False, **made), Linear(inner, size, False, **made)))

    def reset_parameters(self) -> None:
        """Initialises all weights again."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> AdaptiveSoftmaxOutput:
        if input.ndim not in (1, 2) or target.shape != input.shape[:-1] or target.dtype.category != 1:
            raise ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss: {describe(input)} and targets {describe(target)} do not fit"
            )
        if input.ndim == 1:
            output = self.forward(input.unsqueeze(0), target.unsqueeze(0)).output
            return AdaptiveSoftmaxOutput(output.squeeze(0), -output.mean())
        wanted = target.array().astype(np.int64)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self.n_classes):
            raise IndexError(f"AdaptiveLogSoftmaxWithLoss: targets are outside 0 .. {self.n_classes - 1}")
        head = self.head(input).log_softmax(1)
        cluster = np.searchsorted(np.asarray(self.cutoffs), wanted, side="right")  # 0 is the head
        column = np.where(cluster == 0, wanted, self.shortlist_size + cluster - 1)
        output = head.gather(1, from_numpy(column).to(input.device).unsqueeze(1)).squeeze(1)
        for i in range(1, self.n_clusters + 1):
            rows = np.flatnonzero(cluster == i).astype(np.int64)
            if len(rows):
                at = from_numpy(rows).to(input.device)
                scores = self.tail[i - 1](input.index_select(0, at)).log_softmax(1)
                inside = from_numpy(wanted[rows] - self.cutoffs[i - 1]).to(input.device).unsqueeze(1)
                output = ops.index_add(output, 0, at, scores.gather(1, inside).squeeze(1))
        return AdaptiveSoftmaxOutput(output, -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes: (N, in_features) → (N, n_classes)."""
        head = self.head(input).log_softmax(1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(tail(input).log_softmax(1) + head[:, at : at + 1])
        return ops.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class: (N, in_features) → (N,), int64."""
        return self.log_prob(input).argmax(1)

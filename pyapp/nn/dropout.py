"""Dropout, as a function and as a module."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, ops
from .module import Module


def dropout(input: Tensor, p: float = 0.5, training: bool = True, *, generator: Any = None) -> Tensor:
    """Zeroes each element with probability p and divides the rest by 1 - p (Srivastava et al. 2014); the input itself
    when not training. The numbers come from `generator`, or the default one: the same seed gives the same mask.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p must be in [0, 1], got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0.0
    kept = ops.rand(input.shape, generator=generator) >= p
    return input * (kept.to(input.dtype) * (1 / (1 - p)))


class Dropout(Module):
    """See dropout: acts in training only. `inplace` is taken for torch's sake; the result is a new tensor."""

    def __init__(self, p: float = 0.5, inplace: bool = False, *, generator: Any = None) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p must be in [0, 1], got {p}")
        self.p = p
        self.inplace = inplace
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training, generator=self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"

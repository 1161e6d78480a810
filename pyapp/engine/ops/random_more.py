"""More random numbers: coins, normal numbers of given means, integers like a tensor."""

from __future__ import annotations

from typing import Any

from ..op import describe
from ..shape import broadcast_shapes
from ..tensor import Tensor
from .random import Generator, rand, randint, randn


def bernoulli(x: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element of x is, or `p`, else 0, in x's dtype. ValueError outside 0 .. 1."""
    if p is not None:
        if not 0 <= p <= 1:
            raise ValueError(f"bernoulli: the probability {p} must lie between 0 and 1")
        return (rand(x.shape, generator=generator) < p).to(x.dtype)
    if x.numel() and not (0 <= float(x.detach().amin()) and float(x.detach().amax()) <= 1):
        raise ValueError(f"bernoulli: the probabilities in {describe(x)} must lie between 0 and 1")
    return (rand(x.shape, generator=generator) < x.detach()).to(x.dtype)


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Normal numbers of mean and standard deviation: numbers with a size, or tensors, broadcast."""
    shapes = [v.shape for v in (mean, std) if isinstance(v, Tensor)]
    if size is None and not shapes:
        raise ValueError("normal: two numbers need a size")
    shape = broadcast_shapes(*shapes, op="normal") if size is None else tuple(size)
    return randn(shape, generator=generator) * std + mean


def randint_like(
    x: Tensor, low: int, high: int | None = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """Integers low .. high - 1 in the shape and dtype of x."""
    return randint(low, high, x.shape, generator, dtype or x.dtype)


def _bernoulli_(x: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Writes coins of probability p."""
    return x.copy_((rand(x.shape, generator=generator) < p).to(x.dtype))


Tensor.bernoulli = bernoulli  # type: ignore[attr-defined]
Tensor.bernoulli_ = _bernoulli_  # type: ignore[attr-defined]

"""More activations, by torch.nn.functional's names."""

from __future__ import annotations

from typing import Any

from ..op import describe, op
from ..tensor import Tensor
from .elementwise import maximum, minimum, where
from .norm import softmax
from .special import elu, expm1, hardtanh


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6)."""
    return hardtanh(x, 0.0, 6.0)


def hardsigmoid(x: Tensor) -> Tensor:
    """min(max(x / 6 + ½, 0), 1)."""
    return hardtanh(x + 3.0, 0.0, 6.0) / 6.0


def hardswish(x: Tensor) -> Tensor:
    """x hardsigmoid(x) (Howard et al. 2019, arXiv 1905.02244)."""
    return where(x <= -3, x * 0, where(x >= 3, x, x * (x + 3.0) / 6.0))


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)) (Barron 2017, arXiv 1704.07483)."""
    return where(x > 0, x, expm1(where(x > 0, 0.0, x) / alpha) * alpha)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def selu(x: Tensor) -> Tensor:
    """Scaled elu that keeps mean and variance (Klambauer et al. 2017, arXiv 1706.02515)."""
    return elu(x, _SELU_ALPHA) * _SELU_SCALE


def glu(x: Tensor, dim: int = -1) -> Tensor:
    """a sigmoid(b) for the halves a, b of a dim (Dauphin et al. 2016, arXiv 1612.08083)."""
    if x.shape[dim] % 2:
        raise ValueError(f"glu: dim {dim} of {describe(x)} is odd")
    a, b = x.chunk(2, dim)
    return a * b.sigmoid()


@op(vjp=lambda g, _, x: (g * (-x).sigmoid(),))
def logsigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), stable."""
    return minimum(x, 0.0) - (-x.abs()).exp().log1p()


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return x / (x.abs() + 1)


def tanhshrink(x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return x - x.tanh()


def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards 0, and not beyond."""
    if lambd < 0:
        raise ValueError(f"softshrink: lambd {lambd} is negative")
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0))


def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| > lambd, else 0."""
    return where(x.abs() > lambd, x, x * 0)


def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """x where x > threshold, else value."""
    return where(x > threshold, x, value)


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x, or weight x below zero: one weight, or one for each channel (dim 1) (He et al. 2015, arXiv 1502.01852)."""
    if weight.numel() != 1:
        if x.ndim < 2 or weight.shape != (x.shape[1],):
            raise ValueError(f"prelu: the weight {describe(weight)} does not fit the channels of {describe(x)}")
        weight = weight.reshape((1, -1) + (1,) * (x.ndim - 2))
    return where(x > 0, x, x * weight)


def rrelu(
    x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, *, generator: Any = None
) -> Tensor:
    """x, or a x below zero: a uniform in lower .. upper in training, else their mean."""
    from .random import rand

    if not training:
        return where(x >= 0, x, x * ((lower + upper) / 2))
    slope = rand(x.shape, generator=generator, dtype=x.dtype) * (upper - lower) + lower
    return where(x >= 0, x, x * slope)


def softmin(x: Tensor, dim: int = -1) -> Tensor:
    """softmax(-x)."""
    return softmax(-x, dim)


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1, *, generator: Any = None
) -> Tensor:
    """Samples of softmax((logits + Gumbel noise) / tau); `hard`: one-hot, with the soft one's gradient (Jang et al.
    2016, arXiv 1611.01144).
    """
    from .random import rand

    uniform = rand(logits.shape, generator=generator, dtype=logits.dtype)
    noise = -(-(maximum(uniform, 2.0**-24).log())).log()
    soft: Tensor = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = soft.detach().argmax(dim, True)
    one = soft.detach() * 0
    return one.scatter(dim, chosen, 1.0) - soft.detach() + soft


def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """Integers (...) → (..., classes) of 0 and 1 (int64); as many classes as the largest asks, unless given."""
    from .create import arange

    if x.dtype.category != 1:
        raise TypeError(f"one_hot: takes integers, got {describe(x)}")
    if num_classes < 0:
        num_classes = int(x.amax()) + 1 if x.numel() else 0
    if x.numel() and (int(x.amin()) < 0 or int(x.amax()) >= num_classes):
        raise ValueError(f"one_hot: values {int(x.amin())} .. {int(x.amax())} are outside 0 .. {num_classes - 1}")
    return (x.unsqueeze(-1) == arange(num_classes)).to("int64")

"""softmax and its relatives: log_softmax, softmin, gumbel_softmax, logsumexp, logcumsumexp."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..op import Op, op
from ..tensor import Tensor
from .elementwise.compare import maximum
from .elementwise.select import where
from .random import rand
from .reduce import amax


@function()
def softmin(x: Tensor, dim: int = -1) -> Tensor:
    """softmax(-x)."""
    return softmax(-x, dim)


@function()
def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1, *, generator: Any = None
) -> Tensor:
    """Samples of softmax((logits + Gumbel noise) / tau). With `hard` the result is one-hot, with the gradient of the
    soft sample (Jang et al. 2016, arXiv 1611.01144).
    """
    uniform = rand(logits.shape, generator=generator, dtype=logits.dtype)
    noise = -(-(maximum(uniform, 2.0**-24).log())).log()
    soft: Tensor = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = soft.detach().argmax(dim, True)
    one = soft.detach() * 0
    return one.scatter(dim, chosen, 1.0) - soft.detach() + soft


@op()
def softmax_backward(g: Tensor, y: Tensor, dim: int) -> Tensor:
    """The gradient of softmax in its input, from its output y."""
    return y * (g - (g * y).sum(dim, True))


@op()
def log_softmax_backward(g: Tensor, y: Tensor, dim: int) -> Tensor:
    """The gradient of log_softmax in its input, from its output y."""
    return g - y.exp() * g.sum(dim, True)


@function(method=True)
@op(vjp=lambda g, y, x, dim=-1: (softmax_backward(g, y, dim),), saves="output")
def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along a dim; rows of -inf give NaN, as in torch."""
    if not x.numel():
        return x.clone()
    top = x.amax(dim, True)
    e = (x - top).exp()
    return e / e.sum(dim, True)


@function(method=True)
@op(vjp=lambda g, y, x, dim=-1: (log_softmax_backward(g, y, dim),), saves="output")
def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """log of softmax, numerically stable."""
    if not x.numel():
        return x.clone()
    top = x.amax(dim, True)
    top = where(top.isfinite(), top, 0.0)
    centred = x - top
    return centred - centred.exp().sum(dim, True).log()


def _in_dtype(operation: Op) -> Any:
    def call(x: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
        return operation(x if dtype is None else x.to(dtype), dim)

    return call


softmax.by_name, log_softmax.by_name = _in_dtype(softmax), _in_dtype(log_softmax)


@function(method=True)
@op()
def logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over dims, numerically stable."""
    if not x.dtype.is_floating_point:
        x = x.to(_dtype.float32)
    if not x.numel():  # log of no sum
        return x.sum(dim, keepdim).log()
    top = amax(x, dim, True).detach()
    top = where(top.isfinite(), top, 0.0)
    total = (x - top).exp().sum(dim, keepdim).log()
    return total + (top if keepdim else top.reshape(total.shape))


@function(method=True)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """log of the running sum of exp along a dim, numerically stable."""
    if not x.numel():
        return x.clone()
    top = x.detach().amax(dim, True)
    safe = where(top.isfinite(), top, 0.0)
    return (x - safe).exp().cumsum(dim).log() + safe

"""softmax and its relatives: log_softmax, softmin, gumbel_softmax, logsumexp, logcumsumexp."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..dtype import DType
from ..grad_mode import STATE
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import Op, op, primitive
from ..operands import is_half
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .dtype_limits import finfo
from .elementwise.compare import maximum
from .elementwise.limits import clamp
from .elementwise.select import where
from .random import rand
from .reduce import _spread, amax


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
    uniform = rand(logits._shape, generator=generator, dtype=logits.dtype, device=logits.device)
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


@cache
def _largest(dtype: DType) -> float:
    return finfo(dtype).max


@function(method=True)
@op(saves="both")
def logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over dims, numerically stable."""
    if not x.dtype.has_gradient:
        x = x.to(_dtype.float32)
    if not x.numel():  # log of no sum
        return x.sum(dim, keepdim).log()
    top = amax(x.real if x.dtype.is_complex else x, dim, True).detach()
    most = _largest(top.dtype)
    top = clamp(top, -most, most)  # the difference of infinities would be NaN
    total = (x - top).exp().sum(dim, keepdim).log()
    return total + (top if keepdim else top.reshape(total._shape))


@logsumexp.gradient
def _d_logsumexp(g: Tensor, y: Tensor, x: Tensor, dim: Any, keepdim: bool = False) -> tuple[Tensor]:
    return ((x - _spread(y, x, dim, keepdim)).exp() * _spread(g, x, dim, keepdim),)


def _d_logcumsumexp(g: Tensor, y: Tensor, x: Tensor, dim: int) -> tuple[Tensor]:
    """In logarithms, as the values, so that nothing overflows: apart for positive and negative g. Where g is itself
    differentiated both parts are greater by a constant, because the logarithm of 0 has no derivative."""
    more = g.detach().abs().max() + 1.0 if STATE.enabled and g._requires_grad and g.numel() else None
    base = y if x.dtype.is_complex else where(y == -inf, 0.0, y)

    def share(part: Tensor) -> Tensor:
        return (logcumsumexp((part.log() - base).flip(dim), dim).flip(dim) + x).exp()

    if x.dtype.is_complex:
        return (share(g) if more is None else share(g + 2 * more) - share(g.detach() * 0 + 2 * more),)
    up, down = where(g >= 0, g, 0.0), where(g < 0, -g, 0.0)
    return (share(up) - share(down) if more is None else share(up + more) - share(down + more),)


@function(method=True)
@primitive(vjp=_d_logcumsumexp, saves="both")
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """log of the running sum of exp along a dim, stable. TypeError for integers."""
    if not x.dtype.has_gradient:
        raise TypeError(f"logcumsumexp: takes floating-point or complex tensors, not {describe(x)}")
    axis = normalize_dim(dim, x.ndim, "logcumsumexp")
    array = array_of(x, _dtype.float32 if is_half(x) else None)
    if not x.ndim:
        return tensor_of(array.copy(), x.dtype)
    with np.errstate(invalid="ignore", divide="ignore"):
        if x.dtype.is_complex:
            return tensor_of(_add_up(np.moveaxis(array, axis, 0), axis), x.dtype)
        return tensor_of(np.logaddexp.accumulate(array, axis=axis), x.dtype)


def _add_up(rows: Any, axis: int) -> Any:
    """logcumsumexp of complex numbers along the first dim, which then becomes dim `axis`."""
    found = np.array(rows)
    for at in range(1, len(rows)):
        a, b = found[at - 1], rows[at]
        larger = a.real >= b.real
        high, low = np.where(larger, a, b), np.where(larger, b, a)
        found[at] = np.where(np.isneginf(low.real), high, high + np.log(1 + np.exp(low - high)))
    return np.moveaxis(found, 0, axis)

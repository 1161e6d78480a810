"""Normalisations: rms_norm, layer_norm, softmax."""

from __future__ import annotations

from typing import Any

from ..op import Op, describe, op
from ..tensor import Tensor
from .elementwise import where


@op()
def _rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x²) + epsilon) * weight."""
    return x * ((x * x).mean(-1, True) + epsilon).rsqrt() * weight


def rms_norm(x: Tensor, weight: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Root mean square norm over the last dim (Zhang & Sennrich 2019, arXiv 1910.07467). x (..., D), weight (D,)."""
    if x.shape[-1:] != weight.shape:
        raise ValueError(f"rms_norm: the weight {describe(weight)} does not fit the last dim of {describe(x)}")
    return _rms_norm(x, weight, epsilon)


@op()
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + epsilon) * weight + bias over the last dim (Ba et al. 2016, arXiv 1607.06450)."""
    centred = x - x.mean(-1, True)
    return centred * ((centred * centred).mean(-1, True) + epsilon).rsqrt() * weight + bias


@op(vjp=lambda g, y, x, dim=-1: (y * (g - (g * y).sum(dim, True)),), saves="output", method=True)
def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along a dim; rows of -inf give NaN, as in torch."""
    if not x.numel():
        return x.clone()
    top = x.amax(dim, True)
    e = (x - top).exp()
    return e / e.sum(dim, True)


@op(vjp=lambda g, y, x, dim=-1: (g - y.exp() * g.sum(dim, True),), saves="output", method=True)
def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """log of softmax, stable."""
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

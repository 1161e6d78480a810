"""Group norm, and what it shares with batch and instance norm; local response norm."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

from ..autocast import in_full_precision_on_cards
from ..autograd import STATE, no_grad
from ..declare import function
from ..dtype import float32
from ..op import op
from ..operands import is_half
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import definition_gradient, fused_gradient
from .normalization import standardized
from .padding import pad
from .sliding_windows import windows
from .view import reshape


def per_channel(values: Tensor, rank: int) -> Tensor:
    """(C,) → (1, C, 1, ...)."""
    return reshape(values, (1, values._shape[0]) + (1,) * (rank - 2))


def scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x (N, C, ...) times weight plus bias (C,)."""
    if weight is not None:
        x = x * per_channel(weight, x.ndim)
    return x if bias is None else x + per_channel(bias, x.ndim)


def widened(x: Tensor, *given: Tensor | None) -> list[Any]:
    """Weights and statistics of 16 bits in float32 where x is float32, so that kernels take them."""
    return [w.to(float32) if w is not None and x.dtype is float32 and is_half(w) else w for w in given]


@op()
def _channel_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, statistics: Tensor | None, groups: int, epsilon: float
) -> Tensor:
    """x (N, C, ...) by the mean and variance of each group of channels of each sample, or with 0 groups of each channel
    of the batch; times weight plus bias (C,). `statistics` (rows, 3) gets mean, variance and 1 / sqrt(variance +
    epsilon) of each group of each sample, or of each channel.
    """
    if groups:
        rows = reshape(x, (x._shape[0], groups, prod(x._shape[1:]) // groups))
        y, mean, var = standardized(rows, (2,), epsilon)
        y = reshape(y, x._shape)
    else:
        y, mean, var = standardized(x, (0, *range(2, x.ndim)), epsilon)
    if statistics is not None:
        with no_grad():
            columns = (mean, var, (var + epsilon).rsqrt())
            for at, column in enumerate(columns):
                statistics[:, at].copy_(reshape(column.detach(), -1))
    return scaled(y, weight, bias)


channel_norm_backward = fused_gradient(_channel_norm)
_channel_norm.reads = lambda edges: (0, 1, 3)  # not the bias


def _d_channel_norm(gradient: Tensor, x: Tensor, weight: Any, bias: Any, statistics: Any, *rest: Any) -> Any:
    """What is saved for the gradient must not be written again."""
    return definition_gradient(_channel_norm, gradient, x, weight, bias, None, *rest)


channel_norm_backward.definition = _d_channel_norm


def _space_for_statistics(x: Tensor, rows: int, *learnt: Tensor | None) -> Tensor | None:
    """(rows, 3), uninitialised, where a gradient will read it; else None."""
    if not STATE.enabled or not any(t is not None and t.requires_grad for t in (x, *learnt)):
        return None
    return x.new_empty((rows, 3))


@function()
@in_full_precision_on_cards
def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalises (N, C, ...) by mean and variance over the channels of each group and all further dims, then multiplies
    by weight and adds bias (C,) (Wu and He 2018, arXiv 1803.08494).
    """
    if x.ndim < 2 or num_groups < 1 or x._shape[1] % num_groups:
        raise ValueError(f"group_norm: {describe(x)} does not make {num_groups} groups of channels")
    if is_half(x):
        return group_norm(x.to(float32), num_groups, weight, bias, eps).to(x.dtype)
    weight, bias = widened(x, weight, bias)
    statistics = _space_for_statistics(x, x._shape[0] * num_groups, weight, bias)
    found: Tensor = _channel_norm(x, weight, bias, statistics, num_groups, eps)
    return found


@function()
def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha mean(x² over `size` neighbouring channels))^beta (Krizhevsky et al. 2012)."""
    if x.ndim < 3:
        raise ValueError(f"local_response_norm: takes (N, C, L, ...), got {describe(x)}")
    size = index(size)
    squares = (x * x).flatten(2)
    wide = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = windows(wide, 1, size, 1, name="local_response_norm").sum(-1) / size
    return x / (reshape(mean, x._shape) * alpha + k) ** beta

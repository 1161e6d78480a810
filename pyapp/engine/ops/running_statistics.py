"""Normalisations of channels by the statistics of a batch or of a sample, or by running ones."""

from __future__ import annotations

from math import prod
from typing import Any

from ..autograd import STATE, no_grad
from ..declare import function
from ..dtype import float32
from ..element_programs import ElementProgram
from ..op import op
from ..operands import is_half
from ..tensor import Tensor, empty_contiguous, make
from ..user_errors import describe
from .channel_norms import _channel_norm, _space_for_statistics, per_channel, widened
from .composite_gradient import definition_gradient
from .element_updates import update_elements


def batch_normalized(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """x (N, C, ...) by the statistics of each channel, times weight plus bias (C,); mean and variance (C,), outside the
    graph.
    """
    channels, (weight, bias) = x._shape[1], widened(x, weight, bias)
    statistics = empty_contiguous((channels, 3), x.dtype, x.device)
    y = _channel_norm(x, weight, bias, statistics, 0, eps)
    # One copy side by side, instead of one of each where they are read.
    both = make(statistics._storage, (2, channels), (1, 3), x.dtype)._row_major()
    mean, var = (make(both._storage, (channels,), (1,), x.dtype, at) for at in (0, channels))
    return y, mean, var


_moved = ElementProgram(
    lambda mean, var, new_mean, new_var, kept, share, scale: (
        mean * kept + new_mean * share, var * kept + new_var * scale * share, None, None,
    ),
    4, 3,
)  # fmt: skip


def track(
    running_mean: Tensor | None, running_var: Tensor | None, mean: Tensor, var: Tensor, momentum: float, scale: float
) -> None:
    """Moves the running statistics that there are towards mean, and var times scale."""
    if running_mean is running_var is None or STATE.traced:  # what is written down is the result alone
        return
    with no_grad():
        kind = (running_mean if running_var is None else running_var).dtype  # type: ignore[union-attr]
        if mean.dtype is not kind or var.dtype is not kind:
            mean, var = mean.to(kind), var.to(kind)
        first, second = (
            own if own is not None and own.dtype is kind else new._row_major()
            for own, new in ((running_mean, mean), (running_var, var))
        )
        update_elements(first, (second, mean, var), _moved, (1 - momentum, momentum, scale))
        if running_mean is not None and first is not running_mean:
            track(running_mean, None, mean, var, momentum, scale)


@op()
def _batch_norm(x: Tensor, mean: Tensor, var: Tensor, weight: Any, bias: Any, epsilon: float) -> Tensor:
    """One product and one sum for each element of (N, C, ...), by statistics (C,) of each channel."""
    factor = (var + epsilon).rsqrt()  # (C,)
    factor = factor if weight is None else factor * weight
    shift = mean * factor if bias is None else mean * factor - bias  # (C,)
    return x * per_channel(factor, x.ndim) - per_channel(shift, x.ndim)


@_batch_norm.gradient
def _d_batch_norm(
    g: Tensor, _: Any, x: Tensor, mean: Tensor, var: Tensor, weight: Any, bias: Any, epsilon: float
) -> Any:
    learnt = [t is not None and t.requires_grad for t in (weight, bias)]
    if mean.requires_grad or var.requires_grad:
        return definition_gradient(_batch_norm, g, x, mean, var, weight, bias, epsilon)
    root, dims = (var + epsilon).rsqrt(), (0, *range(2, x.ndim))  # (C,)
    d_x = g * per_channel(root if weight is None else root * weight, x.ndim) if x.requires_grad else None
    total = g.sum(dims) if any(learnt) else None  # (C,)
    d_weight = (((g * x).sum(dims) - total * mean) * root).to(weight.dtype) if learnt[0] else None
    d_bias = total.to(bias.dtype) if total is not None and learnt[1] else None
    return d_x, None, None, d_weight, d_bias, None


_batch_norm.reads = lambda edges: (0, 1, 2, 3)  # not the bias


@function()
def batch_norm(
    x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalises each channel of (N, C, ...). In training, by its mean and variance over the batch; the running values
    are updated with `momentum` (the variance unbiased). Otherwise by the running values (Ioffe and Szegedy 2015, arXiv
    1502.03167).
    """
    if x.ndim < 2:
        raise ValueError(f"batch_norm: takes (N, C, ...), got {describe(x)}")
    if is_half(x):
        wide = batch_norm(x.to(float32), running_mean, running_var, weight, bias, training, momentum, eps)
        return wide.to(x.dtype)
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: evaluation needs running_mean and running_var")
        found: Tensor = _batch_norm(x, *widened(x, running_mean, running_var, weight, bias), eps)
        return found
    count = x.numel() // max(1, x._shape[1])
    if not x.numel():  # nothing to normalise, and no statistics
        nothing = x.new_zeros(x._shape[1])
        empty: Tensor = _batch_norm(x, nothing, nothing, weight, bias, eps)
        return empty
    if count < 2:
        raise ValueError(f"batch_norm: training needs more than one value per channel, got {describe(x)}")
    y, mean, var = batch_normalized(x, weight, bias, eps)
    track(running_mean, running_var, mean, var, momentum, count / (count - 1))
    return y


@function()
def instance_norm(
    x: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalises each channel of each sample of (N, C, ...) by its mean and variance, or by the running ones (Ulyanov
    et al. 2016, arXiv 1607.08022).
    """
    if x.ndim < 3:
        raise ValueError(f"instance_norm: takes (N, C, L, ...), got {describe(x)}")
    if is_half(x):
        wide = instance_norm(x.to(float32), running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
        return wide.to(x.dtype)
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    count = prod(x._shape[2:])
    if count < 2:
        raise ValueError(f"instance_norm: needs more than one value per channel, got {describe(x)}")
    (samples, channels), (weight, bias) = x._shape[:2], widened(x, weight, bias)
    statistics = _space_for_statistics(x, samples * channels, weight, bias)
    if statistics is None and running_mean is not None:
        statistics = x.new_empty((samples * channels, 3))
    y: Tensor = _channel_norm(x, weight, bias, statistics, channels, eps)
    if statistics is not None:
        mean, var, _ = statistics.reshape(samples, channels, 3).mean(0).unbind(1)
        track(running_mean, running_var, mean, var, momentum, count / (count - 1))
    return y

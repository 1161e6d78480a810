"""Normalisations in torch.nn.functional's forms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

from ..autocast import in_full_precision_on_cards
from ..autograd import STATE, no_grad
from ..declare import function
from ..device import Device
from ..dtype import DType, float32
from ..launch import constants
from ..op import op
from ..operands import is_half
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import definition_gradient, fused_gradient
from .create import full
from .elementwise.compare import maximum
from .padding import pad
from .sliding_windows import windows
from .view import reshape


def per_channel(values: Tensor, rank: int) -> Tensor:
    """(C,) → (1, C, 1, ...)."""
    return reshape(values, (1, values.shape[0]) + (1,) * (rank - 2))


def scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x (N, C, ...) times weight plus bias (C,)."""
    if weight is not None:
        x = x * per_channel(weight, x.ndim)
    return x if bias is None else x + per_channel(bias, x.ndim)


def widened(x: Tensor, *given: Tensor | None) -> list[Any]:
    """Weights and statistics of 16 bits in float32 where x is float32, so that kernels take them."""
    return [w.to(float32) if w is not None and x.dtype is float32 and is_half(w) else w for w in given]


def standardized(x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps) over dims; mean and var with these dims kept."""
    mean = x.mean(dims, True)
    centred = x - mean
    var = (centred * centred).mean(dims, True)
    return centred * (var + eps).rsqrt(), mean, var


def _last_dims(name: str, x: Tensor, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ValueError(f"{name}: {describe(x)} does not end in {shape}")
    return shape


@op()
def _rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x²) + epsilon) * weight over the last dim."""
    if is_half(x):
        return _rms_norm(x.to(float32), weight.to(float32), epsilon).to(x.dtype)
    return x * ((x * x).mean(-1, True) + epsilon).rsqrt() * weight


rms_norm_backward = fused_gradient(_rms_norm)


@op(name="layer_norm")
def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + epsilon) * weight + bias over the last dim."""
    if is_half(x):
        return _layer_norm(x.to(float32), weight.to(float32), bias.to(float32), epsilon).to(x.dtype)
    centred = x - x.mean(-1, True)
    return centred * ((centred * centred).mean(-1, True) + epsilon).rsqrt() * weight + bias


layer_norm_backward = fused_gradient(_layer_norm)


@constants(16)
def _no_affine(size: int, kind: DType, device: Device) -> tuple[Tensor, Tensor]:
    """The weight and the bias of a norm that has none."""
    return full((size,), 1.0, dtype=kind, device=device), full((size,), 0.0, dtype=kind, device=device)


@function()
def layer_norm(
    x: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) over the last dims, times weight plus bias (Ba et al. 2016, arXiv 1607.06450).

    Also as (x, weight, bias, eps), over the last dim.
    """
    if isinstance(normalized_shape, Tensor):
        if x.shape[-1:] != normalized_shape.shape:
            told = f"{describe(normalized_shape)} does not fit the last dim of {describe(x)}"
            raise ValueError(f"layer_norm: the weight {told}")
        return _layer_norm(x, normalized_shape, weight, eps if bias is None else bias)
    shape = _last_dims("layer_norm", x, normalized_shape)
    if len(shape) == 1:
        if weight is None or bias is None:
            ones, zeros = _no_affine(shape[0], x.dtype, x.device)
            weight, bias = ones if weight is None else weight, zeros if bias is None else bias
        return _layer_norm(x, weight, bias, eps)
    if is_half(x):
        return layer_norm(x.to(float32), shape, weight, bias, eps).to(x.dtype)
    y = standardized(x, range(x.ndim - len(shape), x.ndim), eps)[0]
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _rms_norm_last(x: Tensor, weight: Tensor, epsilon: Any) -> Tensor:
    if x.shape[-1:] != weight.shape:
        raise ValueError(f"rms_norm: the weight {describe(weight)} does not fit the last dim of {describe(x)}")
    return _rms_norm(x, weight, epsilon)


@function()
def rms_norm(x: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    """x / sqrt(mean(x²) + eps) over the last dims, times weight (Zhang & Sennrich 2019, arXiv 1910.07467).

    The default of eps is finfo(dtype).eps of the dtype of the computation, which is float32 for 16-bit dtypes. Also as
    (x, weight, eps = 1e-5), over the last dim.
    """
    if isinstance(normalized_shape, Tensor):
        return _rms_norm_last(x, normalized_shape, 1e-5 if weight is None else weight)
    shape = _last_dims("rms_norm", x, normalized_shape)
    epsilon = eps if eps is not None else 2.0**-52 if x.dtype.itemsize == 8 else 2.0**-23
    if len(shape) == 1 and weight is not None:
        return _rms_norm(x, weight, epsilon)
    if is_half(x):
        return rms_norm(x.to(float32), shape, None if weight is None else weight.to(float32), epsilon).to(x.dtype)
    dims = list(range(x.ndim - len(shape), x.ndim))
    y = x * ((x * x).mean(dims, True) + epsilon).rsqrt()
    return y if weight is None else y * weight


@op()
def _channel_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, statistics: Tensor | None, groups: int, epsilon: float
) -> Tensor:
    """x (N, C, ...) by the mean and variance of each group of channels of each sample, or with 0 groups of each channel
    of the batch; times weight plus bias (C,). `statistics` (rows, 3) gets mean, variance and 1 / sqrt(variance +
    epsilon) of each group of each sample, or of each channel.
    """
    if groups:
        rows = reshape(x, (x.shape[0], groups, prod(x.shape[1:]) // groups))
        y, mean, var = standardized(rows, (2,), epsilon)
        y = reshape(y, x.shape)
    else:
        y, mean, var = standardized(x, (0, *range(2, x.ndim)), epsilon)
    if statistics is not None:
        with no_grad():
            columns = (mean, var, (var + epsilon).rsqrt())
            for at, column in enumerate(columns):
                statistics[:, at].copy_(reshape(column.detach(), -1))
    return scaled(y, weight, bias)


channel_norm_backward = fused_gradient(_channel_norm)


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
    if x.ndim < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise ValueError(f"group_norm: {describe(x)} does not make {num_groups} groups of channels")
    if is_half(x):
        return group_norm(x.to(float32), num_groups, weight, bias, eps).to(x.dtype)
    weight, bias = widened(x, weight, bias)
    statistics = _space_for_statistics(x, x.shape[0] * num_groups, weight, bias)
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
    return x / (reshape(mean, x.shape) * alpha + k) ** beta


@function()
@in_full_precision_on_cards
def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm, eps) along a dim."""
    if is_half(x):
        return normalize(x.to(float32), p, dim, eps).to(x.dtype)
    return x / maximum(x.norm(p, dim, True), eps)

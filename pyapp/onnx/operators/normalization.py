"""Normalisation."""

from __future__ import annotations

from math import prod
from typing import Any

from pyapp.engine import Tensor, ops

from ..registry import operator
from ..values import axes_of, element_name


def _channels(x: Tensor, rank: int) -> Tensor:
    """(C,) → (1, C, 1, …)."""
    return x.reshape(1, -1, *[1] * (rank - 2))


@operator("BatchNormalization", since=14)
def batch_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:  # fmt: skip
    """(x - mean) / sqrt(var + epsilon) · scale + bias of each channel; in training by the batch, and the running
    values."""
    if not training_mode:
        factor = scale / (var + epsilon).sqrt()
        shift = bias - mean * factor
        return (x * _channels(factor, x.ndim) + _channels(shift, x.ndim)).to(x.dtype)
    dims = tuple(d for d in range(x.ndim) if d != 1)
    own_mean, own_var = x.mean(dims), x.var(dims, 0)
    running = mean * momentum + own_mean * (1 - momentum), var * momentum + own_var * (1 - momentum)
    centred = (x - _channels(own_mean, x.ndim)) / (_channels(own_var, x.ndim) + epsilon).sqrt()
    return centred * _channels(scale, x.ndim) + _channels(bias, x.ndim), *running


@operator("BatchNormalization")
def batch_normalization_at_inference(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, consumed_inputs: Any = None,
    epsilon: float = 1e-5, is_test: int = 1, momentum: float = 0.9, spatial: int = 1, outputs: int = 1,
) -> Any:  # fmt: skip
    if outputs > 1 or not is_test:
        raise ValueError("it has the outputs of training, which opsets before 14 do not compute here")
    if not spatial:
        return (x - mean) / (var + epsilon).sqrt() * scale + bias
    return batch_normalization(x, scale, bias, mean, var, epsilon=epsilon, momentum=momentum)


def _moments(x: Tensor, dims: tuple[int, ...], epsilon: float, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + epsilon) over dims, mean and 1 / sqrt(var + epsilon), computed in another type."""
    wide = x.to(kind)
    mean = wide.mean(dims, True)
    centred = wide - mean
    inverse = (centred.square().mean(dims, True) + epsilon).rsqrt()
    return centred * inverse, mean, inverse


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor, scale: Tensor, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
    outputs: int = 1,
) -> Any:  # fmt: skip
    """(x - mean) / sqrt(var + epsilon) over the dims from the axis on, times scale plus bias."""
    at = axes_of([axis], x.ndim)[0]
    kind = "float64" if x.dtype.name == "float64" else element_name(stash_type)
    sizes = tuple(x.shape[at:])
    plain = scale.shape == sizes and (bias is None or bias.shape == sizes)
    if outputs == 1 and plain and x.dtype.name == kind and x.numel():
        return ops.layer_norm(x, sizes, scale, bias, epsilon)
    found, mean, inverse = _moments(x, tuple(range(at, x.ndim)), epsilon, kind)
    y = found.to(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """x / sqrt(mean(x²) + epsilon) over the dims from the axis on, times scale."""
    at = axes_of([axis], x.ndim)[0]
    kind = "float64" if x.dtype.name == "float64" else element_name(stash_type)
    if at == x.ndim - 1 and x.dtype.name == kind == "float32" and scale.shape == x.shape[-1:]:
        return ops.rms_norm(x, x.shape[-1:], scale, epsilon)
    wide = x.to(kind)
    found = wide * (wide.square().mean(tuple(range(at, x.ndim)), True) + epsilon).rsqrt()
    return (found.to(scale.dtype) * scale).to(x.dtype) if scale.dtype is not x.dtype else found.to(x.dtype) * scale


@operator("InstanceNormalization")
def instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Each channel of each sample by its own mean and variance."""
    found = _moments(x, tuple(range(2, x.ndim)), epsilon, x.dtype.name)[0]
    return found * _channels(scale, x.ndim) + _channels(bias, x.ndim)


def _grouped(x: Tensor, groups: int, epsilon: float, kind: str) -> Tensor:
    if x.shape[1] % groups:
        raise ValueError(f"{x.shape[1]} channels are not {groups} equal groups")
    parts = x.reshape(x.shape[0], groups, -1)
    return _moments(parts, (2,), epsilon, kind)[0].to(x.dtype).reshape(x.shape)


@operator("GroupNormalization", since=21)
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """(N, C, …) by mean and variance of each group of channels, times scale plus bias of each channel."""
    kind = "float64" if x.dtype.name == "float64" else element_name(stash_type)
    return _grouped(x, num_groups, epsilon, kind) * _channels(scale, x.ndim) + _channels(bias, x.ndim)


@operator("GroupNormalization", since=18)
def group_normalization_by_group(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """Scale and bias are one for each group."""
    each = x.shape[1] // num_groups
    wide = [p.reshape(-1, 1).expand(num_groups, each).reshape(-1) for p in (scale, bias)]
    found = _grouped(x, num_groups, epsilon, x.dtype.name)
    return found * _channels(wide[0], x.ndim) + _channels(wide[1], x.ndim)


@operator("LRN")
def lrn(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """x / (bias + alpha / size · Σ x² over `size` neighbouring channels)^beta."""
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    flat = x.square().reshape(x.shape[0], x.shape[1], prod(x.shape[2:]))
    wide = ops.pad(flat, [0, 0, before, after])
    total = sum((wide[:, k : k + x.shape[1]] for k in range(1, size)), wide[:, : x.shape[1]])
    return x / (total.reshape(x.shape) * (alpha / size) + bias).pow(beta)


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x over its norm along an axis; 0 where that is 0."""
    if p not in (1, 2):
        raise ValueError(f"p is {p}, expected 1 or 2")
    size = x.abs().sum(axis, True) if p == 1 else x.square().sum(axis, True).sqrt()
    return ops.where(size == 0, ops.zeros_like(x), x / ops.where(size == 0, ops.ones_like(size), size))

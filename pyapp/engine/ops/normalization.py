"""Normalisations in torch.nn.functional's forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autocast import in_full_precision_on_cards
from ..declare import function
from ..device import Device
from ..dtype import DType, float32
from ..launch import constants
from ..op import op
from ..operands import is_half
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import fused_gradient
from .create import full
from .elementwise.compare import maximum
from .stacking import cat


def standardized(x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps) over dims; mean and var with these dims kept."""
    mean = x.mean(dims, True)
    centred = x - mean
    var = (centred * centred).mean(dims, True)
    return centred * (var + eps).rsqrt(), mean, var


def _last_dims(name: str, x: Tensor, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x._shape[-len(shape) :] != shape:
        raise ValueError(f"{name}: {describe(x)} does not end in {shape}")
    return shape


@op()
def _rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x²) + epsilon) * weight over the last dim."""
    if is_half(x):
        return _rms_norm(x.to(float32), weight.to(float32), epsilon).to(x.dtype)
    return x * ((x * x).mean(-1, True) + epsilon).rsqrt() * weight


rms_norm_backward = fused_gradient(_rms_norm)


@op(name="_offset_rms_norm")
def offset_rms_norm(x: Tensor, weight: Tensor, offset: float, epsilon: float) -> Tensor:
    """x / sqrt(mean(x²) + epsilon) * (weight + offset) over the last dim."""
    return _rms_norm(x, with_offset(weight, offset), epsilon)


def with_offset(weight: Tensor, offset: float) -> Tensor:
    """weight + offset, float32 for a weight of 16 bits: near 1 these have too few places for small weights."""
    return (weight.to(float32) if is_half(weight) else weight) + offset


@op(name="_normalized_heads")
def normalized_heads(
    qkv: Tensor, query_weight: Tensor, key_weight: Tensor, heads: int, kv_heads: int, epsilon: float, offset: float
) -> Tensor:
    """[queries, keys, values] (..., (H + 2 KV) * D) with a root mean square norm of each head's query and key, by
    weights (D,) to which `offset` is added.
    """
    x = qkv.reshape(*qkv._shape[:-1], heads + 2 * kv_heads, -1)  # (..., H + 2 KV, D)
    parts = [
        offset_rms_norm(x.narrow(-2, 0, heads), query_weight, offset, epsilon),
        offset_rms_norm(x.narrow(-2, heads, kv_heads), key_weight, offset, epsilon),
        x.narrow(-2, heads + kv_heads, kv_heads),
    ]
    return cat(parts, -2).reshape(qkv._shape)


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
        if x._shape[-1:] != normalized_shape._shape:
            told = f"{describe(normalized_shape)} does not fit the last dim of {describe(x)}"
            given = f"Given normalized_shape={list(normalized_shape.shape)}, got input of size {list(x.shape)}"
            raise ValueError(f"layer_norm: {given}: the weight {told}")
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
    if x._shape[-1:] != weight._shape:
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
    if len(shape) == 1 and x.dtype is float32:
        return _rms_norm(x, _no_affine(shape[0], float32, x.device)[0], epsilon)
    dims = list(range(x.ndim - len(shape), x.ndim))
    y = x * ((x * x).mean(dims, True) + epsilon).rsqrt()
    return y if weight is None else y * weight


@function()
@in_full_precision_on_cards
def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm, eps) along a dim."""
    if is_half(x):
        return normalize(x.to(float32), p, dim, eps).to(x.dtype)
    return x / maximum(x.norm(p, dim, True), eps)

"""keras.ops' functions of layers: pools, convolutions, normalisation, attention, losses. Channels come last."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..engine import Tensor, ops
from ..nn import functional as F
from . import losses

__all__ = [
    "average_pool", "batch_normalization", "binary_crossentropy", "categorical_crossentropy", "conv", "conv_transpose",
    "depth_to_space", "depthwise_conv", "dot_product_attention", "gelu", "layer_normalization", "max_pool", "normalize",
    "psnr", "rms_normalization", "separable_conv", "softmax", "space_to_depth", "sparse_categorical_crossentropy",
]  # fmt: skip

_CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _each(value: Any, dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, int) else tuple(value)


def _sides(x: Tensor, window: Any, strides: Any, dilation: Any, padding: str) -> list[int]:
    """What `same` adds to the dims of x (B, C, …) before and after, as `pad` takes it."""
    if padding not in ("same", "valid"):
        raise ValueError(f"padding is same or valid, not {padding!r:.40}")
    found: list[int] = []
    for size, w, s, d in zip(x.shape[2:], window, strides, dilation, strict=True):
        whole = max((-(-size // s) - 1) * s + (w - 1) * d + 1 - size, 0) if padding == "same" else 0
        found = [whole // 2, whole - whole // 2, *found]
    return found


def max_pool(
    inputs: Tensor, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None
) -> Tensor:
    """The largest of each window of inputs (B, …, C)."""
    dims = inputs.ndim - 2
    window = _each(pool_size, dims)
    steps = window if strides is None else _each(strides, dims)
    x = inputs.movedim(-1, 1)
    x = F.pad(x, _sides(x, window, steps, (1,) * dims, padding), value=float("-inf"))
    pool: Any = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[dims]
    return pool(x, window, steps).movedim(1, -1)


def average_pool(
    inputs: Tensor, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None
) -> Tensor:
    """The mean of each window of inputs (B, …, C), of what lies inside."""
    dims = inputs.ndim - 2
    window = _each(pool_size, dims)
    steps = window if strides is None else _each(strides, dims)
    x = inputs.movedim(-1, 1)
    sides = _sides(x, window, steps, (1,) * dims, padding)
    pool: Any = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[dims]
    found = pool(F.pad(x, sides), window, steps)
    if any(sides):
        found = found / pool(F.pad(ops.ones_like(x), sides), window, steps)
    return found.movedim(1, -1)


def conv(
    inputs: Tensor, kernel: Tensor, strides: Any = 1, padding: str = "valid", data_format: Any = None,
    dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """A convolution of inputs (B, …, C) with a kernel (window…, C / groups, filters)."""
    dims = inputs.ndim - 2
    steps, dilation = _each(strides, dims), _each(dilation_rate, dims)
    x = inputs.movedim(-1, 1)
    weight = kernel.permute(dims + 1, dims, *range(dims))
    x = F.pad(x, _sides(x, kernel.shape[:dims], steps, dilation, padding))
    return _CONVOLVE[dims](x, weight, None, steps, 0, dilation, x.shape[1] // kernel.shape[dims]).movedim(1, -1)


def depthwise_conv(
    inputs: Tensor, kernel: Tensor, strides: Any = 1, padding: str = "valid", data_format: Any = None,
    dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """Each channel with kernels of its own, (window…, C, multiplier)."""
    dims = inputs.ndim - 2
    channels, multiplier = kernel.shape[-2:]
    return conv(
        inputs, kernel.reshape(*kernel.shape[:dims], 1, channels * multiplier), strides, padding, None, dilation_rate
    )


def separable_conv(
    inputs: Tensor, depthwise_kernel: Tensor, pointwise_kernel: Tensor, strides: Any = 1, padding: str = "valid",
    data_format: Any = None, dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """depthwise_conv, then a convolution of window 1."""
    found = depthwise_conv(inputs, depthwise_kernel, strides, padding, None, dilation_rate)
    return conv(found, pointwise_kernel)


def conv_transpose(
    inputs: Tensor, kernel: Tensor, strides: Any = 1, padding: str = "valid", output_padding: Any = None,
    data_format: Any = None, dilation_rate: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of a convolution, with a kernel (window…, filters, C)."""
    if output_padding is not None:
        raise NotImplementedError("conv_transpose: output_padding is not supported; crop or pad the output")
    dims = inputs.ndim - 2
    steps, dilation = _each(strides, dims), _each(dilation_rate, dims)
    transposed: Any = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[dims]
    x = inputs.movedim(-1, 1)
    y = transposed(x, kernel.permute(dims + 1, dims, *range(dims)), None, steps, 0, 0, 1, dilation)
    every = enumerate(zip(x.shape[2:], kernel.shape[:dims], steps, dilation, strict=True), 2)
    for dim, (size, window, stride, spread) in every:
        whole = size * stride + (0 if padding == "same" else max((window - 1) * spread + 1 - stride, 0))
        surplus = y.shape[dim] - whole
        if surplus > 0:
            y = y.narrow(dim, surplus // 2, whole)
        elif surplus < 0:
            y = F.pad(y, [0, 0] * (y.ndim - 1 - dim) + [0, -surplus])
    return y.movedim(1, -1)


def softmax(x: Tensor, axis: Any = -1) -> Tensor:
    """Exponentials divided by their sum along an axis or several."""
    if not isinstance(axis, (tuple, list)):
        return x.softmax(-1 if axis is None else axis)
    powers = (x - x.amax(tuple(axis), True)).exp()
    return powers / powers.sum(tuple(axis), True)


def gelu(x: Tensor, approximate: bool = True) -> Tensor:
    """x times the normal distribution's share below it. Here, unlike in an activation, tanh is the default."""
    return F.gelu(x, approximate="tanh" if approximate else "none")


def normalize(x: Tensor, axis: Any = -1, order: float = 2, epsilon: float | None = None) -> Tensor:
    """x divided by its norm along an axis."""
    return F.normalize(x, order, axis, 1e-7 if epsilon is None else epsilon)


def layer_normalization(
    x: Tensor, gamma: Any = None, beta: Any = None, axis: Any = -1, epsilon: float | None = None, **_: Any
) -> Tensor:
    """(x - mean) / deviation along the axes, times gamma, plus beta."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    spread = x.var(axes, correction=0, keepdim=True) + (1e-7 if epsilon is None else epsilon)
    found = (x - x.mean(axes, True)) / spread.sqrt()
    found = found if gamma is None else found * gamma
    return found if beta is None else found + beta


def rms_normalization(x: Tensor, scale: Any = 1, axis: Any = -1, epsilon: float | None = None) -> Tensor:
    """x divided by the root of the mean of its squares, times `scale`."""
    return x * (x.square().mean(axis, True) + (1e-7 if epsilon is None else epsilon)).rsqrt() * scale


def batch_normalization(
    x: Tensor, mean: Tensor, variance: Tensor, axis: int, offset: Any = None, scale: Any = None, epsilon: float = 1e-3
) -> Tensor:
    """(x - mean) / deviation, with numbers for each place of an axis."""
    shape = [-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)]
    found = (x - mean.reshape(shape)) * (variance.reshape(shape) + epsilon).rsqrt()
    found = found if scale is None else found * scale.reshape(shape)
    return found if offset is None else found + offset.reshape(shape)


def dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Any = None, mask: Any = None, scale: float | None = None,
    is_causal: bool = False, **_: Any,
) -> Tensor:  # fmt: skip
    """Attention of (B, T, heads, D) to keys and values (B, S, kv heads, D)."""
    groups = query.shape[2] // key.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))  # (B, heads, T, D)
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.mT * (1 / sqrt(query.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    seen = None if mask is None else mask.to("bool")
    if is_causal:
        rows, columns = (ops.arange(n, device=query.device) for n in scores.shape[-2:])
        causal = columns <= rows.unsqueeze(-1)
        seen = causal if seen is None else seen & causal
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2)


def binary_crossentropy(target: Tensor, output: Tensor, from_logits: bool = False) -> Tensor:
    """-log of the probability of each label."""
    if from_logits:
        return F.binary_cross_entropy_with_logits(output, target.to(output.dtype), reduction="none")
    p, t = output.clamp(1e-7, 1 - 1e-7), target.to(output.dtype)
    return -(t * p.log() + (1 - t) * (1 - p).log())


def categorical_crossentropy(target: Tensor, output: Tensor, from_logits: bool = False, axis: int = -1) -> Tensor:
    """-log of the probability of one-hot labels."""
    return losses.categorical_crossentropy(target, output, from_logits, axis=axis)


def sparse_categorical_crossentropy(
    target: Tensor, output: Tensor, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """-log of the probability of class numbers."""
    return losses.sparse_categorical_crossentropy(target, output, from_logits, axis=axis)


def psnr(x1: Tensor, x2: Tensor, max_val: float) -> Tensor:
    """The ratio of the largest signal to the noise, in decibels."""
    return 20 * ops.log10(ops.full((), float(max_val))) - 10 * (x1 - x2).square().mean().log10()


def depth_to_space(x: Tensor, block_size: int, data_format: Any = None) -> Tensor:
    """(B, H, W, C) -> (B, H * n, W * n, C / n²)."""
    n = block_size
    batch, height, width, channels = x.shape
    found = x.reshape(batch, height, width, n, n, channels // n**2).permute(0, 1, 3, 2, 4, 5)
    return found.reshape(batch, height * n, width * n, channels // n**2)


def space_to_depth(x: Tensor, block_size: int, data_format: Any = None) -> Tensor:
    """(B, H * n, W * n, C) -> (B, H, W, C * n²)."""
    n = block_size
    batch, height, width, channels = x.shape
    found = x.reshape(batch, height // n, n, width // n, n, channels).permute(0, 1, 3, 2, 4, 5)
    return found.reshape(batch, height // n, width // n, n * n * channels)

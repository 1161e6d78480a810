"""Convolutions and pools of pictures whose channels lie together, (N, H, W, C): the order in which processors compute
them fastest. A convolution adds its bias, adds another picture, and holds the result between limits in one step.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any

from ..declare import function
from ..op import op
from ..tensor import Tensor
from ..user_errors import describe
from .conv import _convolution, _distances, _each, _padded, _viewed, _widths
from .create import ones
from .elementwise.limits import clamp
from .reduce import amax
from .view import permute, reshape

Pair = tuple[int, int]
Sides = tuple[Pair, ...]  # (before, after) of height and width


@op()
def _convolution_channels_last(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, packed: Tensor | None, stride: Pair,
    sides: Sides, dilation: Pair, groups: int, low: float, high: float,
) -> Tensor:  # fmt: skip
    """Arguments as conv2d_channels_last has checked them."""
    y = _convolution(permute(x, (0, 3, 1, 2)), weight, bias, stride, sides, dilation, groups)  # (N, O, H', W')
    y = permute(y, (0, 2, 3, 1))
    if residual is not None:
        y = y + residual
    return y if low == -inf and high == inf else clamp(y, low, high)


@function()
def conv2d_channels_last(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1, residual: Tensor | None = None, low: float = -inf, high: float = inf,
    packed: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """conv2d for x (N, H, W, C), weight (O, C / groups, KH, KW), bias (O,) → (N, H', W', O), plus `residual` of the
    result's shape, held between `low` and `high`. `packed`: pack_convolution_weight(weight, groups), where the weight
    is used often. NaN stays NaN.
    """
    name = "conv2d_channels_last"
    if x.ndim != 4 or weight.ndim != 4:
        raise ValueError(f"{name}: takes (N, H, W, C), got {describe(x)}, weight {describe(weight)}")
    outputs, inner, *kernel = weight.shape
    if groups < 1 or x.shape[3] != inner * groups or outputs % groups:
        raise ValueError(f"{name}: {describe(x)} does not fit weight {describe(weight)} in {groups} groups")
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"{name}: bias {describe(bias)} does not fit weight {describe(weight)}")
    steps, apart = _distances(stride, 2, name, "stride"), _distances(dilation, 2, name, "dilation")
    sides = tuple(_widths(padding, (kernel[0], kernel[1]), apart, name))
    out = [
        (n + sum(both) - d * (k - 1) - 1) // s + 1
        for n, both, k, s, d in zip(x.shape[1:3], sides, kernel, steps, apart, strict=True)
    ]
    if min(out) < 1:
        raise ValueError(f"{name}: {describe(x)} is smaller than a window of {describe(weight)}")
    if residual is not None and residual.shape != (x.shape[0], *out, outputs):
        raise ValueError(f"{name}: residual {describe(residual)}, expected {(x.shape[0], *out, outputs)}")
    return _convolution_channels_last(x, weight, bias, residual, packed, steps, sides, apart, groups, low, high)


@op()
def _packed_convolution_weight(weight: Tensor, groups: int) -> Tensor:
    return weight


@function()
def pack_convolution_weight(weight: Tensor, groups: int = 1) -> Tensor:
    """A weight (O, C / groups, KH, KW) in the order in which the kernels of this machine read it, for `packed` of
    conv2d_channels_last: not to be kept in a file.
    """
    if weight.ndim != 4 or groups < 1 or weight.shape[0] % groups:
        raise ValueError(f"pack_convolution_weight: weight {describe(weight)} does not fit {groups} groups")
    return _packed_convolution_weight(weight, groups)


@op()
def _pool_channels_last(x: Tensor, kernel: Pair, stride: Pair, sides: Sides, mean: bool, whole: bool) -> Tensor:
    """The largest elements or the means of windows; `whole`: padding counts for the mean."""

    def windows(x: Tensor, fill: float) -> Tensor:
        seen = _viewed(_padded(permute(x, (0, 3, 1, 2)), list(sides), fill), kernel, stride, (1, 1), "pool")
        return reshape(seen, (*seen.shape[:4], prod(kernel)))  # (N, C, H', W', elements of a window)

    if not mean:
        y = amax(windows(x, -inf), -1)
    elif whole:
        y = windows(x, 0.0).sum(-1) / prod(kernel)
    else:
        inside = ones((1, *x.shape[1:3], 1), dtype=x.dtype, device=x.device)
        y = windows(x, 0.0).sum(-1) / windows(inside, 0.0).sum(-1)
    return permute(y, (0, 2, 3, 1))


def _pool(name: str, x: Tensor, kernel_size: Any, stride: Any, padding: Any, mean: bool, whole: bool) -> Tensor:
    if x.ndim != 4:
        raise ValueError(f"{name}: takes (N, H, W, C), got {describe(x)}")
    kernel = _each(kernel_size, 2, name, "kernel_size")
    steps = kernel if stride is None else _distances(stride, 2, name, "stride")
    sides = tuple(_widths(padding, kernel, (1, 1), name))
    if min(kernel) < 1 or any(not 0 <= width < k for both, k in zip(sides, kernel, strict=True) for width in both):
        raise ValueError(f"{name}: padding {padding} does not fit a kernel of {kernel}")
    if any(n + sum(both) < k for n, both, k in zip(x.shape[1:3], sides, kernel, strict=True)):
        raise ValueError(f"{name}: {describe(x)} is smaller than a window of {kernel}")
    return _pool_channels_last(x, kernel, steps, sides, mean, whole)


@function()
def max_pool2d_channels_last(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """max_pool2d for x (N, H, W, C). padding: a number, numbers, or pairs (before, after)."""
    return _pool("max_pool2d_channels_last", x, kernel_size, stride, padding, False, False)


@function()
def avg_pool2d_channels_last(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True
) -> Tensor:
    """avg_pool2d for x (N, H, W, C). padding: a number, numbers, or pairs (before, after)."""
    return _pool("avg_pool2d_channels_last", x, kernel_size, stride, padding, True, count_include_pad)

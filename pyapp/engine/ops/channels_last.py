"""Convolutions and pools of pictures whose channels lie together, (N, H, W, C): the order in which processors compute
them fastest. A convolution adds its bias, adds another picture, and holds the result between limits in one step.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any, NamedTuple

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


class _Geometry(NamedTuple):
    """Of a convolution: its steps, and the height and width of its result."""

    stride: Pair
    sides: Sides
    dilation: Pair
    out: Pair


def _geometry(
    name: str, shape: Any, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> _Geometry:
    """For a picture of `shape` (N, H, W, C); ValueError where something does not fit."""
    outputs, inner, *kernel = weight._shape
    if groups < 1 or shape[3] != inner * groups or outputs % groups:
        raise ValueError(f"{name}: a picture {tuple(shape)} does not fit weight {describe(weight)} in {groups} groups")
    if bias is not None and bias._shape != (outputs,):
        raise ValueError(f"{name}: bias {describe(bias)} does not fit weight {describe(weight)}")
    (down, right), (below, beside) = _distances(stride, 2, name, "stride"), _distances(dilation, 2, name, "dilation")
    steps, apart = (down, right), (below, beside)
    sides = tuple(_widths(padding, (kernel[0], kernel[1]), apart, name))
    height, width = (
        (n + sum(both) - d * (k - 1) - 1) // s + 1
        for n, both, k, s, d in zip(shape[1:3], sides, kernel, steps, apart, strict=True)
    )
    if min(height, width) < 1:
        raise ValueError(f"{name}: a picture {tuple(shape)} is smaller than a window of {describe(weight)}")
    return _Geometry(steps, sides, apart, (height, width))


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
    found = _geometry(name, x._shape, weight, bias, stride, padding, dilation, groups)
    shape = (x._shape[0], *found.out, weight._shape[0])
    if residual is not None and residual._shape != shape:
        raise ValueError(f"{name}: residual {describe(residual)}, expected {shape}")
    return _convolution_channels_last(
        x, weight, bias, residual, packed, found.stride, found.sides, found.dilation, groups, low, high
    )


@op()
def _expanded_depthwise_channels_last(
    x: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor | None, depth_weight: Tensor,
    depth_bias: Tensor | None, depth_packed: Tensor | None, stride: Pair, sides: Sides, depth_stride: Pair,
    depth_sides: Sides, limits: Pair, depth_limits: Pair,
) -> Tensor:  # fmt: skip
    """Arguments as expanded_depthwise_conv2d_channels_last has checked them."""
    middle = _convolution_channels_last(x, weight, bias, None, packed, stride, sides, (1, 1), 1, *limits)
    return _convolution_channels_last(
        middle, depth_weight, depth_bias, None, depth_packed, depth_stride, depth_sides, (1, 1), middle.shape[3],
        *depth_limits,
    )  # fmt: skip


@function()
def expanded_depthwise_conv2d_channels_last(
    x: Tensor, weight: Tensor, bias: Tensor | None, depth_weight: Tensor, depth_bias: Tensor | None,
    stride: Any = 1, padding: Any = 0, depth_stride: Any = 1, depth_padding: Any = 0, low: float = -inf,
    high: float = inf, depth_low: float = -inf, depth_high: float = inf, packed: Tensor | None = None,
    depth_packed: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """conv2d_channels_last with weight (O, C, KH, KW), then with depth_weight (O, 1, KH', KW') in O groups, as the
    blocks of MobileNet v2 have them (Sandler et al. 2018, arXiv 1801.04381): what lies between, (N, H', W', O), is not
    held as a whole where it is large. x is (N, H, W, C), the result (N, H'', W'', O).
    """
    name = "expanded_depthwise_conv2d_channels_last"
    if x.ndim != 4:
        raise ValueError(f"{name}: takes (N, H, W, C), got {describe(x)}")
    if depth_weight.ndim != 4 or weight.ndim != 4 or depth_weight._shape[:2] != (weight._shape[0], 1):
        raise ValueError(f"{name}: {describe(depth_weight)} has not one kernel for each output of {describe(weight)}")
    first = _geometry(name, x._shape, weight, bias, stride, padding, 1, 1)
    middle = (x._shape[0], *first.out, weight._shape[0])
    second = _geometry(name, middle, depth_weight, depth_bias, depth_stride, depth_padding, 1, weight._shape[0])
    return _expanded_depthwise_channels_last(
        x, weight, bias, packed, depth_weight, depth_bias, depth_packed, first.stride, first.sides, second.stride,
        second.sides, (low, high), (depth_low, depth_high),
    )  # fmt: skip


@op()
def _packed_convolution_weight(weight: Tensor, groups: int) -> Tensor:
    return weight


@function()
def pack_convolution_weight(weight: Tensor, groups: int = 1) -> Tensor:
    """A weight (O, C / groups, KH, KW) in the order in which the kernels of this machine read it, for `packed` of
    conv2d_channels_last: not to be kept in a file.
    """
    if weight.ndim != 4 or groups < 1 or weight._shape[0] % groups:
        raise ValueError(f"pack_convolution_weight: weight {describe(weight)} does not fit {groups} groups")
    return _packed_convolution_weight(weight, groups)


@op()
def _pool_channels_last(x: Tensor, kernel: Pair, stride: Pair, sides: Sides, mean: bool, whole: bool) -> Tensor:
    """The largest elements or the means of windows; `whole`: padding counts for the mean."""

    def windows(x: Tensor, fill: float) -> Tensor:
        seen = _viewed(_padded(permute(x, (0, 3, 1, 2)), list(sides), fill), kernel, stride, (1, 1), "pool")
        return reshape(seen, (*seen._shape[:4], prod(kernel)))  # (N, C, H', W', elements of a window)

    if not mean:
        y = amax(windows(x, -inf), -1)
    elif whole:
        y = windows(x, 0.0).sum(-1) / prod(kernel)
    else:
        inside = ones((1, *x._shape[1:3], 1), dtype=x.dtype, device=x.device)
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
    if any(n + sum(both) < k for n, both, k in zip(x._shape[1:3], sides, kernel, strict=True)):
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

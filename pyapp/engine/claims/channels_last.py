"""Convolutions and pools of pictures whose channels lie together. The page has no kernels for them."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..launch import KERNELS
from ..native import IN_BROWSER, get_num_threads
from ..op import claims
from ..operands import dense, is_plain
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous

_PACK, _CONVOLUTION, _DEPTHWISE, _EXPANDED, _POOL = (
    KERNELS[n]
    for n in (
        "pack_convolution_f32",
        "convolution_channels_last_f32",
        "depthwise_channels_last_f32",
        "expanded_depthwise_channels_last_f32",
        "pool_channels_last_f32",
    )
)
_F32 = _dtype.float32
_PANEL = 64  # no kernel takes more outputs together
# Bytes between a convolution and a depthwise one from which on they are not held as a whole, and of the lines that are.
_LARGE, _KEPT = 1 << 20, 256 << 10
MOST_TAPS, MOST_CHANNELS = 512, 2048  # of a window; of a group whose windows reach over the edge


def _out(sizes: Any, kernel: Any, stride: Any, sides: Any, dilation: Any = (1, 1)) -> tuple[int, ...]:
    rule = zip(sizes, kernel, stride, sides, dilation, strict=True)
    return tuple((n + sum(both) - d * (k - 1) - 1) // s + 1 for n, k, s, both, d in rule)


def _is_depthwise(weight: Tensor, groups: int) -> bool:
    return weight._shape[1] == 1 < groups == weight._shape[0]


def _order(weight: Tensor, groups: int) -> Tensor:
    """A dense weight as the kernels read it."""
    outputs, inner, *kernel = weight._shape
    if _is_depthwise(weight, groups):
        return dense(weight.permute(2, 3, 0, 1))  # (KH, KW, C, 1)
    packed = empty_contiguous((_packed_size(weight, groups),), _F32, weight.device)
    _PACK.launch(weight.numel() >> 8, packed, dense(weight), groups, outputs // groups, inner, prod(kernel))
    return packed


def _packed_size(weight: Tensor, groups: int) -> int:
    """How many floats `_order` gives."""
    outputs, inner, *kernel = weight._shape
    if _is_depthwise(weight, groups):
        return weight.numel()
    return groups * (outputs // groups + _PANEL - 1) * inner * prod(kernel)


def _checked(packed: Tensor | None, weight: Tensor, groups: int) -> Tensor:
    """The weight as the kernels read it."""
    if packed is None:
        return _order(weight.detach(), groups)
    if not is_plain(packed) or packed.numel() != _packed_size(weight, groups):
        raise ValueError("conv2d_channels_last: packed is not what pack_convolution_weight(weight, groups) gave")
    return packed


@claims("_packed_convolution_weight")
def _packed(weight: Tensor, groups: int) -> Any:
    if IN_BROWSER or weight.dtype is not _F32 or not weight.numel():
        return NotImplemented
    return _order(weight.detach(), groups)


@claims("_convolution_channels_last")
def _convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, packed: Tensor | None, stride: Any,
    sides: Any, dilation: Any, groups: int, low: float, high: float,
) -> Any:  # fmt: skip
    if IN_BROWSER or not x.dtype is weight.dtype is _F32 or not x.numel() or not weight.numel():
        return NotImplemented
    if (bias is not None and not is_plain(bias)) or (residual is not None and residual.dtype is not _F32):
        return NotImplemented
    outputs, inner, *kernel = weight._shape
    out = _out(x._shape[1:3], kernel, stride, sides, dilation)
    y = empty_contiguous((x._shape[0], *out, outputs), _F32, x.device)
    order = _checked(packed, weight, groups)
    work = y.numel() * inner * prod(kernel) >> 10
    geometry = (*x._shape[1:3], *kernel, *stride, sides[0][0], sides[1][0], *dilation, *out)
    if _is_depthwise(weight, groups):
        if residual is not None:
            return NotImplemented
        _DEPTHWISE.launch(work, y, dense(x), order, bias, x._shape[0], x._shape[3], *geometry, low, high)
        return y
    padded = any(width > 0 for both in sides for width in both)
    if prod(kernel) > MOST_TAPS or (padded and inner > MOST_CHANNELS):
        return NotImplemented
    _CONVOLUTION.launch(
        work, y, dense(x), order, bias, None if residual is None else dense(residual), x._shape[0], groups, inner,
        outputs // groups, *geometry, low, high,
    )  # fmt: skip
    return y


@claims("_expanded_depthwise_channels_last")
def _expand(
    x: Tensor, weight: Tensor, bias: Tensor | None, packed: Tensor | None, depth_weight: Tensor,
    depth_bias: Tensor | None, depth_packed: Tensor | None, stride: Any, sides: Any, depth_stride: Any,
    depth_sides: Any, limits: Any, depth_limits: Any,
) -> Any:  # fmt: skip
    if IN_BROWSER or not x.dtype is weight.dtype is depth_weight.dtype is _F32 or not x.numel() or not weight.numel():
        return NotImplemented
    if any(b is not None and not is_plain(b) for b in (bias, depth_bias)):
        return NotImplemented
    channels, inner, *kernel = weight._shape
    depth_kernel = depth_weight._shape[2:]
    middle = _out(x._shape[1:3], kernel, stride, sides)
    line = 4 * middle[1] * channels  # bytes
    padded = any(width > 0 for both in sides for width in both)
    if x._shape[0] * middle[0] * line < _LARGE or depth_kernel[0] * line > _KEPT:
        return NotImplemented
    # The weight of one channel is packed as that of a plain convolution.
    if channels == 1 or prod(kernel) > MOST_TAPS or (padded and inner > MOST_CHANNELS):
        return NotImplemented
    out = _out(middle, depth_kernel, depth_stride, depth_sides)
    y = empty_contiguous((x._shape[0], *out, channels), _F32, x.device)
    workers = max(1, min(x._shape[0] * out[0], get_num_threads()))
    scratch = Storage(depth_kernel[0] * line * workers, x.device)
    _EXPANDED.launch(
        x._shape[0] * prod(middle) * channels * inner * prod(kernel) >> 10, y, dense(x),
        _checked(packed, weight, 1), bias, _checked(depth_packed, depth_weight, channels), depth_bias, scratch,
        x._shape[0], inner, channels, *x._shape[1:3], *kernel, *stride, sides[0][0], sides[1][0], *middle,
        *depth_kernel, *depth_stride, depth_sides[0][0], depth_sides[1][0], *out, workers, *limits, *depth_limits,
    )  # fmt: skip
    return y


@claims("_pool_channels_last")
def _pool(x: Tensor, kernel: Any, stride: Any, sides: Any, mean: bool, whole: bool) -> Any:
    if IN_BROWSER or x.dtype is not _F32 or not x.numel():
        return NotImplemented
    out = _out(x._shape[1:3], kernel, stride, sides)
    y = empty_contiguous((x._shape[0], *out, x._shape[3]), _F32, x.device)
    _POOL.launch(
        y.numel() * prod(kernel) >> 10, y, dense(x), x._shape[0], x._shape[3], int(mean), int(whole), *x._shape[1:3],
        *kernel, *stride, sides[0][0], sides[1][0], *out,
    )  # fmt: skip
    return y

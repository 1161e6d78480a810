"""Convolutions: windows of the input as rows of one matrix product; gradients follow from the parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ..autocast import in_lower_precision, lower_precision
from ..declare import function
from ..op import op
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import fused_gradient
from .linalg.products import matmul
from .padding import pad
from .sliding_windows import _add_windows, windows
from .view import permute, reshape


def _each(value: int | Sequence[int], dims: int, name: str, what: str) -> tuple[int, ...]:
    """One number for each spatial dim."""
    found = (value,) * dims if isinstance(value, int) else tuple(int(v) for v in value)
    if len(found) == 1:
        found = found * dims
    if len(found) != dims:
        raise ValueError(f"{name}: {what} {value} does not name {dims} dims")
    return found


_LARGEST_STEP = 2**31 - 1  # as torch's


def _distances(value: int | Sequence[int], dims: int, name: str, what: str) -> tuple[int, ...]:
    """A stride or dilation for each spatial dim."""
    found = _each(value, dims, name, what)
    if not 0 < min(found) <= max(found) <= _LARGEST_STEP:
        raise ValueError(f"{name}: a {what} is at least 1 and below 2**31, not {value}")
    return found


def _widths(padding: Any, kernel: tuple[int, ...], dilation: tuple[int, ...], name: str) -> list[tuple[int, int]]:
    """(before, after) of each spatial dim: from numbers, such pairs, "valid" or "same" (the odd one after, as in
    torch).
    """
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return [(t // 2, t - t // 2) for t in totals]
    if isinstance(padding, str):
        raise ValueError(f"{name}: padding is a number, numbers, 'same' or 'valid', not {padding!r}")
    if not isinstance(padding, int) and any(isinstance(p, (tuple, list)) for p in padding):
        pairs = [(p, p) if isinstance(p, int) else tuple(int(v) for v in p) for p in padding]
        if len(pairs) != len(kernel) or any(len(p) != 2 for p in pairs):
            raise ValueError(f"{name}: padding {padding} does not name (before, after) for {len(kernel)} dims")
        return pairs  # type: ignore[return-value]
    sides = _each(padding, len(kernel), name, "padding")
    if any(side < 0 for side in sides):
        raise ValueError(f"{name}: padding {padding} is negative; cut the input with narrow() or slices")
    return [(side, side) for side in sides]


def _padded(x: Tensor, widths: list[tuple[int, int]], value: float = 0.0) -> Tensor:
    return pad(x, [n for pair in reversed(widths) for n in pair], value=value)


def _viewed(
    x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], name: str
) -> Tensor:
    """x (..., *spatial) → (..., *out, *kernel), a view."""
    first = x.ndim - len(kernel)
    for i, (size, step, apart) in enumerate(zip(kernel, stride, dilation, strict=True)):
        x = windows(x, first + i, size, step, apart, name)
    return x


def _channels_differ(name: str, x: Tensor, weight: Tensor, groups: int, wanted: int, given: int) -> ValueError:
    told = f"expected input{list(x.shape)} to have {wanted} channels, but got {given} channels instead"
    return ValueError(
        f"{name}: Given groups={groups}, weight of size {list(weight.shape)}, {told}: {describe(x)} does not fit "
        f"weight {describe(weight)} in {groups} groups"
    )


@in_lower_precision
def _conv(
    name: str, dims: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Tensor:  # fmt: skip
    if weight.ndim != dims + 2 or x.ndim not in (dims + 1, dims + 2):
        raise ValueError(
            f"{name}: Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input: takes (N, C, {dims} dims) or "
            f"without N, got {describe(x)}, weight {describe(weight)}"
        )
    outputs, inner = weight._shape[:2]
    if groups < 1 or x._shape[-dims - 1] != inner * groups or outputs % groups:
        raise _channels_differ(name, x, weight, groups, inner * groups, x._shape[-dims - 1])
    if bias is not None and bias._shape != (outputs,):
        raise ValueError(f"{name}: bias {describe(bias)} does not fit weight {describe(weight)}")
    if weight.dtype is not x.dtype or (bias is not None and bias.dtype is not x.dtype):
        raise TypeError(
            f"{name}: Input type and weight type should be the same: {describe(x)}, weight {describe(weight)} and bias "
            f"{describe(bias)} differ in dtype"
        )
    if x.ndim == dims + 1:
        return _conv(name, dims, x.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    settings = name, weight._shape[2:], stride, padding, dilation
    try:
        steps, sides, apart = _geometry(*settings)
    except TypeError:  # lists; or what is no number, which is said again
        steps, sides, apart = _geometry.__wrapped__(*settings)
    return _convolution(x, weight, bias, steps, sides, apart, groups)


@lru_cache(1024, typed=True)
def _geometry(name: str, kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> Any:
    """(strides, (before, after) of each dim, dilations), checked."""
    dims = len(kernel)
    steps, apart = _distances(stride, dims, name, "stride"), _distances(dilation, dims, name, "dilation")
    if padding == "same" and any(s != 1 for s in steps):
        raise ValueError(f"{name}: padding 'same' takes a stride of 1, not {steps}")
    return steps, tuple(_widths(padding, kernel, apart, name)), apart


@op(autocast=lower_precision)
def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...], sides: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...], groups: int,
) -> Tensor:  # fmt: skip
    """x (N, C, *spatial), checked; `sides`: (before, after) of each spatial dim."""
    dims, (outputs, inner, *kernel) = len(stride), weight._shape
    seen = _viewed(_padded(x, list(sides)), tuple(kernel), stride, dilation, f"conv{dims}d")
    out = seen._shape[2 : 2 + dims]
    batch, depth = x._shape[0], inner * prod(kernel)
    seen = reshape(seen, (batch, groups, inner, *out, *kernel))
    spatial = range(3, 3 + dims)
    rows = permute(seen, (1, 2, *range(3 + dims, 3 + 2 * dims), 0, *spatial))  # (G, C, *kernel, N, *out)
    rows = reshape(rows, (groups, depth, batch * prod(out)))
    result = matmul(reshape(weight, (groups, outputs // groups, depth)), rows)
    result = permute(reshape(result, (outputs, batch, *out)), (1, 0, *range(2, 2 + dims))).contiguous()
    return result if bias is None else result + reshape(bias, (outputs,) + (1,) * dims)


convolution_backward = fused_gradient(_convolution)
_convolution.reads = lambda edges: (0, 1)  # not the bias


@function()
def conv1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation: x (N, C, L), weight (O, C / groups, K), bias (O,) → (N, O, L'). padding: a number, "same",
    "valid", or pairs (before, after) for each dim.
    """
    return _conv("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


@function()
def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation: x (N, C, H, W), weight (O, C / groups, KH, KW), bias (O,) → (N, O, H', W')."""
    return _conv("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


@function()
def conv3d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation: x (N, C, D, H, W), weight (O, C / groups, KD, KH, KW), bias (O,) → (N, O, D', H', W')."""
    return _conv("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    name: str, dims: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    """Each element of x spreads the weight over the output: the transpose of _conv in x."""
    if weight.ndim != dims + 2 or x.ndim not in (dims + 1, dims + 2):
        raise ValueError(
            f"{name}: Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input: takes (N, C, {dims} dims) or "
            f"without N, got {describe(x)}, weight {describe(weight)}"
        )
    inputs, inner = weight._shape[:2]
    if groups < 1 or x._shape[-dims - 1] != inputs or inputs % groups:
        raise _channels_differ(name, x, weight, groups, inputs, x._shape[-dims - 1])
    if bias is not None and bias._shape != (inner * groups,):
        raise ValueError(f"{name}: bias {describe(bias)} does not fit weight {describe(weight)} in {groups} groups")
    if x.ndim == dims + 1:
        return _conv_transpose(
            name, dims, x.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation
        ).squeeze(0)
    kernel = _distances(weight._shape[2:], dims, name, "kernel size")
    steps, apart = _distances(stride, dims, name, "stride"), _distances(dilation, dims, name, "dilation")
    more = _each(output_padding, dims, name, "output_padding")
    if any(m >= max(s, d) for m, s, d in zip(more, steps, apart, strict=True)):
        raise ValueError(f"{name}: output_padding {more} must be smaller than stride {steps} or dilation {apart}")
    sides = tuple((a, b - m) for (a, b), m in zip(_widths(padding, kernel, apart, name), more, strict=True))
    return _convolution_transpose(x, weight, bias, steps, sides, apart, groups)


@op(autocast=lower_precision)
def _convolution_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...], sides: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...], groups: int,
) -> Tensor:  # fmt: skip
    """x (N, C, *spatial), checked; `sides`: widths to crop (to add, if negative) before and after each spatial dim."""
    dims, (inputs, inner, *kernel) = len(stride), weight._shape
    batch, spatial = x._shape[0], x._shape[2:]
    count = prod(spatial)
    columns = permute(reshape(x, (batch, groups, inputs // groups, count)), (1, 2, 0, 3))
    columns = reshape(columns, (groups, inputs // groups, batch * count))
    matrix = reshape(weight, (groups, inputs // groups, inner * prod(kernel)))
    spread = reshape(matmul(matrix.mT, columns), (groups, inner, *kernel, batch, *spatial))
    order = (2 + dims, 0, 1, *range(3 + dims, 3 + 2 * dims), *range(2, 2 + dims))
    y = reshape(permute(spread, order), (batch, groups * inner, *spatial, *kernel))
    for i in reversed(range(dims)):
        total = (spatial[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
        y = _add_windows(y, total, 2 + i, stride[i], dilation[i])
    y = pad(y, [-n for pair in reversed(sides) for n in pair])
    return y if bias is None else y + reshape(bias, (inner * groups,) + (1,) * dims)


convolution_transpose_backward = fused_gradient(_convolution_transpose)
_convolution_transpose.reads = lambda edges: (0, 1)


@function()
def conv_transpose1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The gradient of conv1d in its input, as a layer: x (N, C, L), weight (C, O / groups, K), bias (O,) → (N, O, L')
    with L' = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1.
    """
    return _conv_transpose(
        "conv_transpose1d", 1, x, weight, bias, stride, padding, output_padding, groups, dilation
    )  # fmt: skip


@function()
def conv_transpose2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """conv_transpose1d for x (N, C, H, W), weight (C, O / groups, KH, KW)."""
    return _conv_transpose(
        "conv_transpose2d", 2, x, weight, bias, stride, padding, output_padding, groups, dilation
    )  # fmt: skip


@function()
def conv_transpose3d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """conv_transpose1d for x (N, C, D, H, W), weight (C, O / groups, KD, KH, KW)."""
    return _conv_transpose(
        "conv_transpose3d", 3, x, weight, bias, stride, padding, output_padding, groups, dilation
    )  # fmt: skip


def im2col(x: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """torch.nn.functional.unfold: the patches of x (N, C, H, W) as columns (N, C KH KW, patches)."""
    if x.ndim not in (3, 4):
        raise ValueError(f"unfold: takes (N, C, H, W) or (C, H, W), got {describe(x)}")
    if x.ndim == 3:
        return im2col(x.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    kernel, apart = _each(kernel_size, 2, "unfold", "kernel_size"), _each(dilation, 2, "unfold", "dilation")
    wide = _padded(x, _widths(padding, kernel, apart, "unfold"))
    seen = _viewed(wide, kernel, _each(stride, 2, "unfold", "stride"), apart, "unfold")  # (N, C, *out, *kernel)
    columns = permute(seen, (0, 1, 4, 5, 2, 3))
    return reshape(columns, (x._shape[0], x._shape[1] * prod(kernel), seen._shape[2] * seen._shape[3]))


def col2im(
    x: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """torch.nn.functional.fold: columns (N, C KH KW, patches), summed at their places in the image → (N, C, H, W)."""
    if x.ndim not in (2, 3):
        raise ValueError(f"fold: takes (N, C KH KW, patches), got {describe(x)}")
    if x.ndim == 2:
        return col2im(x.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    size, kernel, apart, steps, margins = (
        _each(v, 2, "fold", what)
        for v, what in (
            (output_size, "output_size"), (kernel_size, "kernel_size"), (dilation, "dilation"), (stride, "stride"),
            (padding, "padding"),
        )
    )  # fmt: skip
    wide = [n + 2 * m for n, m in zip(size, margins, strict=True)]
    out = [(w - d * (k - 1) - 1) // s + 1 for w, d, k, s in zip(wide, apart, kernel, steps, strict=True)]
    channels = x._shape[1] // prod(kernel)
    if channels * prod(kernel) != x._shape[1] or min(out) < 1 or prod(out) != x._shape[2]:
        raise ValueError(f"fold: {describe(x)} does not hold patches {kernel} of {size}: {out[0]} x {out[1]} of them")
    # The rows of the pictures stay the last dims, in which elements are neighbours.
    y = permute(reshape(x, (x._shape[0], channels, *kernel, *out)), (0, 1, 2, 4, 5, 3))  # (N, C, KH, H', W', KW)
    y = _add_windows(y, wide[1], 4, steps[1], apart[1])  # (N, C, KH, H', W)
    y = _add_windows(permute(y, (0, 1, 3, 4, 2)), wide[0], 2, steps[0], apart[0])
    return pad(y, (-margins[1], -margins[1], -margins[0], -margins[0]))

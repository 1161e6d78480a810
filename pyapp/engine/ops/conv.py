"""Convolutions and pooling: windows of the input as rows of one matrix product; gradients follow from the parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..op import describe, op
from ..tensor import Tensor
from .matmul import matmul
from .rearrange import pad, windows
from .view import permute, reshape


def _each(value: int | Sequence[int], dims: int, name: str, what: str) -> tuple[int, ...]:
    """One number for each spatial dim."""
    found = (value,) * dims if isinstance(value, int) else tuple(int(v) for v in value)
    if len(found) == 1:
        found = found * dims
    if len(found) != dims:
        raise ValueError(f"{name}: {what} {value} does not name {dims} dims")
    return found


def _widths(padding: Any, kernel: tuple[int, ...], dilation: tuple[int, ...], name: str) -> list[tuple[int, int]]:
    """(before, after) of each spatial dim: from numbers, "valid" or "same" (the odd one after, as in torch)."""
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return [(t // 2, t - t // 2) for t in totals]
    if isinstance(padding, str):
        raise ValueError(f"{name}: padding is a number, numbers, 'same' or 'valid', not {padding!r}")
    return [(p, p) for p in _each(padding, len(kernel), name, "padding")]


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


def _conv(
    name: str, dims: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Tensor:  # fmt: skip
    if weight.ndim != dims + 2 or x.ndim not in (dims + 1, dims + 2):
        raise ValueError(
            f"{name}: takes (N, C, {dims} dims) or without N, got {describe(x)}, weight {describe(weight)}"
        )
    outputs, inner = weight.shape[:2]
    if groups < 1 or x.shape[-dims - 1] != inner * groups or outputs % groups:
        raise ValueError(f"{name}: {describe(x)} does not fit weight {describe(weight)} in {groups} groups")
    if bias is not None and bias.shape != (outputs,):
        raise ValueError(f"{name}: bias {describe(bias)} does not fit weight {describe(weight)}")
    if x.ndim == dims + 1:
        return _conv(name, dims, x.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    kernel = weight.shape[2:]
    steps, apart = _each(stride, dims, name, "stride"), _each(dilation, dims, name, "dilation")
    if padding == "same" and any(s != 1 for s in steps):
        raise ValueError(f"{name}: padding 'same' takes a stride of 1, not {steps}")
    seen = _viewed(_padded(x, _widths(padding, kernel, apart, name)), kernel, steps, apart, name)
    out = seen.shape[2 : 2 + dims]
    batch, depth = x.shape[0], inner * prod(kernel)
    seen = reshape(seen, (batch, groups, inner, *out, *kernel))
    spatial = range(3, 3 + dims)
    rows = permute(seen, (1, 2, *range(3 + dims, 3 + 2 * dims), 0, *spatial))  # (G, C, *kernel, N, *out)
    rows = reshape(rows, (groups, depth, batch * prod(out)))
    result = matmul(reshape(weight, (groups, outputs // groups, depth)), rows)
    result = permute(reshape(result, (outputs, batch, *out)), (1, 0, *range(2, 2 + dims)))
    return result if bias is None else result + reshape(bias, (outputs,) + (1,) * dims)


@op()
def _conv1d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """The plain case, which devices may have kernels for: x (N, C, L), one group, neighbouring elements."""
    return _conv("conv1d", 1, x, weight, bias, stride, padding, 1, 1)


def conv1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation: x (N, C, L), weight (O, C / groups, K), bias (O,) → (N, O, L'). padding: a number, "same" or
    "valid"."""
    step, margin, apart = (v[0] if isinstance(v, tuple) and len(v) == 1 else v for v in (stride, padding, dilation))
    if x.ndim == 3 and apart == 1 == groups and isinstance(step, int) and isinstance(margin, int):
        return _conv1d(x, weight, bias, step, margin)
    return _conv("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation: x (N, C, H, W), weight (O, C / groups, KH, KW), bias (O,) → (N, O, H', W')."""
    return _conv("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation: x (N, C, D, H, W), weight (O, C / groups, KD, KH, KW), bias (O,) → (N, O, D', H', W')."""
    return _conv("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)


def _pooled(
    name: str, dims: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, fill: float
) -> Tensor:
    """The windows of a pool, (..., *out, elements)."""
    if x.ndim not in (dims + 1, dims + 2):
        raise ValueError(f"{name}: takes (N, C, {dims} dims) or without N, got {describe(x)}")
    kernel = _each(kernel_size, dims, name, "kernel_size")
    steps = kernel if stride is None else _each(stride, dims, name, "stride")
    margins = _each(padding, dims, name, "padding")
    if any(m > k // 2 for m, k in zip(margins, kernel, strict=True)):
        raise ValueError(f"{name}: padding {margins} is more than half of the kernel {kernel}")
    wide = _padded(x, [(m, m) for m in margins], fill)
    seen = _viewed(wide, kernel, steps, _each(dilation, dims, name, "dilation"), name)
    return reshape(seen, (*seen.shape[: seen.ndim - dims], prod(kernel)))


def _max_pool(name: str, dims: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> Tensor:
    seen = _pooled(name, dims, x, kernel_size, stride, padding, dilation, float("-inf"))
    if not seen.numel():
        return seen.sum(-1)
    return seen.gather(-1, seen.detach().argmax(-1, True)).squeeze(-1)  # of equals the first has the gradient


def _avg_pool(
    name: str, dims: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool
) -> Tensor:
    total = _pooled(name, dims, x, kernel_size, stride, padding, 1, 0.0)
    if count_include_pad:
        return total.mean(-1)
    from .create import ones

    inside = ones((1,) * (x.ndim - dims) + x.shape[x.ndim - dims :], dtype=x.dtype)
    return total.sum(-1) / _pooled(name, dims, inside, kernel_size, stride, padding, 1, 0.0).sum(-1)


def max_pool1d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """Largest of each window of (N, C, L); the stride is the kernel's size unless given."""
    return _max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation)


def max_pool2d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """Largest of each window of (N, C, H, W); the stride is the kernel's size unless given."""
    return _max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation)


def avg_pool1d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, *, count_include_pad: bool = True
) -> Tensor:
    """Mean of each window of (N, C, L)."""
    return _avg_pool("avg_pool1d", 1, x, kernel_size, stride, padding, count_include_pad)


def avg_pool2d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, *, count_include_pad: bool = True
) -> Tensor:
    """Mean of each window of (N, C, H, W)."""
    return _avg_pool("avg_pool2d", 2, x, kernel_size, stride, padding, count_include_pad)

"""Convolutions in one to three dims, as products with windows that the kernel packs directly from the input. All are
written for three spatial dims; fewer dims get leading sizes of 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..launch import KERNELS, Kernel, Part, launch_all
from ..op import OPS, claims
from ..operands import dense, is_plain
from ..ops.view import copy_strided
from ..shape import contiguous_strides
from ..tensor import Tensor, empty_contiguous, make
from .layouts import fill_zero

_F32 = _dtype.float32
_MATMUL, _WINDOWS, _DEPTHWISE = KERNELS["matmul_f32"], KERNELS["windows_f32"], KERNELS["depthwise_f32"]
_FILL, _COPY = KERNELS["fill_f32"], KERNELS["copy_strided"]
_SLACK = 128  # floats that the kernel may read past the last window
_FEW_ROWS = 2  # of a group: the kernel packs nothing
_FEW_PIXELS = 512  # of a batch entry: fewer, and several entries share the panels of the product

Three = tuple[int, ...]
Sides = tuple[tuple[int, int], ...]


class _Steps(NamedTuple):
    """The geometry of windows: stride, (before, after) of the padding (negative: cropped), dilation; and the groups."""

    stride: Three
    sides: Sides
    dilation: Three
    groups: int


def _in_three(x: Tensor) -> Tensor:
    """(N, C, *spatial) as (N, C, D, H, W), dense."""
    x = x if x.is_contiguous() else dense(x.detach())
    shape = x._shape[:2] + (1,) * (5 - len(x._shape)) + x._shape[2:]
    return make(x._storage, shape, contiguous_strides(shape), _F32, x.offset)


def _framed(x: Tensor, sides: Sides, channels_last: bool = False) -> Tensor:
    """A copy of x (N, C, D, H, W) with zeros around it and spare memory after it; its strides may put the channels
    last.
    """
    count, shape, strides, inside = _frame(x._shape, x.strides[2:], sides, channels_last)
    memory = empty_contiguous((count,), _F32, x.device)
    fill_zero(memory)
    if inside is not None:
        kept, to, at = inside
        target = make(memory._storage, kept, strides, _F32, to)
        copy_strided(target, make(x._storage, kept, x.strides, _F32, x.offset + at))
    return make(memory._storage, shape, strides, _F32)


@lru_cache(1024)
def _frame(
    whole: Three, spatial: Three, sides: Sides, channels_last: bool
) -> tuple[int, Three, Three, tuple[Three, int, int] | None]:
    """(floats of the memory, shape, strides of x with zeros around it; the shape of what is copied, and where it lies
    there and in x). `spatial`: strides of x."""
    batch, channels, *sizes = whole
    wide = [n + before + after for n, (before, after) in zip(sizes, sides, strict=True)]
    shape = (batch, channels, *wide)
    if channels_last:
        step = contiguous_strides((batch, *wide, channels))
        strides = (step[0], step[4], *step[1:4])
    else:
        strides = contiguous_strides(shape)
    start = [max(0, -before) for before, _ in sides]
    kept = [n - s - max(0, -after) for n, s, (_, after) in zip(sizes, start, sides, strict=True)]
    inside = None
    if min(kept) > 0:
        to = sum(max(0, before) * s for (before, _), s in zip(sides, strides[2:], strict=True))
        inside = (batch, channels, *kept), to, sum(n * s for n, s in zip(start, spatial, strict=True))
    return batch * channels * prod(wide) + _SLACK, shape, strides, inside


@lru_cache(1024)
def _outputs(sizes: Three, kernel: Three, steps: _Steps) -> Three:
    """The number of windows along each dim."""
    rule = zip(sizes, kernel, steps.stride, steps.sides, steps.dilation, strict=True)
    return tuple((n + sum(sides) - d * (k - 1) - 1) // s + 1 for n, k, s, sides, d in rule)


def _times(values: Any, factors: Three) -> Three:
    (a, b, c), (d, e, f) = values, factors  # without a loop: small convolutions spend their time here
    return a * d, b * e, c * f


# ---- every channel by itself


def _is_depthwise(weight: Three, steps: _Steps) -> bool:
    """Whether kernels for one or two dims take it: one input channel for each group, nothing cropped."""
    flat = weight[2] == steps.stride[0] == 1 and steps.sides[0] == (0, 0)
    return flat and weight[1] == 1 < steps.groups and min(side for sides in steps.sides for side in sides) >= 0


def _depthwise_dims(weight: Three, x: Three, out: Three, steps: _Steps) -> tuple[int, ...]:
    """The slots of the three kernels for an input of shape x (N, C, 1, H, W)."""
    return (
        *x[:2], weight[0] // steps.groups, *x[3:], *weight[3:], *steps.stride[1:],
        steps.sides[1][0], steps.sides[2][0], *steps.dilation[1:], *out[1:],
    )  # fmt: skip


# ---- forward


def _are_merged(batch: int, rows: int, out: Three) -> bool:
    """Whether entries of a batch are one product; `rows`: outputs of a group."""
    return batch > 1 and prod(out) < _FEW_PIXELS and rows > _FEW_ROWS


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None, steps: _Steps) -> Tensor:
    """x (N, C, D, H, W), weight (O, C / groups, KD, KH, KW), dense → (N, O, D', H', W')."""
    batch, sizes = x._shape[0], x._shape[2:]
    (outputs, inner), kernel = weight._shape[:2], weight._shape[2:]
    out = _outputs(sizes, kernel, steps)
    if prod(kernel) == 1 and steps.groups == 1 and not any(map(any, steps.sides)):
        return _of_points(x, weight, bias, steps.stride, out)
    if sizes[0] == 1 and _is_depthwise(weight._shape, steps):
        y = empty_contiguous((batch, outputs, *out), _F32, x.device)
        dims = _depthwise_dims(weight._shape, x._shape, out, steps)
        _DEPTHWISE.launch(y.numel() * prod(kernel) >> 10, y, dense(x), weight, bias, *dims)
        return y
    x = _framed(x, steps.sides)
    strides = x.strides[2:]
    merged = _are_merged(batch, outputs // steps.groups, out)
    entries, together = (1, batch) if merged else (batch, 1)
    y = empty_contiguous((entries, outputs, together, *out), _F32, x.device)
    _WINDOWS.launch(batch * outputs * inner * prod(kernel) * prod(out) >> 10, y, weight, x,
        bias, entries, steps.groups, outputs // steps.groups, inner, *kernel,
        x.strides[1], *_times(strides, steps.dilation), together, *out, x.strides[0], *_times(strides, steps.stride),
        x.strides[0], inner * x.strides[1],
    )  # fmt: skip
    if merged:
        return dense(y.permute(2, 1, 3, 4, 5, 0).squeeze(5))
    shape = (batch, outputs, *out)
    return make(y._storage, shape, contiguous_strides(shape), _F32)


def _of_points(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Three, out: Three) -> Tensor:
    """Windows of one point each: a matrix product."""
    batch, channels = x._shape[:2]
    outputs, count = weight._shape[0], prod(out)
    if prod(stride) != 1:
        x = dense(make(x._storage, (batch, channels, *out), (*x.strides[:2], *_times(x.strides[2:], stride)), _F32,
                       x.offset))  # fmt: skip
    y = empty_contiguous((batch, outputs, *out), _F32, x.device)
    _MATMUL.launch(batch * outputs * channels * count >> 10, y, weight, x, batch, outputs, count,
        channels, 0, channels, 1, x.strides[0], count, 1, outputs * count, count,
    )  # fmt: skip
    return y if bias is None else OPS["add"].forward(y, bias.reshape(outputs, 1, 1, 1))


class _Plan(NamedTuple):
    """A convolution of dense tensors: the kernel that does it, the shape of the result, the work, and the sizes in the
    record. `frame`, of a copy of x with zeros around it: its floats, where x begins in it, where what it has of x
    begins there, and the sizes in the record.
    """

    kernel: Kernel
    shape: Three
    work: int
    sizes: tuple[int, ...]
    frame: tuple[int, int, int, tuple[int, ...]] | None = None


@lru_cache(1024)
def _planned(x: Three, weight: Three, stride: Three, sides: Sides, dilation: Three, groups: int) -> _Plan | None:
    """By the shapes; None where entries of the batch are merged, and where there is nothing to do."""
    if min(*x, *weight, *stride, *dilation) < 1:
        return None
    steps = _steps_in_three(_Steps(stride, sides, dilation, groups))
    lead = (1,) * (5 - len(x))
    whole, filters = x[:2] + lead + x[2:], weight[:2] + lead + weight[2:]
    out = _outputs(whole[2:], filters[2:], steps)
    if min(out) < 1:
        return None
    batch, (outputs, inner), taps, count = x[0], weight[:2], prod(weight[2:]), prod(out)
    shape, rows, work = (batch, outputs, *out[len(lead) :]), outputs // groups, batch * outputs * inner * taps * count
    if taps == prod(stride) == groups == 1 and not any(map(any, sides)):
        points = (batch, outputs, count, inner, 0, inner, 1, inner * count, count, 1, outputs * count, count)
        return _Plan(_MATMUL, shape, work >> 10, points)
    if whole[2] == 1 and _is_depthwise(filters, steps):
        return _Plan(_DEPTHWISE, shape, work >> 10, _depthwise_dims(filters, whole, out, steps))
    strides = contiguous_strides(whole)
    floats, _, wide, inside = _frame(whole, strides[2:], steps.sides, False)
    if inside is None or _are_merged(batch, rows, out):
        return None
    (kept, to, at), channel = inside, wide[1]
    frame = floats, to, at, (4, 5, *kept, 0, *wide, 0, *strides, 0)
    windows = (
        batch, groups, rows, inner, *filters[2:], channel, *_times(wide[2:], steps.dilation), 1, *out, wide[0],
        *_times(wide[2:], steps.stride), wide[0], inner * channel,
    )  # fmt: skip
    return _Plan(_WINDOWS, shape, work >> 10, windows, frame)


def _by_plan(x: Tensor, weight: Tensor, bias: Tensor | None, plan: _Plan) -> Tensor:
    """A convolution of dense tensors."""
    kernel, shape, work, sizes, frame = plan
    y = empty_contiguous(shape, _F32, x.device)
    if frame is not None:
        floats, to, at, copy = frame
        memory = empty_contiguous((floats,), _F32, x.device)
        launch_all(
            work,
            (_FILL, memory, floats, 0.0),
            (_COPY, Part(memory, 4 * to), Part(x, 4 * at), *copy),
            (kernel, y, weight, memory, bias, *sizes),
        )
        return y
    if kernel is _DEPTHWISE:
        kernel.launch(work, y, x, weight, bias, *sizes)
        return y
    kernel.launch(work, y, weight, x, *sizes)
    if bias is None:
        return y
    bias = make(bias._storage, (shape[1], *(1,) * (len(shape) - 2)), (1,) * (len(shape) - 1), _F32, bias.offset)
    return OPS["add"].forward(y, bias)


# ---- the ops


def _takes(x: Tensor, weight: Tensor, bias: Tensor | None, steps: _Steps, sizes: Callable[..., Three]) -> bool:
    """float32 with something to do; the definition says what is wrong with others. `sizes`: of the result."""
    if not (x.dtype is weight.dtype is _F32 and x.numel() and weight.numel() and min(steps.stride) > 0):
        return False
    if min(steps.dilation) < 1 or not (bias is None or is_plain(bias)):
        return False
    return min(sizes(x._shape[2:], weight._shape[2:], steps)) > 0


@lru_cache(1024)
def _steps_in_three(steps: _Steps) -> _Steps:
    more = 3 - len(steps.stride)
    ones = (1,) * more
    return _Steps(
        (*ones, *steps.stride), (*((0, 0),) * more, *steps.sides), (*ones, *steps.dilation), steps.groups
    )  # fmt: skip


def _computed(
    x: Tensor, weight: Tensor, bias: Tensor | None, steps: _Steps, sizes: Callable[..., Three],
    forward: Callable[[Tensor, Tensor, Tensor | None, _Steps], Tensor],
) -> Any:  # fmt: skip
    """An op by a function of three spatial dims; `sizes`: those of the result."""
    if not _takes(x, weight, bias, steps, sizes):
        return NotImplemented
    y = forward(_in_three(x), _in_three(weight), bias, _steps_in_three(steps))
    shape = y._shape[:2] + y._shape[5 - len(steps.stride) :]
    return make(y._storage, shape, contiguous_strides(shape), _F32, y.offset)


@claims("_convolution")
def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Three, sides: Sides, dilation: Three, groups: int
) -> Any:
    if is_plain(x) and is_plain(weight) and (bias is None or is_plain(bias)):
        plan = _planned(x._shape, weight._shape, stride, sides, dilation, groups)
        if plan is not None:
            return _by_plan(x, weight, bias, plan)
    return _computed(x, weight, bias, _Steps(stride, sides, dilation, groups), _outputs, _convolve)

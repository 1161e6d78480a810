"""Convolutions in one to three dims and their gradients, as products with windows that the kernel packs directly from
the input. All are written for three spatial dims; fewer dims get leading sizes of 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from math import gcd, prod
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
_MATMUL, _WINDOWS, _SUM_ROWS = (KERNELS[n] for n in ("matmul_f32", "windows_f32", "sum_rows_f32"))
_FILL, _COPY = KERNELS["fill_f32"], KERNELS["copy_strided"]
_MUCH_WORK = 1 << 28  # multiply-adds above which several convolutions are faster than conv_transpose_f32
_CONV_TRANSPOSE = KERNELS["conv_transpose_f32"]
_DEPTHWISE, _DEPTHWISE_INPUT, _DEPTHWISE_WEIGHT = (
    KERNELS[n] for n in ("depthwise_f32", "depthwise_input_backward_f32", "depthwise_weight_backward_f32")
)
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
    x = dense(x.detach())
    shape = x.shape[:2] + (1,) * (5 - len(x.shape)) + x.shape[2:]
    return make(x.storage, shape, contiguous_strides(shape), _F32, x.offset)


def _framed(x: Tensor, sides: Sides, channels_last: bool = False) -> Tensor:
    """A copy of x (N, C, D, H, W) with zeros around it and spare memory after it; its strides may put the channels
    last.
    """
    count, shape, strides, inside = _frame(x.shape, x.strides[2:], sides, channels_last)
    memory = empty_contiguous((count,), _F32, x.device)
    fill_zero(memory)
    if inside is not None:
        kept, to, at = inside
        target = make(memory.storage, kept, strides, _F32, to)
        copy_strided(target, make(x.storage, kept, x.strides, _F32, x.offset + at))
    return make(memory.storage, shape, strides, _F32)


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
    return tuple(v * f for v, f in zip(values, factors, strict=True))


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
    batch, sizes = x.shape[0], x.shape[2:]
    (outputs, inner), kernel = weight.shape[:2], weight.shape[2:]
    out = _outputs(sizes, kernel, steps)
    if prod(kernel) == 1 and steps.groups == 1 and not any(map(any, steps.sides)):
        return _of_points(x, weight, bias, steps.stride, out)
    if sizes[0] == 1 and _is_depthwise(weight.shape, steps):
        y = empty_contiguous((batch, outputs, *out), _F32, x.device)
        dims = _depthwise_dims(weight.shape, x.shape, out, steps)
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
    return make(y.storage, shape, contiguous_strides(shape), _F32)


def _of_points(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Three, out: Three) -> Tensor:
    """Windows of one point each: a matrix product."""
    batch, channels = x.shape[:2]
    outputs, count = weight.shape[0], prod(out)
    if prod(stride) != 1:
        x = dense(make(x.storage, (batch, channels, *out), (*x.strides[:2], *_times(x.strides[2:], stride)), _F32,
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
    bias = make(bias.storage, (shape[1], *(1,) * (len(shape) - 2)), (1,) * (len(shape) - 1), _F32, bias.offset)
    return OPS["add"].forward(y, bias)


# ---- gradients


class _Phase(NamedTuple):
    """Along one dim, the input elements first, first + stride, ... (`size` of them). The taps first_tap, first_tap +
    step, ... (`taps` of them) contribute to them, as a convolution of the outputs with stride 1.
    """

    first: int
    size: int
    first_tap: int
    step: int
    taps: int
    sides: tuple[int, int]
    dilation: int


def _phases(size: int, out: int, kernel: int, stride: int, before: int, dilation: int) -> list[_Phase]:
    """Element i is in window o at tap j if i + before = o * stride + j * dilation."""
    found = []
    step = stride // gcd(stride, dilation)
    for first in range(min(stride, size)):
        count = -(-(size - first) // stride)  # elements
        tap = next((j for j in range(min(step, kernel)) if (first + before - j * dilation) % stride == 0), kernel)
        taps, apart = -(-(kernel - tap) // step), step * dilation // stride
        front = (taps - 1) * apart - (first + before - tap * dilation) // stride
        sides = (front, count + (taps - 1) * apart - out - front)
        found.append(_Phase(first, count, tap, step, taps, sides, apart))
    return found


def _taps_of(weight: Tensor, phases: tuple[_Phase, ...], groups: int) -> Tensor:
    """The taps of weight (O, C / groups, D, H, W) that phases name, last first, as a weight (C, O / groups, ...)."""
    outputs, inner = weight.shape[:2]
    each, strides = outputs // groups, weight.strides
    shape = (groups, inner, each, *(p.taps for p in phases))
    back = tuple(-p.step * s for p, s in zip(phases, strides[2:], strict=True))
    at = sum((p.first_tap + p.step * (p.taps - 1)) * s for p, s in zip(phases, strides[2:], strict=True))
    source = make(weight.storage, shape, (each * strides[0], strides[1], strides[0], *back), _F32, weight.offset + at)
    taps = empty_contiguous(shape, _F32, weight.device)
    copy_strided(taps, source)
    return taps.reshape(groups * inner, *shape[2:])


def _input_gradient(g: Tensor, weight: Tensor, sizes: Three, steps: _Steps, bias: Tensor | None = None) -> Tensor:
    """The gradient in x (N, C, *sizes) from that of the outputs, g (N, O, D', H', W'), plus bias (C,)."""
    if bias is None and sizes[0] == 1 and _is_depthwise(weight.shape, steps):
        grad = empty_contiguous((*g.shape[:1], steps.groups, *sizes), _F32, g.device)
        dims = _depthwise_dims(weight.shape, grad.shape, g.shape[2:], steps)
        _DEPTHWISE_INPUT.launch(g.numel() * prod(weight.shape[2:]) >> 10, grad, dense(g), dense(weight), *dims)
        return grad
    flat = sizes[0] == g.shape[2] == weight.shape[2] == steps.stride[0] == 1
    if flat and prod(steps.stride) > 1 and g.numel() * prod(weight.shape[1:]) < _MUCH_WORK:
        return _transposed_in_two(g, weight, sizes, steps, bias)
    y = _by_phases(g, weight, sizes, steps)
    return y if bias is None else OPS["add"].forward(y, bias.reshape(-1, 1, 1, 1))


def _transposed_in_two(g: Tensor, weight: Tensor, sizes: Three, steps: _Steps, bias: Tensor | None) -> Tensor:
    """The same for one or two dims, in one record."""
    g, weight = dense(g), dense(weight)
    batch, inputs, outputs = g.shape[0], g.shape[1] // steps.groups, weight.shape[1]
    y = empty_contiguous((batch, steps.groups * outputs, *sizes), _F32, g.device)
    _CONV_TRANSPOSE.launch(g.numel() * outputs * prod(weight.shape[2:]) >> 10, y, g, weight, bias,
        batch, steps.groups, inputs, outputs, *g.shape[3:], *weight.shape[3:], *steps.stride[1:],
        steps.sides[1][0], steps.sides[2][0], *steps.dilation[1:], *sizes[1:],
    )  # fmt: skip
    return y


def _by_phases(g: Tensor, weight: Tensor, sizes: Three, steps: _Steps) -> Tensor:
    """The same for any dims, as a convolution of g for each remainder of the stride, without a bias."""
    batch, channels = g.shape[0], weight.shape[1] * steps.groups
    rule = zip(sizes, g.shape[2:], weight.shape[2:], steps.stride, steps.sides, steps.dilation, strict=True)
    along = [_phases(n, out, k, s, before, d) for n, out, k, s, (before, _), d in rule]
    whole = empty_contiguous((batch, channels, *sizes), _F32, g.device)
    if any(p.taps == 0 for phases in along for p in phases):
        fill_zero(whole)
    for phases in product(*along):
        if prod(p.taps for p in phases) == 0:
            continue
        part = _convolve(
            g, _taps_of(weight, phases, steps.groups), None,
            _Steps((1, 1, 1), tuple(p.sides for p in phases), tuple(p.dilation for p in phases), steps.groups),
        )  # fmt: skip
        if prod(steps.stride) == 1:
            return part
        at = sum(p.first * s for p, s in zip(phases, whole.strides[2:], strict=True))
        strides = (*whole.strides[:2], *_times(whole.strides[2:], steps.stride))
        copy_strided(make(whole.storage, part.shape, strides, _F32, at), part)
    return whole


def _weight_gradient(g: Tensor, x: Tensor, weight: Tensor, steps: _Steps, by_output: Callable[[], Tensor]) -> Tensor:
    """The gradient in the weight from that of the outputs, g (N, O, D', H', W'): g by outputs, (O, N, D', H', W'),
    times the windows of x with the channels together, unless each is by itself."""
    outputs, inner, *kernel = weight.shape
    batch, out = g.shape[0], g.shape[2:]
    if x.shape[2] == 1 and _is_depthwise(weight.shape, steps):
        grad = empty_contiguous(weight.shape, _F32, g.device)
        dims = _depthwise_dims(weight.shape, x.shape, out, steps)
        _DEPTHWISE_WEIGHT.launch(g.numel() * prod(kernel) >> 10, grad, dense(x), dense(g), *dims)
        return grad
    x = _framed(x, steps.sides, channels_last=inner > 1)
    strides = x.strides[2:]
    by_tap = empty_contiguous((outputs, *kernel, inner), _F32, g.device)
    _WINDOWS.launch(outputs * inner * prod(kernel) * batch * prod(out) >> 10, by_tap, by_output(), x, None,
        1, steps.groups, outputs // steps.groups, batch, *out, x.strides[0], *_times(strides, steps.stride),
        *kernel, inner, *_times(strides, steps.dilation), 1, 0, inner * x.strides[1],
    )  # fmt: skip
    return dense(by_tap.permute(0, 4, 1, 2, 3))


def _by_output(g: Tensor) -> Callable[[], Tensor]:
    """A function that gives (N, O, ...) as dense (O, N, ...), which is made once."""
    made: list[Tensor] = []

    def by_output() -> Tensor:
        if not made:
            made.append(dense(g.permute(1, 0, 2, 3, 4)))
        return made[0]

    return by_output


def _bias_gradient(by_output: Tensor) -> Tensor:
    """Sums of a gradient (O, N, ...) over all but the first dim."""
    outputs, count = by_output.shape[0], by_output.numel()
    gradient = empty_contiguous((outputs,), _F32, by_output.device)
    _SUM_ROWS.launch(count >> 10, gradient, by_output, outputs, count // outputs, count // outputs)
    return gradient


# ---- the ops


def _takes(x: Tensor, weight: Tensor, bias: Tensor | None, steps: _Steps, sizes: Callable[..., Three]) -> bool:
    """float32 with something to do; the definition says what is wrong with others. `sizes`: of the result."""
    if not (x.dtype is weight.dtype is _F32 and x.numel() and weight.numel() and min(steps.stride) > 0):
        return False
    if min(steps.dilation) < 1 or not (bias is None or is_plain(bias)):
        return False
    return min(sizes(x.shape[2:], weight.shape[2:], steps)) > 0


@lru_cache(1024)
def _steps_in_three(steps: _Steps) -> _Steps:
    more = 3 - len(steps.stride)
    ones = (1,) * more
    return _Steps(
        (*ones, *steps.stride), (*((0, 0),) * more, *steps.sides), (*ones, *steps.dilation), steps.groups
    )  # fmt: skip


def _transposed_sizes(sizes: Three, kernel: Three, steps: _Steps) -> Three:
    """The sizes of a transposed convolution's result, by dim."""
    rule = zip(sizes, kernel, steps.stride, steps.sides, steps.dilation, strict=True)
    return tuple((n - 1) * s + d * (k - 1) + 1 - sum(sides) for n, k, s, sides, d in rule)


def _transposed(x: Tensor, weight: Tensor, bias: Tensor | None, steps: _Steps) -> Tensor:
    """The input's gradient of the convolution whose outputs are x."""
    return _input_gradient(x, weight, _transposed_sizes(x.shape[2:], weight.shape[2:], steps), steps, bias)


def _claim(
    name: str,
    sizes: Callable[..., Three],
    forward: Callable[[Tensor, Tensor, Tensor | None, _Steps], Tensor],
    input_gradient: Callable[[Tensor, Tensor, Three, _Steps], Tensor],
    weight_gradient: Callable[[Tensor, Tensor, Tensor, _Steps, Callable[[], Tensor]], Tensor],
) -> None:
    """Claims an op and its gradient, by functions of three spatial dims; `sizes`: those of the result."""

    @claims("_" + name)
    def compute(
        x: Tensor, weight: Tensor, bias: Tensor | None, stride: Three, sides: Sides, dilation: Three, groups: int
    ) -> Any:
        if forward is _convolve and is_plain(x) and is_plain(weight) and (bias is None or is_plain(bias)):
            plan = _planned(x.shape, weight.shape, stride, sides, dilation, groups)
            if plan is not None:
                return _by_plan(x, weight, bias, plan)
        steps = _Steps(stride, sides, dilation, groups)
        if not _takes(x, weight, bias, steps, sizes):
            return NotImplemented
        y = forward(_in_three(x), _in_three(weight), bias, _steps_in_three(steps))
        shape = y.shape[:2] + y.shape[5 - len(stride) :]
        return make(y.storage, shape, contiguous_strides(shape), _F32, y.offset)

    @claims(name + "_backward")
    def gradients(
        g: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Three, sides: Sides, dilation: Three,
        groups: int,
    ) -> Any:  # fmt: skip
        steps = _Steps(stride, sides, dilation, groups)
        if g.dtype is not _F32 or not _takes(x, weight, bias, steps, sizes):
            return NotImplemented
        grad_x = grad_weight = grad_bias = None
        steps, g3, x3, w3 = _steps_in_three(steps), _in_three(g), _in_three(x), _in_three(weight)
        by_output = _by_output(g3)
        if x.requires_grad:
            grad_x = input_gradient(g3, w3, x3.shape[2:], steps).reshape(*x.shape)
        if weight.requires_grad:
            grad_weight = weight_gradient(g3, x3, w3, steps, by_output).reshape(*weight.shape)
        if bias is not None and bias.requires_grad:
            grad_bias = _bias_gradient(by_output())
        return grad_x, grad_weight, grad_bias


_claim("convolution", _outputs, _convolve, _input_gradient, _weight_gradient)
_claim(
    "convolution_transpose", _transposed_sizes, _transposed,
    lambda g, weight, _, steps: _convolve(g, weight, None, steps),
    lambda g, x, weight, steps, _: _weight_gradient(x, g, weight, steps, _by_output(x)),
)  # fmt: skip
